"""The JSONPath of printer columns, in the dialect of client-go; no ranges and no several paths in one."""

from __future__ import annotations

import functools
import itertools
import operator
import re
from collections.abc import Callable
from typing import Any

_NAME = r"(?:[^.,\[\]{}()$@\\]|\\.)+"
_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_STEP = re.compile(
    rf"(?P<deep>\.\.)|\.?(?P<name>(?<=\.){_NAME})|\.(?=\[|$)"
    rf"|\[\s*\?\(\s*@(?P<path>[^\s=!<>)]*)\s*(?:(?P<op>[=!]=|[<>]=?)\s*(?P<value>{_QUOTED}|true|false|-?\d+(?:\.\d+)?)\s*)?\)\s*\]"
    rf"|\[(?P<items>(?:{_QUOTED}|[^\[\]'\"])*)\]"
)
_ITEM = re.compile(rf"(?P<quoted>{_QUOTED})|(?P<start>-?\d+)?(?P<rest>(?::(?:-?\d+)?){{0,2}})")
_MAX_VALUES = 10_000
Step = Callable[[Any], list[Any]]


@functools.lru_cache(maxsize=1024)
def parse(text: str) -> tuple[Step, ...] | None:
    """Split a path into steps, which each lead from a value to others; None if the path is invalid."""
    steps: list[Step] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        step = None if match is None else _step(match)
        if match is None or step is None:
            return None
        steps.append(step)
        # `..name` is a descent, and then `.name`.
        position = match.end() - (match["deep"] is not None)
    return tuple(steps)


def find(obj: Any, path: str) -> Any:
    """Return the first value at a path; None if there is none."""
    steps = parse(path)
    values = [obj] if steps is not None else []
    for step in steps or ():
        # Repeated descents find the same values again.
        values = list(itertools.islice(itertools.chain.from_iterable(map(step, values)), _MAX_VALUES))
    return values[0] if values else None


def _step(match: re.Match[str]) -> Step | None:
    if match["deep"] is not None:
        return _descend
    if (name := match["name"]) is not None:
        return _every if name == "*" else _field(re.sub(r"\\(.)", r"\1", name))
    if (path := match["path"]) is not None:
        return _filter(path, match["op"], match["value"])
    if (items := match["items"]) is not None:
        return _union(items)
    return lambda value: [value]


def _descend(value: Any) -> list[Any]:
    values, level = [], [value]
    while level:
        values += level
        level = [child for item in level for child in _every(item)]
    return values


def _every(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []


def _field(name: str) -> Step:
    return lambda value: [value[name]] if isinstance(value, dict) and name in value else []


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def _filter(path: str, name: str | None, operand: str | None) -> Step | None:
    if parse(path) is None:
        return None
    if name is None or operand is None:
        return lambda value: [item for item in _every(value) if find(item, path) is not None]
    wanted: Any = _unquoted(operand) if operand[0] in "'\"" else None
    if wanted is None:
        wanted = operand == "true" if operand in ("true", "false") else float(operand)
    compare = _OPERATORS[name]

    def fits(item: Any) -> bool:
        actual = find(item, path)
        alike = isinstance(actual, str) == isinstance(wanted, str) and isinstance(actual, bool) == isinstance(
            wanted, bool
        )
        return actual is not None and alike and bool(compare(actual, wanted))

    return lambda value: [item for item in _every(value) if fits(item)]


def _union(items: str) -> Step | None:
    """Return the step of `[…]`: quoted names, indices and slices, separated by commas."""
    if items.strip() in ("", "*"):
        return _every
    steps: list[Step] = []
    position = 0
    while position <= len(items):
        match = _ITEM.match(items, position)
        if match is None or match.end() == position or items[match.end() : match.end() + 1] not in ("", ","):
            return None
        steps.append(_item(match))
        position = match.end() + 1
    return lambda value: [result for step in steps for result in step(value)]


def _item(match: re.Match[str]) -> Step:
    if (quoted := match["quoted"]) is not None:
        # As upstream reads it: dots need a backslash here too.
        path = f".{quoted[1:-1]}"
        return lambda value: [] if (member := find(value, path)) is None else [member]
    if not match["rest"]:
        index = int(match["start"])
        return lambda value: [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else []
    start, end, step = (
        int(part) if part else None for part in f"{match['start'] or ''}{match['rest']}:".split(":")[:3]
    )

    def cut(value: Any) -> list[Any]:
        if not isinstance(value, list) or (end or 0) > len(value) or (step or 1) < 1:
            return []
        return value[start:end:step]

    return cut
