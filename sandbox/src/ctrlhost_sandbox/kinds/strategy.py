"""The behaviour that kinds may override."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.kinds.cells import created

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.kinds.checks import Check
    from ctrlhost_sandbox.registry.operation import Operation
    from ctrlhost_sandbox.registry.registry import Kind

Rule = tuple[str, Any]
"""A path and a default, which is set wherever the path's parent exists."""


class Strategy:
    """The default behaviour. Methods may change the object they receive, unless they say otherwise."""

    allocates = False
    """Whether `prepare_create` sets fields that no manager owns."""
    orphans = False
    """Whether a deletion that does not say what becomes of dependents keeps them."""
    keeps_status = False
    """Whether a creation stores the status that comes with it."""
    graceful = False
    """Whether deletion has a grace period, even if it is 0."""
    defaults: Sequence[Rule] = ()
    columns = "Age"
    """The columns of a table behind the name, as `cells.heads` reads them."""

    def name(self, obj: Object) -> str:
        """Return the name in an object's row."""
        return str(obj["metadata"]["name"])

    def cells(self, obj: Object) -> Sequence[Any]:
        """Return the cells of an object's row behind the name, without changing it."""
        return (created(obj),)

    def default(self, obj: Object) -> None:
        """Set the defaults that depend on other fields, after the constant ones."""

    def prepare_create(self, context: ServerContext, operation: Operation, obj: Object) -> None:
        """Set the server's fields at creation; defaults are set, status is removed."""

    def prepare_update(self, context: ServerContext, operation: Operation, obj: Object, old: Object) -> None:
        """Carry over fields that an update does not change."""

    def tracked(self, obj: Object, sent: Object) -> Object:
        """Return the part of a new object that its creator manages, a copy; `sent` is its spec as received."""
        return obj

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterable[Cause]:
        """Return the causes why the object is invalid, except for metadata."""
        return ()

    def stored(self, context: ServerContext, obj: Object, old: Object | None) -> None:
        """Called after a creation or an update."""

    def deleted(self, context: ServerContext, obj: Object) -> None:
        """Called after a deletion."""

    def prepare_delete(self, context: ServerContext, operation: Operation, obj: Object) -> None:
        """Change an object before the server looks for what delays its deletion."""

    def check_delete(self, context: ServerContext, operation: Operation) -> None:
        """Raise to refuse a deletion."""

    def grace_period(self, obj: Object, wanted: int | None) -> int:
        """Return the seconds between the request and the deletion."""
        return 0

    def holds_deletion(self, context: ServerContext, obj: Object) -> bool:
        """Return whether something other than finalizers delays the deletion."""
        return False

    def begin_deletion(self, context: ServerContext, obj: Object) -> None:
        """Mark an object at the beginning of its deletion."""

    def metadata_counts(self, obj: Object, old: Object) -> bool:
        """Return whether a change of metadata raises the generation."""
        return False

    def only_status(self, kind: Kind, obj: Object, old: Object) -> Object:
        """Return the object that a write to /status stores: only status changes."""
        result = {key: value for key, value in old.items() if key != "status"}
        result["metadata"] = dict(old["metadata"])
        if "status" in obj:
            result["status"] = obj["status"]
        return result


class BuiltinStrategy(Strategy):
    """The default for built-in kinds: /status also writes metadata, with exceptions."""

    kept_metadata: tuple[str, ...] = ()
    checks: Sequence[Check] = ()
    """The checks of `causes`."""

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterable[Cause]:
        """Make the checks; a write to a sub-resource makes none."""
        if not operation.subresource:
            for check in self.checks:
                yield from check(obj, old)

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
    """Set a built-in object's defaults, in place."""
    for path, value in strategy.defaults:
        *parents, last = path.split(".")
        for parent in _parents(obj, parents):
            if parent.get(last) in (None, "") and not (parent.get(last) == "" and value == ""):
                parent[last] = copy.copy(value)
    strategy.default(obj)


def below(prefix: str, rules: Sequence[Rule]) -> list[Rule]:
    """Return rules with `prefix` in front of their paths."""
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
