"""Leases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.apimachinery import status
from ctrlhost.sandbox.kinds.cells import created
from ctrlhost.sandbox.kinds.fields import not_negative, qualified_causes
from ctrlhost.sandbox.kinds.strategy import BuiltinStrategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.apimachinery.status import Cause
    from ctrlhost.sandbox.context import ServerContext
    from ctrlhost.sandbox.registry.operation import Operation


_STRATEGIES = ("OldestEmulationVersion",)


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
        strategy = spec.get("strategy")
        if strategy is not None:
            yield from strategy_causes(strategy, "spec.strategy")
        if spec.get("preferredHolder") and not strategy:
            yield status.forbidden_field("spec.preferredHolder", "may only be specified if `strategy` is defined")


def strategy_causes(strategy: str, field: str) -> Iterator[Cause]:
    """Check how a leader is chosen."""
    parts = strategy.split("/")
    if len(parts) > 2:
        yield status.invalid_value(field, strategy, "must be in the form of `Strategy` or `example.com/Strategy`")
    elif len(parts) == 1:
        if strategy not in _STRATEGIES:
            yield status.not_supported(field, strategy, _STRATEGIES)
    else:
        yield from qualified_causes(strategy, field)


STRATEGIES = {("coordination.k8s.io", "Lease"): _Leases()}
