"""The differences between two versions of an object as one line of text, without the values of Secrets."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: The changes, and the characters of a value, that a line shows.
MAX_CHANGES, MAX_VALUE = 20, 200
_MASK = "***"
_MISSING: Any = object()
#: What identifies the object, and what the server changes by itself.
_LEFT_OUT = ("apiVersion", "kind")
_LEFT_OUT_METADATA = frozenset(
    {
        *("name", "namespace", "generateName"),
        *("resourceVersion", "managedFields", "generation", "creationTimestamp", "uid", "selfLink"),
    }
)
#: The time at which a condition changed, which follows from its other fields.
_FOLLOWS = "lastTransitionTime"
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch

_Path = tuple[str | int, ...]


def contents(obj: Mapping[str, Any], *, secret: bool = False) -> str:
    """Return what a new object sets, as `path: value; path: value`; values of a `secret` are masked."""
    content = _relevant(obj)
    changes = _changes(_MISSING if content else content, content, (), secret=secret, leaves=True)
    return _joined(f"{_text(path)}: {new}" for path, _, new in changes)


def differences(
    before: Mapping[str, Any], after: Mapping[str, Any], *, secret: bool = False, with_times: bool = False
) -> str:
    """Return what differs, as `path: before -> after; …`, empty without a difference; see `contents`.

    The times at which conditions changed count only `with_times`.
    """
    sides = [_relevant(side, with_times=with_times) for side in (before, after)]
    changes = _changes(sides[0], sides[1], (), secret=secret, leaves=secret)
    return _joined(f"{_text(path)}: {old} -> {new}" for path, old, new in changes)


def changed_fields(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[str]:
    """Return the names of the fields that differ; without `before`, of those that are set. Never a value."""
    old, new = _MISSING if before is None else _relevant(before), _relevant(after)
    if old is _MISSING and not new:
        return []
    return [_text(path) for path, _, _ in _changes(old, new, (), secret=True, leaves=True)]


def _relevant(obj: Mapping[str, Any], *, with_times: bool = False) -> dict[str, Any]:
    kept = {name: value for name, value in obj.items() if name not in _LEFT_OUT}
    content = kept if with_times else {name: _without_times(value) for name, value in kept.items()}
    metadata = content.pop("metadata", None)
    if isinstance(metadata, dict):
        rest = {name: value for name, value in metadata.items() if name not in _LEFT_OUT_METADATA}
        content = {"metadata": rest, **content} if rest else content
    return content


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_times(below) for name, below in value.items() if name != _FOLLOWS}
    return [_without_times(item) for item in value] if isinstance(value, list) else value


def _changes(before: Any, after: Any, path: _Path, *, secret: bool, leaves: bool) -> Iterator[tuple[_Path, str, str]]:
    """Return each path that differs with both values; with `leaves`, no value is a mapping or a list with content."""
    if before == after and type(before) is type(after):
        return
    steps: list[Any] = []
    if _comparable(before, after, dict, leaves=leaves):
        steps = list(dict.fromkeys((*_items(before, {}), *_items(after, {}))))
    elif _comparable(before, after, list, leaves=leaves):
        steps = list(range(max(len(_items(before, [])), len(_items(after, [])))))
    if not steps:
        masked = secret and _holds_values(path)
        yield path, _value(before, masked=masked), _value(after, masked=masked)
    for step in steps:
        yield from _changes(_at(before, step), _at(after, step), (*path, step), secret=secret, leaves=leaves)


def _comparable(before: Any, after: Any, kind: type, *, leaves: bool) -> bool:
    """Return whether both are of this kind, or, with `leaves`, one of them while the other one is missing."""
    kinds = [isinstance(side, kind) or (leaves and side is _MISSING) for side in (before, after)]
    return all(kinds) and (isinstance(before, kind) or isinstance(after, kind))


def _items(value: Any, default: Any) -> Any:
    return default if value is _MISSING else value


def _at(value: Any, step: Any) -> Any:
    if isinstance(value, dict):
        return value.get(step, _MISSING)
    return value[step] if isinstance(value, list) and step < len(value) else _MISSING


def _holds_values(path: _Path) -> bool:
    """Return whether a field of a Secret may hold its values: `kubectl apply` keeps a copy in an annotation."""
    return path[:1] in (("data",), ("stringData",)) or path[:2] == ("metadata", "annotations")


def _value(value: Any, *, masked: bool) -> str:
    if value is _MISSING:
        return "(none)"
    if masked:
        return _MASK
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}…"


def _text(path: _Path) -> str:
    text = ""
    for step in path:
        if isinstance(step, str) and _IDENTIFIER(step):
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step, ensure_ascii=False)}]"
    return text or "."


def _joined(changes: Iterator[str]) -> str:
    listed = list(changes)
    more = len(listed) - MAX_CHANGES
    return "; ".join(listed[:MAX_CHANGES]) + (f"; and {more} more" if more > 0 else "")
