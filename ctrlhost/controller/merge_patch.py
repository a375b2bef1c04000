"""Merge patches (RFC 7386): the smallest patch that turns one JSON value into another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


def plain(value: Any) -> Any:
    """Return a value as fresh dicts, lists and scalars, as it is written in JSON; TypeError for what JSON cannot say.

    Mappings lose the names whose value is None: in a merge patch null removes.
    """
    return _without_nulls(msgspec.to_builtins(value, str_keys=True, order="deterministic", enc_hook=_of_view))


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch that makes `after` of `before`, empty if they are equal; both are `plain`."""
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        known = before.get(name)
        if name not in before:
            patch[name] = value
        elif isinstance(known, Mapping) and isinstance(value, Mapping):
            if inner := merge_patch(known, value):
                patch[name] = inner
        elif not equal(known, value):
            patch[name] = value
    return patch


def equal(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal: 1 is 1.0, but not true."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(equal(value, right[name]) for name, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def has_list(value: Any) -> bool:
    """Return whether a JSON value is a list or contains one."""
    if isinstance(value, Mapping):
        return any(map(has_list, value.values()))
    return isinstance(value, list)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(below) for name, below in value.items() if below is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(item) for item in value]
    return value


def _of_view(value: Any) -> Any:
    """Return the copy of an object of the cache, or of a view of one."""
    for method in ("to_dict", "to_list"):
        if copy := getattr(value, method, None):
            return copy()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
