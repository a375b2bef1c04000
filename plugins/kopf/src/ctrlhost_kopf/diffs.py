"""Differences between two states of an object, as kopf has them."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, overload

from ctrlhost_kopf.dicts import FieldPath, resolve


class DiffOperation(enum.StrEnum):
    """What happened to a field."""

    ADD = "add"
    CHANGE = "change"
    REMOVE = "remove"

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


class DiffItem(NamedTuple):  # noqa: PLW1641 - it has the hash of a tuple
    """A change of one field, equal to a sequence of these four."""

    operation: DiffOperation
    field: FieldPath
    old: Any
    new: Any

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Sequence) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return tuple(self) != tuple(other) if isinstance(other, Sequence) else NotImplemented

    @property
    def op(self) -> DiffOperation:
        """The operation."""
        return self.operation


class Diff(Sequence[DiffItem]):
    """The changes from one state to another."""

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self._items = tuple(DiffItem(*item) for item in items)

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        return repr(self._items)

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> DiffItem: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[DiffItem]: ...
    def __getitem__(self, index: int | slice) -> DiffItem | Sequence[DiffItem]:
        return self._items[index]

    def __eq__(self, other: object) -> bool:
        return self._items == tuple(other) if isinstance(other, Sequence) else NotImplemented

    def reduce(self, path: FieldPath) -> Diff:
        """Return the changes in a field, with paths that begin there."""
        return Diff(self._reduced(path))

    def _reduced(self, path: FieldPath) -> Iterator[DiffItem]:
        for item in self._items:
            field = tuple(item.field)
            if field[: len(path)] == path:
                yield item._replace(field=field[len(path) :])
            elif field == path[: len(field)]:
                tail = path[len(field) :]
                yield from diff(resolve(item.old, tail, None), resolve(item.new, tail, None))


def diff(old: Any, new: Any) -> Diff:
    """Return the changes from `old` to `new`."""
    return Diff(_changes(old, new, ()))


def _changes(old: Any, new: Any, path: FieldPath) -> Iterator[DiffItem]:
    if old == new:
        return
    if old is None or new is None:
        operation = DiffOperation.ADD if old is None else DiffOperation.REMOVE
        yield DiffItem(operation, path, old, new)
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*new, *(key for key in old if key not in new)]:
            yield from _changes(old.get(key), new.get(key), (*path, key))
    else:
        yield DiffItem(DiffOperation.CHANGE, path, old, new)
