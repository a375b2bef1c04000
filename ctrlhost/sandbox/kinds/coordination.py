"""Leases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.apimachinery import status
from ctrlhost.sandbox.kinds.cells import created
from ctrlhost.sandbox.kinds.fields import counts
from ctrlhost.sandbox.kinds.strategy import BuiltinStrategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.apimachinery.status import Cause
    from ctrlhost.sandbox.context import ServerContext
    from ctrlhost.sandbox.registry.operation import Operation


class _Leases(BuiltinStrategy):
    """A lease has a holder, and a positive duration."""

    columns = "Holder Age"

    def cells(self, obj: Object) -> Sequence[Any]:
        return ((obj.get("spec") or {}).get("holderIdentity", ""), created(obj))

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> list[Cause]:
        spec = obj.get("spec") or {}
        found = []
        seconds = spec.get("leaseDurationSeconds")
        if seconds is not None and seconds <= 0:
            found.append(status.invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
        return found + counts(spec, "spec", ("leaseTransitions",))


STRATEGIES = {("coordination.k8s.io", "Lease"): _Leases()}
