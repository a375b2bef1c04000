"""ComponentStatuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object


class _Components(BuiltinStrategy):
    """The health of the server's parts."""

    columns = "Status Message Error"

    def cells(self, obj: Object) -> Sequence[Any]:
        healthy: dict[str, Any] = next(
            (condition for condition in obj.get("conditions") or () if condition.get("type") == "Healthy"), {}
        )
        state = {"True": "Healthy", "": "Unknown"}.get(healthy.get("status", ""), "Unhealthy")
        return (state, healthy.get("message", ""), healthy.get("error", ""))


STRATEGIES = {("", "ComponentStatus"): _Components()}
