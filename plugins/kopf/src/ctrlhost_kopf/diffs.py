"""Differences between two states of an object, as kopf has them."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

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


class Diff(tuple[DiffItem, ...]):
    """The changes from one state to another, equal to a sequence of these."""

    __slots__ = ()

    def __new__(cls, items: Iterable[Any] = ()) -> Self:
        return super().__new__(cls, (DiffItem(*item) for item in items))

    __hash__ = tuple.__hash__

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Sequence) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return tuple(self) != tuple(other) if isinstance(other, Sequence) else NotImplemented

    def reduce(self, path: FieldPath) -> Diff:
        """Return the changes in a field, with paths that begin there."""
        return Diff(self._reduced(path))

    def _reduced(self, path: FieldPath) -> Iterator[DiffItem]:
        for item in self:
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
