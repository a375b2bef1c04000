"""Leases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.kinds.cells import created
from ctrlhost_sandbox.kinds.fields import not_negative
from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation


_COORDINATED = ("strategy", "preferredHolder")


class _Leases(BuiltinStrategy):
    """A lease has a holder, and a positive duration."""

    columns = "Holder Age"

    def cells(self, obj: Object) -> Sequence[Any]:
        return ((obj.get("spec") or {}).get("holderIdentity", ""), created(obj))

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        spec = obj.get("spec") or {}
        seconds = spec.get("leaseDurationSeconds")
        if seconds is not None and seconds <= 0:
            yield status.invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0")
        yield from not_negative(spec, "leaseTransitions")

    def prepare_create(self, context: ServerContext, operation: Operation, obj: Object) -> None:
        """Drop the fields of coordinated election, which is off in a real server unless it is asked for."""
        for name in _COORDINATED:
            (obj.get("spec") or {}).pop(name, None)

    def prepare_update(self, context: ServerContext, operation: Operation, obj: Object, old: Object) -> None:
        self.prepare_create(context, operation, obj)


STRATEGIES = {("coordination.k8s.io", "Lease"): _Leases()}
