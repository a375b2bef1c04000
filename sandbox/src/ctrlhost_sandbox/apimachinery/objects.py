"""JSON objects, their conditions, and the users who send requests."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class User:
    """The user of a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the user in the form of reviews and audit events."""
        extra = {key: list(values) for key, values in self.extra}
        optional = {"uid": self.uid, "groups": list(self.groups), "extra": extra}
        return {"username": self.name, **{key: value for key, value in optional.items() if value}}


ADMIN = User("sandbox-admin", ("system:masters", "system:authenticated"))


def same(left: Any, right: Any) -> bool:
    """Compare JSON values; unlike `==`, true is not 1."""
    if type(left) is dict and type(right) is dict:
        return left.keys() == right.keys() and all(same(item, right[key]) for key, item in left.items())
    if type(left) is list and type(right) is list:
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right) and (type(left) is bool) == (type(right) is bool)


def at(value: Any, path: Iterable[str]) -> Any:
    """Return the value at a path; None if a part is missing."""
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def condition(obj: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """Find a status condition by its type."""
    return next((item for item in at(obj, ("status", "conditions")) or () if item.get("type") == name), None)


def is_true(obj: Mapping[str, Any], name: str) -> bool:
    """Return whether a status condition is True."""
    entry = condition(obj, name)
    return entry is not None and entry.get("status") == "True"


def share(value: Any, total: int, *, up: bool) -> int:
    """Parse a number or a percentage of `total`."""
    if isinstance(value, str) and value.endswith("%"):
        exact = int(value[:-1]) * total / 100
        return math.ceil(exact) if up else math.floor(exact)
    return int(value)
