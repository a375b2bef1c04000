"""Index functions from paths such as `spec.rules[*].host`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ctrlhost.cache import Object

_STEP = re.compile(r"(?P<name>[^.\[\]\"]+)|\[\"(?P<quoted>[^\"]+)\"\]|\[(?P<list>\*)\]|(?P<dot>\.)")


def index_function(by: str | Callable[[Object], Iterable[str] | None]) -> Callable[[Object], Iterable[str] | None]:
    """Return the index function of a path, which returns an object's values; ValueError for an invalid path.

    `[*]` iterates over a list, `["a.b/c"]` names a key with dots. Missing fields and values other than strings are
    skipped.
    """
    if callable(by):
        return by
    first, *steps = parse(by)
    if first is None:
        raise ValueError(f"invalid index path `{by}`: it must begin with a field of the object, not with a list")

    def values(obj: Object) -> list[str]:
        found = _walk(obj.get(first), steps)
        # An object is indexed once under each of its values.
        return list(dict.fromkeys(value for value in found if isinstance(value, str)))

    return values


def parse(path: str) -> list[str | None]:
    """Split a path into field names, and None for each list to iterate over."""
    steps: list[str | None] = []
    at = 0
    while at < len(path):
        match = _STEP.match(path, at)
        # A dot separates two fields: never at an end or next to another dot.
        if match is None or (match["dot"] and (at == 0 or path[at + 1 : at + 2] in ("", "."))):
            raise ValueError(f"invalid index path `{path}`: unexpected character at position {at}")
        if match["list"]:
            steps.append(None)
        elif name := match["name"] or match["quoted"]:
            steps.append(name)
        at = match.end()
    if not steps:
        raise ValueError("invalid index path: it needs at least one field")
    return steps


def _walk(value: Any, steps: list[str | None]) -> Iterator[Any]:
    if value is None:
        return
    if not steps:
        yield value
        return
    step, rest = steps[0], steps[1:]
    if step is not None:
        if hasattr(value, "get"):
            yield from _walk(value.get(step), rest)
    elif not isinstance(value, str) and hasattr(value, "__iter__") and not hasattr(value, "keys"):
        for one in value:
            yield from _walk(one, rest)
