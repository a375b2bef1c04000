"""LimitRanges and ResourceQuotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.names import qualified_problems
from ctrlhost_sandbox.kinds.cells import created
from ctrlhost_sandbox.kinds.resources import COMPUTE, COUNTED, STANDARD
from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy
from ctrlhost_sandbox.schema.normalize import amount, is_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation

_SCOPES = (
    *("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "PriorityClass", "CrossNamespacePodAffinity"),
    "VolumeAttributesClass",
)
_POD_NAMES = frozenset(
    ("pods", *COMPUTE, *(f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "memory")))
)
_TYPES = ("Container", "Pod", "PersistentVolumeClaim")
_LIMITS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_NOT_INTEGER = "must be an integer"


class _LimitRanges(BuiltinStrategy):
    """The defaults of containers follow from each other."""

    columns = "Created_At:d"

    def cells(self, obj: Object) -> Sequence[Any]:
        return (obj["metadata"].get("creationTimestamp"),)

    def default(self, obj: Object) -> None:
        for limit in (obj.get("spec") or {}).get("limits") or ():
            if limit.get("type") != "Container":
                continue
            default = {**(limit.get("max") or {}), **(limit.get("default") or {})}
            requested = {**(limit.get("min") or {}), **default, **(limit.get("defaultRequest") or {})}
            for name, value in (("default", default), ("defaultRequest", requested)):
                if value:
                    limit[name] = value

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        """Check that minimum, default and maximum are in order."""
        seen: set[str] = set()
        for index, limit in enumerate((obj.get("spec") or {}).get("limits") or ()):
            where, kind = f"spec.limits[{index}]", limit.get("type", "")
            yield from status.invalid_values(f"{where}.type", kind, qualified_problems(kind))
            if kind and "/" not in kind and kind not in _TYPES:
                text = "must be a standard limit type or fully qualified"
                yield status.invalid_value(f"{where}.type", kind, text)
            if kind in seen:
                yield status.duplicate(f"{where}.type", kind)
            seen.add(kind)
            yield from _limit_causes(limit, kind, where)


def _limit_causes(limit: Mapping[str, Any], kind: str, where: str) -> Iterator[Cause]:
    for name in ("default", "defaultRequest"):
        if kind == "Pod" and limit.get(name):
            yield status.forbidden_field(f"{where}.{name}", "may not be specified when `type` is 'Pod'")
    for name in _LIMITS:
        for resource in limit.get(name) or {}:
            if "/" not in resource and resource not in (*COMPUTE, "storage") and not resource.startswith("hugepages-"):
                yield from _name_causes(resource, f"{where}.{name}[{resource}]", container=kind in ("Pod", "Container"))
    least, most = limit.get("min") or {}, limit.get("max") or {}
    if kind == "PersistentVolumeClaim" and "storage" not in {**least, **most}:
        text = "either minimum or maximum storage value is required, but neither was provided"
        yield status.required(f"{where}.limits", text)
    texts = {"min": "min", "default": "default", "defaultRequest": "default request", "max": "max"}
    pairs = (
        *(("min", "max", "min"), ("min", "defaultRequest", "defaultRequest"), ("defaultRequest", "max", "")),
        *(("defaultRequest", "default", ""), ("min", "default", "default"), ("default", "max", "")),
    )
    for small, large, field in pairs:
        lower, upper = limit.get(small) or {}, limit.get(large) or {}
        for resource in sorted(lower.keys() & upper.keys()):
            if amount(lower[resource]) > amount(upper[resource]):
                text = f"{texts[small]} value {lower[resource]} is greater than {texts[large]} value {upper[resource]}"
                yield status.invalid_value(f"{where}.{field or small}[{resource}]", lower[resource], text)
    for resource, ratio in (limit.get("maxLimitRequestRatio") or {}).items():
        field = f"{where}.maxLimitRequestRatio[{resource}]"
        if amount(ratio) < 1:
            yield status.invalid_value(field, ratio, f"ratio {ratio} is less than 1")
        if resource in least and resource in most and amount(least[resource]) > 0:
            bound = amount(most[resource]) / amount(least[resource])
            if amount(ratio) > bound:
                yield status.invalid_value(field, ratio, f"ratio {ratio} is greater than max/min = {bound:f}")


def _name_causes(name: str, where: str, *, container: bool) -> Iterator[Cause]:
    yield status.invalid_value(where, name, "must be a standard resource type or fully qualified")
    if container:
        yield status.invalid_value(where, name, "must be a standard resource for containers")


class _Quotas(BuiltinStrategy):
    """The scopes of a quota are immutable."""

    columns = "Request Limit Age"

    def cells(self, obj: Object) -> Sequence[Any]:
        state = obj.get("status") or {}
        hard, used = state.get("hard") or {}, state.get("used") or {}
        limits = sorted(name for name in hard if name.startswith("limits."))
        requests = sorted(name for name in hard if name not in limits)
        texts = (
            ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in part) for part in (requests, limits)
        )
        return (*texts, created(obj))

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        if operation.subresource:
            state = obj.get("status") or {}
            for name in ("hard", "used"):
                yield from _hard_causes(state.get(name) or {}, f"status.{name}")
            return
        spec = obj.get("spec") or {}
        yield from _hard_causes(spec.get("hard") or {}, "spec.hard")
        yield from _scope_causes(spec)
        if old is not None and set(spec.get("scopes") or ()) != set((old.get("spec") or {}).get("scopes") or ()):
            yield status.invalid_value("spec.scopes", spec.get("scopes"), "field is immutable")


def _hard_causes(hard: Mapping[str, str], where: str) -> Iterator[Cause]:
    for name, value in hard.items():
        field = f"{where}[{name}]"
        yield from status.invalid_values(field, name, qualified_problems(name))
        if "/" not in name and name not in STANDARD and not name.startswith(("hugepages-", "requests.hugepages-")):
            yield status.invalid_value(field, name, "must be a standard resource for quota")
        if amount(value) < 0:
            yield status.invalid_value(field, value, "must be greater than or equal to 0")
        if name in COUNTED and not is_whole(value):
            yield status.invalid_value(field, value, _NOT_INTEGER)


def _scope_causes(spec: Mapping[str, Any]) -> Iterator[Cause]:
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in _SCOPES:
            yield status.invalid_value("spec.scopes", scopes, "unsupported scope")
        for name in sorted(spec.get("hard") or {}):
            if name in STANDARD and not _fits(scope, name):
                yield status.invalid_value("spec.scopes", scopes, "unsupported scope applied to resource")
    for scope, other in (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")):
        if scope in scopes and other in scopes:
            yield status.invalid_value("spec.scopes", scopes, "conflicting scopes")
    field = "spec.scopeSelector.matchExpressions"
    for item in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        scope, operator, values = item.get("scopeName", ""), item.get("operator", ""), item.get("values") or []
        if scope not in _SCOPES:
            yield status.invalid_value(f"{field}.scopeName", scope, "unsupported scope")
        if operator in ("In", "NotIn") and not values:
            text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            yield status.required(f"{field}.values", text)
        elif operator in ("Exists", "DoesNotExist") and values:
            text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            yield status.invalid_value(f"{field}.values", values, text)
        elif operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            yield status.invalid_value(f"{field}.operator", operator, "not a valid selector operator")


def _fits(scope: str, name: str) -> bool:
    """Return whether objects that a resource counts have a scope."""
    if scope == "BestEffort":
        return name == "pods"
    if scope == "VolumeAttributesClass":
        return name in ("persistentvolumeclaims", "requests.storage")
    return name in _POD_NAMES


STRATEGIES = {("", "LimitRange"): _LimitRanges(), ("", "ResourceQuota"): _Quotas()}
