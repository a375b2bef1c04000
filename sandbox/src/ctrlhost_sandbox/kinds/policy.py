"""PodDisruptionBudgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.kinds.cells import created
from ctrlhost_sandbox.kinds.checks import one_of, selectors
from ctrlhost_sandbox.kinds.fields import condition_causes, not_negative, share, share_causes
from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation

_STATUS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
_LIMITS = ("minAvailable", "maxUnavailable")


class _Budgets(BuiltinStrategy):
    """A budget limits either the pods that are available or those that are not."""

    columns = "Min_Available Max_Unavailable Allowed_Disruptions:i Age"
    checks = (
        selectors("spec.selector"),
        one_of("spec.unhealthyPodEvictionPolicy", "AlwaysAllow", "IfHealthyBudget", always=False),
    )

    def cells(self, obj: Object) -> Sequence[Any]:
        spec = obj.get("spec") or {}
        limits = (str(spec.get(name, "N/A")) for name in _LIMITS)
        return (*limits, (obj.get("status") or {}).get("disruptionsAllowed", 0), created(obj))

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        """Check the limits, of which there may be one, or the counts of a status."""
        if operation.subresource:
            state = obj.get("status") or {}
            yield from condition_causes(state.get("conditions") or (), "status.conditions")
            yield from not_negative(state, *_STATUS, path="status")
            return
        spec = obj.get("spec") or {}
        if all(name in spec for name in _LIMITS):
            yield status.invalid_value("spec", spec, "minAvailable and maxUnavailable cannot be both set")
        for name in _LIMITS:
            if name in spec:
                yield from share_causes(spec[name], f"spec.{name}")
                if type(spec[name]) is str and share(spec[name]) > 100:
                    yield status.invalid_value(f"spec.{name}", spec[name], "must not be greater than 100%")
        yield from super().causes(context, operation, obj, old)


STRATEGIES = {("policy", "PodDisruptionBudget"): _Budgets()}
