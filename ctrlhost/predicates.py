"""Predicates that run in the core: they decide without entering Python whether a change enqueues a reconcile.

They are those of controller-runtime, and `desired_state_changed`. Each passes all adds and deletes, where the old or
the new object is None. They combine with `and_`, `or_` and `not_`. A function `(old, new) -> bool` is a predicate, too.
It costs a call per change on the dispatching thread, and if it raises the change passes: a needless reconcile is
harmless, a lost one is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.cache import Object


@dataclass(frozen=True, slots=True)
class Ready:
    """A built-in predicate of the core: a name and, for combinations, its parts."""

    name: str
    parts: tuple[AnyPredicate, ...] = ()
    #: The finalizers that `desired_state_changed` ignores.
    finalizers: tuple[str, ...] = ()

    def __call__(self, old: Object | None, new: Object | None) -> bool:
        """Return whether the change passes; called only for combinations with a Python function."""
        if self.name == "not":
            return not self.parts[0](old, new)
        if self.name == "and":
            return all(part(old, new) for part in self.parts)
        if self.name == "or":
            return any(part(old, new) for part in self.parts)
        if old is None or new is None:
            return True
        if self.name == "desired_state_changed":
            from ctrlhost import _core

            return _core.Predicate.desired_state_changed(*self.finalizers)(old, new)
        return bool(getattr(old, _FIELDS[self.name]) != getattr(new, _FIELDS[self.name]))

    @property
    def in_core(self) -> bool:
        """Whether no part is a Python function."""
        return all(isinstance(part, Ready) and part.in_core for part in self.parts)


AnyPredicate: TypeAlias = "Ready | Callable[[Object | None, Object | None], bool]"

_FIELDS = {
    "resource_version_changed": "resource_version",
    "generation_changed": "generation",
    "labels_changed": "labels",
    "annotations_changed": "annotations",
}

#: Drops resyncs: updates whose old and new object have the same version.
resource_version_changed = Ready("resource_version_changed")
#: Only changes of the desired state: the server increments `generation` for those, not for status and most metadata.
generation_changed = Ready("generation_changed")
#: Only changes of generation, labels, annotations, finalizers, deletionTimestamp or uid: what somebody wants of the
#: object, not its status. Of objects without a generation, such as ConfigMaps, every field but `status` counts. The
#: default of `@plugin.controller` for its kind.
desired_state_changed = Ready("desired_state_changed")
#: Only changes of labels.
labels_changed = Ready("labels_changed")
#: Only changes of annotations.
annotations_changed = Ready("annotations_changed")


def and_(*predicates: AnyPredicate) -> Ready:
    """Return a predicate that passes a change if all `predicates` pass it."""
    return Ready("and", predicates)


def or_(*predicates: AnyPredicate) -> Ready:
    """Return a predicate that passes a change if any of `predicates` passes it."""
    return Ready("or", predicates)


def not_(predicate: AnyPredicate) -> Ready:
    """Return a predicate that passes a change if `predicate` drops it; adds and deletes are no exception."""
    return Ready("not", (predicate,))
