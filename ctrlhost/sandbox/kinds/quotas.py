"""Resource quotas and limit ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.apimachinery import status
from ctrlhost.sandbox.apimachinery.names import qualified_problems
from ctrlhost.sandbox.kinds.cells import created
from ctrlhost.sandbox.kinds.strategy import BuiltinStrategy
from ctrlhost.sandbox.schema.quantities import Amounts, Quantity, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.apimachinery.status import Cause
    from ctrlhost.sandbox.context import ServerContext
    from ctrlhost.sandbox.registry.operation import Operation

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_COUNTS = (
    *("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"),
    *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
)
_POD_RESOURCES = frozenset(
    {"pods", *(f"{part}{name}" for part in ("", "requests.", "limits.") for name in _COMPUTE[:2])}
)
_QUOTA_RESOURCES = frozenset(
    {*_COUNTS, "requests.storage", *(f"{part}{name}" for part in ("", "requests.", "limits.") for name in _COMPUTE)}
)
_PLAIN_SCOPES = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")
_SCOPES = frozenset({*_PLAIN_SCOPES, "PriorityClass", "VolumeAttributesClass"})
_CONFLICTS = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_PLAIN_SCOPE_TEXT = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
_LIMIT_TYPES = ("Pod", "Container", "PersistentVolumeClaim")


class _ResourceQuotas(BuiltinStrategy):
    """The status belongs to the server."""

    columns = "Request Limit Age"

    def cells(self, obj: Object) -> Sequence[Any]:
        state = obj.get("status") or {}
        hard, used = state.get("hard") or {}, state.get("used") or {}
        shown: dict[bool, list[str]] = {True: [], False: []}
        for name in sorted(hard):
            shown[name.startswith("limits")].append(f"{name}: {used.get(name, '0')}/{hard[name]}")
        return (", ".join(shown[False]), ", ".join(shown[True]), created(obj))

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        """Check the names and values of resources, and the scopes."""
        if operation.subresource == "status":
            for part in ("hard", "used"):
                yield from _quota_causes((obj.get("status") or {}).get(part) or {}, f"status.{part}")
            return
        spec = obj["spec"]
        hard, scopes = spec.get("hard") or {}, spec.get("scopes") or []
        yield from _quota_causes(hard, "spec.hard")
        for scope in scopes:
            if scope not in _SCOPES:
                yield status.invalid_value("spec.scopes", scopes, "unsupported scope")
            yield from _misapplied(scope, hard, "spec.scopes", scopes)
        yield from _conflicting(set(scopes), "spec.scopes", scopes)
        if spec.get("scopeSelector") is not None:
            yield from _selector_causes(spec)
        if old is not None and set(old["spec"].get("scopes") or ()) != set(scopes):
            yield status.invalid_value("spec.scopes", spec.get("scopes"), "field is immutable")


class _LimitRanges(BuiltinStrategy):
    """Bounds and defaults for the resources of containers, pods and claims."""

    columns = "Created_At:d"

    def cells(self, obj: Object) -> Sequence[Any]:
        return (obj["metadata"].get("creationTimestamp"),)

    def default(self, obj: Object) -> None:
        """Set the default limits of containers to the maximum, and the requests to the limits or the minimum."""
        for limit in obj["spec"].get("limits") or ():
            if limit.get("type") != "Container":
                continue
            limits = {**(limit.get("max") or {}), **(limit.get("default") or {})}
            requests = {**(limit.get("min") or {}), **limits, **(limit.get("defaultRequest") or {})}
            for name, values in (("default", limits), ("defaultRequest", requests)):
                if values:
                    limit[name] = values

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        """Check the names of resources, and that the bounds fit each other."""
        seen: set[str] = set()
        for index, limit in enumerate(obj["spec"].get("limits") or ()):
            field, name = f"spec.limits[{index}]", limit.get("type", "")
            if problems := qualified_problems(name):
                yield from (status.invalid_value(f"{field}.type", name, text) for text in problems)
            elif "/" not in name and name not in _LIMIT_TYPES:
                text = "must be a standard limit type or fully qualified"
                yield status.invalid_value(f"{field}.type", name, text)
            if name in seen:
                yield status.duplicate(f"{field}.type", name)
            seen.add(name)
            yield from _limit_causes(limit, field)


def _quota_causes(resources: Mapping[str, str], field: str) -> Iterator[Cause]:
    for name, text in sorted(resources.items()):
        where = f"{field}[{name}]"
        yield from (status.invalid_value(where, name, problem) for problem in qualified_problems(name))
        plain = name.removeprefix("requests.")
        if "/" not in name and name not in _QUOTA_RESOURCES and not plain.startswith("hugepages-"):
            yield status.invalid_value(where, name, "must be a standard resource for quota")
        number = Quantity.parse(text).amount
        if number < 0:
            yield status.invalid_value(where, text, "must be greater than or equal to 0")
        if name in _COUNTS and number % 1:
            yield status.invalid_value(where, text, "must be an integer")


def _misapplied(scope: str, hard: Mapping[str, str], field: str, value: Any) -> Iterator[Cause]:
    """Check that each resource can be limited for objects of a scope."""
    allowed = {
        "BestEffort": {"pods"},
        "VolumeAttributesClass": {"persistentvolumeclaims", "requests.storage"},
    }.get(scope, _POD_RESOURCES)
    for name in sorted(hard):
        if name in _QUOTA_RESOURCES and name not in allowed and scope in _SCOPES:
            yield status.invalid_value(field, value, "unsupported scope applied to resource")


def _conflicting(scopes: set[str], field: str, value: Any) -> Iterator[Cause]:
    for pair in _CONFLICTS:
        if pair <= scopes:
            yield status.invalid_value(field, value, "conflicting scopes")


def _selector_causes(spec: Mapping[str, Any]) -> Iterator[Cause]:
    field, scopes = "spec.scopeSelector.matchExpressions", set[str]()
    for requirement in spec["scopeSelector"].get("matchExpressions") or ():
        scope, operator = requirement.get("scopeName", ""), requirement.get("operator", "")
        values = requirement.get("values") or []
        if scope not in _SCOPES:
            yield status.invalid_value(f"{field}.scopeName", scope, "unsupported scope")
        yield from _misapplied(scope, spec.get("hard") or {}, field, spec["scopeSelector"])
        if scope in _PLAIN_SCOPES and operator != "Exists":
            yield status.invalid_value(f"{field}.operator", operator, _PLAIN_SCOPE_TEXT)
        if operator in ("In", "NotIn"):
            if not values:
                text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                yield status.required(f"{field}.values", text)
        elif operator not in ("Exists", "DoesNotExist"):
            yield status.invalid_value(f"{field}.operator", operator, "not a valid selector operator")
        elif values:
            text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            yield status.invalid_value(f"{field}.values", values, text)
        scopes.add(scope)
    yield from _conflicting(scopes, field, spec.get("scopes"))


def _limit_causes(limit: Mapping[str, Any], field: str) -> Iterator[Cause]:
    kind = limit.get("type")
    parts = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"]
    if kind == "Pod":
        for name in ("default", "defaultRequest"):
            parts.remove(name)
            if limit.get(name):
                yield status.forbidden_field(f"{field}.{name}", "may not be specified when `type` is 'Pod'")
    for part in parts:
        for name in sorted(limit.get(part) or {}):
            where = f"{field}.{part}[{name}]"
            yield from (status.invalid_value(where, name, text) for text in qualified_problems(name))
            if kind in ("Pod", "Container") and "/" not in name and name not in _COMPUTE and "hugepages-" not in name:
                yield status.invalid_value(where, name, "must be a standard resource for containers")
    if kind == "PersistentVolumeClaim" and not any("storage" in (limit.get(part) or {}) for part in ("min", "max")):
        text = "either minimum or maximum storage value is required, but neither was provided"
        yield status.required(f"{field}.limits", text)
    bounds = {part: parsed(limit.get(part)) for part in parts}
    for name in sorted({name for found in bounds.values() for name in found}):
        yield from _bound_causes(bounds, name, field)


def _bound_causes(bounds: Mapping[str, Amounts], name: str, field: str) -> Iterator[Cause]:
    """Check the bounds and defaults of one resource against each other."""
    pairs = (
        ("min", "max", "min", "min", "min value {} is greater than max value {}"),
        (
            "min",
            "defaultRequest",
            "defaultRequest",
            "defaultRequest",
            "min value {} is greater than default request value {}",
        ),
        (
            "defaultRequest",
            "max",
            "defaultRequest",
            "defaultRequest",
            "default request value {} is greater than max value {}",
        ),
        (
            *("defaultRequest", "default", "defaultRequest", "defaultRequest"),
            "default request value {} is greater than default limit value {}",
        ),
        ("min", "default", "default", "min", "min value {} is greater than default value {}"),
        ("default", "max", "default", "max", "default value {} is greater than max value {}"),
    )
    for low, high, at, value, text in pairs:
        small, large = bounds.get(low, {}).get(name), bounds.get(high, {}).get(name)
        if small is not None and large is not None and small.amount > large.amount:
            yield status.invalid_value(f"{field}.{at}[{name}]", str(bounds[value][name]), text.format(small, large))
    ratio = bounds["maxLimitRequestRatio"].get(name)
    if ratio is None:
        return
    where = f"{field}.maxLimitRequestRatio[{name}]"
    if ratio.amount < 1:
        yield status.invalid_value(where, str(ratio), f"ratio {ratio} is less than 1")
    least, most = bounds["min"].get(name), bounds["max"].get(name)
    if least is not None and most is not None and least.amount and ratio.amount > most.amount / least.amount:
        text = f"ratio {ratio} is greater than max/min = {float(most.amount / least.amount):.6f}"
        yield status.invalid_value(where, str(ratio), text)


STRATEGIES = {("", "LimitRange"): _LimitRanges(), ("", "ResourceQuota"): _ResourceQuotas()}
