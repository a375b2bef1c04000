"""Random changes of objects: as data, so that the same change applies to the copies of both servers."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]

STRINGS = (
    "", " ", "a", "A", "a b", "-a", "a_b", "a.b", "a/b", "A/b c", "é", "x" * 64, "x" * 300, "0", "80", "-1", "1.5",
    "100%", "101%", "10%", "x%", "1Gi", "-1Gi", "1500m", "None", "Never", "Always", "TCP", "SCTP", "true", "http",
    "/", "/a", "../a", "*", "*.a.b", "10.0.0.300", "10.1.2.3", "::1", "10.0.0.0/8", "127.0.0.1", "Exists", "In",
    "2026-01-02T03:04:05Z", "2026-13-02T03:04:05Z", "5s", "kubernetes.io/a", "example.org/a", "$(A)", "RollingUpdate",
    "OnDelete", "Local", "Cluster", "NoSchedule", "Pod", "v1", "v2",
)  # fmt: skip
NUMBERS = (0, 1, 2, -1, -2, 3, 80, 100, 65535, 65536, 30000, 86401, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 0.5, -1.5, 1e30)
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [""], [None], [{}], {"a": "b"}, {"": ""}, {"a b": "c"}, [1])
FIXED = (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata",), ("spec",))
FIXED_SHARE = 0.03


@dataclass(frozen=True, slots=True)
class Change:
    """Set, insert or remove the value at a path."""

    action: str
    path: Path
    value: Any = None

    def apply(self, obj: Any) -> bool:
        """Change `obj` in place; return False, without a change, if it has no such path."""
        *parents, last = self.path
        holder = obj
        for part in parents:
            if (type(holder) is dict and part in holder) or (
                type(holder) is list and type(part) is int and part < len(holder)
            ):
                holder = holder[part]
            else:
                return False
        if type(holder) is list and type(last) is int:
            if last > len(holder) or (last == len(holder) and self.action != "insert"):
                return False
            if self.action == "remove":
                del holder[last]
            elif self.action == "insert":
                holder.insert(last, copy.deepcopy(self.value))
            else:
                holder[last] = copy.deepcopy(self.value)
            return True
        if type(holder) is not dict or type(last) is not str or (self.action == "remove" and last not in holder):
            return False
        if self.action == "remove":
            del holder[last]
        else:
            holder[last] = copy.deepcopy(self.value)
        return True

    def operation(self) -> dict[str, Any]:
        """Return the change as an operation of a JSON patch."""
        pointer = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in self.path)
        if self.action == "remove":
            return {"op": "remove", "path": pointer}
        return {"op": "add" if self.action == "insert" else "replace", "path": pointer, "value": self.value}


def applied(changes: list[Change], obj: Any) -> Any:
    """Return a copy of `obj` with the changes."""
    changed = copy.deepcopy(obj)
    for change in changes:
        change.apply(changed)
    return changed


class Mutator:
    """A source of changes. `relatives` are other valid objects of the kind, whose parts it borrows."""

    def __init__(self, source: random.Random) -> None:
        self._random = source

    def changes(self, obj: dict[str, Any], relatives: list[dict[str, Any]], count: int) -> list[Change]:
        """Return `count` changes, each for the object that the former ones leave."""
        changes: list[Change] = []
        current = copy.deepcopy(obj)
        while len(changes) < count:
            change = self._change(current, relatives)
            if change.apply(current):
                changes.append(change)
        return changes

    def _change(self, obj: dict[str, Any], relatives: list[dict[str, Any]]) -> Change:
        pick = self._random.choice
        if relatives and self._random.random() < 0.2:
            other = pick(relatives)
            path = self.path(other)
            return Change("set", path, value_at(other, path))
        path = self.path(obj)
        value = value_at(obj, path)
        kind = self._random.random()
        if kind < 0.2:
            return Change("remove", path)
        if kind < 0.28 and isinstance(path[-1], int):
            return Change("insert", path, value)
        if kind < 0.36 and type(value) is dict:
            return Change("set", (*path, pick(("unknown", "name", "Kind", "$patch", "a.b/c"))), self._value(value))
        if kind < 0.44 and type(value) in (dict, list):
            return Change("set", path, type(value)())
        if kind < 0.5 and type(value) is list:
            return Change("insert", (*path, len(value)), self._value(value[0] if value else ""))
        return Change("set", path, self._value(value))

    def _value(self, old: Any) -> Any:
        """Return a value mostly of the same type."""
        pick = self._random.choice
        if self._random.random() < 0.2:
            return pick(pick((STRINGS, NUMBERS, OTHERS)))
        if type(old) is str:
            return pick(STRINGS)
        if type(old) in (int, float):
            return pick(NUMBERS)
        return not old if type(old) is bool else pick(OTHERS)

    def path(self, obj: dict[str, Any]) -> Path:
        """Return the path of a random part, rarely of one whose loss makes all other errors invisible."""
        candidates = paths(obj)
        while True:
            path = self._random.choice(candidates)
            if path not in FIXED or self._random.random() < FIXED_SHARE:
                return path


def paths(value: Any, prefix: Path = ()) -> list[Path]:
    """Return the paths of all parts."""
    if type(value) not in (dict, list):
        return []
    places: list[Path] = []
    for key, item in value.items() if type(value) is dict else enumerate(value):
        places += [(*prefix, key), *paths(item, (*prefix, key))]
    return places


def value_at(obj: Any, path: Path) -> Any:
    """Return the part at a path."""
    for part in path:
        obj = obj[part]
    return obj
