"""What a kind may do differently from the rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.apimachinery.status import Cause
    from ctrlhost.sandbox.context import Engine
    from ctrlhost.sandbox.registry.operation import Call
    from ctrlhost.sandbox.registry.registry import Kind


class Strategy:
    """The rule. Methods that are given an object may change it, unless they say otherwise."""

    hands_out = False
    """Whether `prepare_create` gives the object what nobody manages."""

    def prepare_create(self, engine: Engine, call: Call, obj: Object) -> None:
        """Set what the server sets at creation; defaults are in place, status is gone."""

    def prepare_update(self, engine: Engine, call: Call, obj: Object, old: Object) -> None:
        """Carry over what an update leaves alone."""

    graceful = False
    """Whether objects are deleted after a time of grace, be it none."""

    def tracked(self, obj: Object, sent: Object) -> Object:
        """Give what of a new object its creator manages; `sent` is its spec as it came. Changes nothing."""
        return obj

    def causes(self, engine: Engine, call: Call, obj: Object, old: Object | None) -> list[Cause]:
        """Say what is wrong with the object."""
        return []

    def discard(self, engine: Engine, obj: Object) -> None:
        """Give back what `prepare_create` took: the object is not going to be stored."""

    def created(self, engine: Engine, obj: Object) -> None:
        """Act on a stored object."""

    def updated(self, engine: Engine, obj: Object, old: Object) -> None:
        """Act on a changed object."""

    def deleted(self, engine: Engine, obj: Object) -> None:
        """Act on an object that is gone."""

    def check_delete(self, engine: Engine, call: Call) -> None:
        """Refuse a deletion by raising."""

    def grace_period(self, obj: Object, wanted: int | None) -> int:
        """Give the seconds until an object goes."""
        return 0

    def holds_deletion(self, engine: Engine, obj: Object) -> bool:
        """Tell whether something other than finalizers keeps the object for now."""
        return False

    def begin_deletion(self, engine: Engine, obj: Object) -> None:
        """Mark an object whose deletion begins."""

    def metadata_counts(self, obj: Object, old: Object) -> bool:
        """Tell whether a change of metadata raises the generation."""
        return False

    def only_status(self, kind: Kind, obj: Object, old: Object) -> Object:
        """Give what a write to /status stores: everything but status stays as it is."""
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
