"""The simple JSONPath of printer columns: fields, quoted fields, indices, `[*]`, and `[?(@.field=="text")]`."""

from __future__ import annotations

import functools
import re
from typing import Any

from ctrlhost.sandbox.apimachinery.objects import at

_STEP = re.compile(
    r"\.([A-Za-z_][-\w]*)"
    r"|\['((?:[^'\\]|\\.)*)'\]|\[\"((?:[^\"\\]|\\.)*)\"\]"
    r"|\[(-?\d+|\*)\]"
    r"|\[\?\(@((?:\.[A-Za-z_][-\w]*)+)\s*==\s*(?:\"([^\"]*)\"|'([^']*)'|(true|false|-?\d+))\)\]"
    r"|\.((?:[^.\[\]\\]|\\.)+)"
)
Step = tuple[str, Any]


@functools.lru_cache(maxsize=1024)
def parse(text: str) -> tuple[Step, ...] | None:
    """Split a path into steps; None if it is invalid."""
    text = text.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if text and not text.startswith((".", "[")):
        return None
    steps: list[Step] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            return None
        plain, single, double, index, field, first, second, bare, escaped = match.groups()
        name = next((text for text in (plain, single, double, escaped) if text is not None), None)
        if name is not None:
            steps.append(("field", re.sub(r"\\(.)", r"\1", name)))
        elif index is not None:
            steps.append(("all", None) if index == "*" else ("index", int(index)))
        else:
            wanted: Any = first if first is not None else second
            if wanted is None:
                wanted = {"true": True, "false": False}.get(bare)
                wanted = int(bare) if wanted is None else wanted
            steps.append(("filter", (tuple(field[1:].split(".")), wanted)))
        position = match.end()
    return tuple(steps)


def find(obj: Any, path: str) -> Any:
    """Return the first value at a path; None if there is none."""
    steps = parse(path)
    values = [obj] if steps is not None else []
    for kind, argument in steps or ():
        values = [found for value in values for found in _follow(value, kind, argument)]
    return values[0] if values else None


def _follow(value: Any, kind: str, argument: Any) -> list[Any]:
    if kind == "field":
        return [value[argument]] if isinstance(value, dict) and argument in value else []
    if kind == "all":
        return list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []
    if not isinstance(value, list):
        return []
    if kind == "index":
        return [value[argument]] if -len(value) <= argument < len(value) else []
    path, wanted = argument
    return [item for item in value if at(item, path) == wanted]
