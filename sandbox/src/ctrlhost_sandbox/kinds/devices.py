"""The kinds of resource.k8s.io: the sandbox allocates no devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status, times
from ctrlhost_sandbox.apimachinery.names import is_label, name_problems
from ctrlhost_sandbox.kinds.cells import created
from ctrlhost_sandbox.kinds.checks import at_least, each, required, unchanged
from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy, below

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.kinds.strategy import Rule
    from ctrlhost_sandbox.registry.operation import Operation

_MODES = ("All", "ExactCount")
_LONGEST_DRIVER = 63
_REQUESTS: list[Rule] = [("exactly.allocationMode", "ExactCount"), ("firstAvailable[*].allocationMode", "ExactCount")]


class _DeviceClasses(BuiltinStrategy):
    """How devices of a class are selected and configured."""

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        for index, selector in enumerate((obj.get("spec") or {}).get("selectors") or ()):
            yield from _selector_causes(selector, f"spec.selectors[{index}]")


class _Claims(BuiltinStrategy):
    """A claim's spec is immutable."""

    prefix = "spec"
    defaults: Sequence[Rule] = below("spec.devices.requests[*]", _REQUESTS)
    columns = "State Age"
    checks = (unchanged("spec"),)

    def cells(self, obj: Object) -> Sequence[Any]:
        state, gone = obj.get("status") or {}, "deletionTimestamp" in obj["metadata"]
        parts = ["deleted"] if gone else []
        if state.get("allocation"):
            parts += ["allocated", *(["reserved"] if state.get("reservedFor") else [])]
        elif not gone:
            parts.append("pending")
        return (",".join(parts), created(obj))

    def default(self, obj: Object) -> None:
        spec = obj["spec"] if self.prefix == "spec" else obj["spec"]["spec"]
        for request in (spec.get("devices") or {}).get("requests") or ():
            for choice in (request.get("exactly") or {}, *(request.get("firstAvailable") or ())):
                if choice.get("allocationMode") == "ExactCount":
                    choice["count"] = choice.get("count") or 1

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        if operation.subresource:
            state = obj.get("status") or {}
            if state.get("reservedFor") and not state.get("allocation"):
                text = "may not be specified when `allocated` is not set"
                yield status.forbidden_field("status.reservedFor", text)
            return
        if old is None:
            spec = obj["spec"] if self.prefix == "spec" else obj["spec"].get("spec") or {}
            yield from _claim_causes(spec.get("devices") or {}, f"{self.prefix}.devices")
        yield from super().causes(context, operation, obj, old)


class _ClaimTemplates(_Claims):
    """A template of claims."""

    prefix = "spec.spec"
    defaults = below("spec.spec.devices.requests[*]", _REQUESTS)
    columns = "Age"

    def cells(self, obj: Object) -> Sequence[Any]:
        return (created(obj),)


class _Slices(BuiltinStrategy):
    """The devices of a pool; driver, node and pool are immutable."""

    columns = "Node Driver Pool Age"
    checks = (
        required("spec.driver", "spec.pool.name"),
        at_least(0, "spec.pool.generation"),
        at_least(1, "spec.pool.resourceSliceCount", text="must be greater than zero"),
        unchanged("spec.driver", "spec.pool.name", "spec.nodeName"),
    )

    def cells(self, obj: Object) -> Sequence[Any]:
        spec = obj.get("spec") or {}
        pool = (spec.get("pool") or {}).get("name", "")
        return (spec.get("nodeName", ""), spec.get("driver", ""), pool, created(obj))

    def default(self, obj: Object) -> None:
        """Set when a taint was added."""
        for _, taints in each(obj, "spec.devices[*].taints"):
            for taint in taints or ():
                taint.setdefault("timeAdded", times.now())

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        yield from super().causes(context, operation, obj, old)
        spec = obj["spec"]
        yield from _driver_causes(spec.get("driver", ""), "spec.driver")
        choices = [
            name for name in ("allNodes", "nodeName", "nodeSelector", "perDeviceNodeSelection") if spec.get(name)
        ]
        if len(choices) != 1:
            text = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
            cause = status.invalid_value("spec", f"{{{', '.join(choices)}}}", text)
            yield cause if choices else status.required("spec", text)
        names: set[str] = set()
        for index, device in enumerate(spec.get("devices") or ()):
            where, name = f"spec.devices[{index}]", device.get("name", "")
            yield from _label_causes(name, f"{where}.name")
            if name in names:
                yield status.duplicate(where, name)
            names.add(name)


def _claim_causes(devices: Mapping[str, Any], where: str) -> Iterator[Cause]:
    names: set[str] = set()
    for index, request in enumerate(devices.get("requests") or ()):
        spot, name = f"{where}.requests[{index}]", request.get("name", "")
        yield from _label_causes(name, f"{spot}.name")
        if name and name in names:
            yield status.duplicate(f"{spot}.name", name)
        names.add(name)
        exact, first = request.get("exactly"), request.get("firstAvailable")
        if (exact is None) is not bool(first):
            text = "exactly one of `exactly` or `firstAvailable` is required"
            yield status.required(spot, text) if exact is None else status.invalid_value(spot, "", text)
        if exact is not None:
            yield from _request_causes(exact, f"{spot}.exactly")
        for at, alternative in enumerate(first or ()):
            yield from _label_causes(alternative.get("name", ""), f"{spot}.firstAvailable[{at}].name")
            yield from _request_causes(alternative, f"{spot}.firstAvailable[{at}]")


def _request_causes(request: Mapping[str, Any], where: str) -> Iterator[Cause]:
    kind, mode = request.get("deviceClassName", ""), request.get("allocationMode", "")
    if not kind:
        yield status.required(f"{where}.deviceClassName")
    elif problems := name_problems("subdomain", kind):
        yield from status.invalid_values(f"{where}.deviceClassName", kind, problems)
    for index, selector in enumerate(request.get("selectors") or ()):
        yield from _selector_causes(selector, f"{where}.selectors[{index}]")
    count = request.get("count", 0)
    if mode not in _MODES:
        yield status.not_supported(f"{where}.allocationMode", mode, _MODES)
    elif mode == "All" and count:
        text = "must not be specified when allocationMode is 'All'"
        yield status.invalid_value(f"{where}.count", count, text)
    elif mode == "ExactCount" and count <= 0:
        yield status.invalid_value(f"{where}.count", count, "must be greater than zero")


def _selector_causes(selector: Mapping[str, Any], where: str) -> Iterator[Cause]:
    rule = selector.get("cel")
    if rule is None:
        yield status.required(f"{where}.cel")
    elif not rule.get("expression"):
        yield status.required(f"{where}.cel.expression")


def _driver_causes(driver: str, where: str) -> Iterator[Cause]:
    if len(driver) > _LONGEST_DRIVER:
        yield status.too_long(where, _LONGEST_DRIVER)
    if driver and (problems := name_problems("subdomain", driver.lower())):
        yield from status.invalid_values(where, driver, problems)


def _label_causes(name: str, where: str) -> Iterator[Cause]:
    if not name:
        yield status.required(where)
    elif not is_label(name):
        yield from status.invalid_values(where, name, name_problems("label", name))


_GROUP = "resource.k8s.io"
STRATEGIES = {
    (_GROUP, "DeviceClass"): _DeviceClasses(),
    (_GROUP, "ResourceClaim"): _Claims(),
    (_GROUP, "ResourceClaimTemplate"): _ClaimTemplates(),
    (_GROUP, "ResourceSlice"): _Slices(),
}
