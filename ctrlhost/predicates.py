"""Predicates that run in the core: whether a change wakes a controller, decided without entering Python.

Each says yes to what has only one side (an object that appears or vanishes). They combine with `and_`, `or_` and
`not_`. A function `(old, new) -> bool` serves as well, where None stands for the side that does not exist; it costs a
call per change, and what it raises counts as yes, since a needless reconcile does no harm and a lost one does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.cache import Object


@dataclass(frozen=True, slots=True)
class Ready:
    """A ready-made predicate, as the core knows it: a name and, for combinations, its parts."""

    name: str
    parts: tuple[AnyPredicate, ...] = ()

    def __call__(self, old: Object | None, new: Object | None) -> bool:
        """Decide in Python, for use inside a function or a combination with one."""
        if self.name == "not":
            return not self.parts[0](old, new)
        if self.name == "and":
            return all(part(old, new) for part in self.parts)
        if self.name == "or":
            return any(part(old, new) for part in self.parts)
        if old is None or new is None:
            return True
        return bool(getattr(old, _FIELDS[self.name]) != getattr(new, _FIELDS[self.name]))

    @property
    def in_core(self) -> bool:
        """Say whether no part of it is a Python function."""
        return all(isinstance(part, Ready) and part.in_core for part in self.parts)


AnyPredicate: TypeAlias = "Ready | Callable[[Object | None, Object | None], bool]"

_FIELDS = {
    "resource_version_changed": "resource_version",
    "generation_changed": "generation",
    "labels_changed": "labels",
    "annotations_changed": "annotations",
}

#: Drops resyncs: updates whose old and new object are the same version.
resource_version_changed = Ready("resource_version_changed")
#: Only changes of the desired state: the server counts `generation` up for those, not for status and most metadata.
generation_changed = Ready("generation_changed")
#: Only changes of labels.
labels_changed = Ready("labels_changed")
#: Only changes of annotations.
annotations_changed = Ready("annotations_changed")


def and_(*predicates: AnyPredicate) -> Ready:
    """Wake when all of them say yes."""
    return Ready("and", predicates)


def or_(*predicates: AnyPredicate) -> Ready:
    """Wake when one of them says yes."""
    return Ready("or", predicates)


def not_(predicate: AnyPredicate) -> Ready:
    """Wake when it says no; of what has only one side too."""
    return Ready("not", (predicate,))
