"""What a kind may do differently from the rule."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.kinds.cells import created

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.apimachinery.status import Cause
    from ctrlhost.sandbox.context import ServerContext
    from ctrlhost.sandbox.registry.operation import Operation
    from ctrlhost.sandbox.registry.registry import Kind

Rule = tuple[str, Any]
"""A path, and the default of the field there, which is set wherever the path's parent exists."""


class Strategy:
    """The rule. Methods that receive an object may change it, unless they say otherwise."""

    allocates = False
    """Whether `prepare_create` sets fields that nobody manages."""
    graceful = False
    """Whether deletion has a grace period, even if it is 0."""
    defaults: Sequence[Rule] = ()
    columns = "Age"
    """The columns of a table behind the name, as `cells.heads` reads them."""

    def cells(self, obj: Object) -> Sequence[Any]:
        """Return the cells of an object's row behind the name. Changes nothing."""
        return (created(obj),)

    def default(self, obj: Object) -> None:
        """Set the defaults that depend on other fields; the constant ones are in place."""

    def prepare_create(self, context: ServerContext, operation: Operation, obj: Object) -> None:
        """Set what the server sets at creation; defaults are in place, status is gone."""

    def prepare_update(self, context: ServerContext, operation: Operation, obj: Object, old: Object) -> None:
        """Carry over what an update leaves alone."""

    def tracked(self, obj: Object, sent: Object) -> Object:
        """Return what of a new object its creator manages; `sent` is its spec as received. Changes nothing."""
        return obj

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> list[Cause]:
        """Return what is wrong with the object, metadata aside."""
        return []

    def created(self, context: ServerContext, obj: Object) -> None:
        """Act on a stored object."""

    def updated(self, context: ServerContext, obj: Object, old: Object) -> None:
        """Act on a changed object."""

    def deleted(self, context: ServerContext, obj: Object) -> None:
        """Act on a deleted object."""

    def check_delete(self, context: ServerContext, operation: Operation) -> None:
        """Refuse a deletion by raising."""

    def grace_period(self, obj: Object, wanted: int | None) -> int:
        """Return the seconds between the request and the deletion."""
        return 0

    def holds_deletion(self, context: ServerContext, obj: Object) -> bool:
        """Return whether something other than finalizers keeps the object for now."""
        return False

    def begin_deletion(self, context: ServerContext, obj: Object) -> None:
        """Mark an object whose deletion begins."""

    def metadata_counts(self, obj: Object, old: Object) -> bool:
        """Return whether a change of metadata raises the generation."""
        return False

    def only_status(self, kind: Kind, obj: Object, old: Object) -> Object:
        """Return what a write to /status stores: everything but status stays as it is."""
        result = {key: value for key, value in old.items() if key != "status"}
        result["metadata"] = dict(old["metadata"])
        if "status" in obj:
            result["status"] = obj["status"]
        return result


class BuiltinStrategy(Strategy):
    """Built-in kinds let metadata through /status, with exceptions."""

    kept_metadata: tuple[str, ...] = ()

    def only_status(self, kind: Kind, obj: Object, old: Object) -> Object:
        """Take status and metadata."""
        result = super().only_status(kind, obj, old)
        result["metadata"] = obj["metadata"]
        for name in self.kept_metadata:
            result["metadata"].pop(name, None)
            if name in old["metadata"]:
                result["metadata"][name] = old["metadata"][name]
        return result


def set_defaults(strategy: Strategy, obj: Object) -> None:
    """Fill in a built-in object's defaults, in place."""
    for path, value in strategy.defaults:
        *parents, last = path.split(".")
        for parent in _parents(obj, parents):
            if parent.get(last) in (None, "") and not (parent.get(last) == "" and value == ""):
                parent[last] = copy.copy(value)
    strategy.default(obj)


def below(prefix: str, rules: Sequence[Rule]) -> list[Rule]:
    """Return the rules for an object that is found at `prefix`."""
    return [(f"{prefix}.{path}", value) for path, value in rules]


def _parents(value: Any, parts: list[str]) -> Iterator[dict[str, Any]]:
    """Find the objects that hold the last part of a path."""
    if type(value) is not dict:
        return
    if not parts:
        yield value
    elif parts[0].endswith("[*]"):
        for item in value.get(parts[0][:-3]) or ():
            yield from _parents(item, parts[1:])
    elif parts[0] in value:
        yield from _parents(value[parts[0]], parts[1:])
