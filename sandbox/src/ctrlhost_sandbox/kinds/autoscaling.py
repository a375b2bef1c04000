"""HorizontalPodAutoscalers of both versions."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.names import name_problems
from ctrlhost_sandbox.kinds.cells import NONE, created
from ctrlhost_sandbox.kinds.fields import not_negative
from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy
from ctrlhost_sandbox.registry import autoscalers
from ctrlhost_sandbox.schema.normalize import amount

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation

_V1 = "autoscaling/v1"
_SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
"""The types of metrics, and the field of each."""
_ORDER = ("object", "external", "pods", "resource", "containerResource")
_SELECT = ("Disabled", "Max", "Min")
_MOST_SECONDS, _MOST_PERIOD = 3600, 1800
_UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_DOWN = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}
_UNKNOWN = "<unknown>"


class _Autoscalers(BuiltinStrategy):
    """Version 1 has only the target of the CPU; what is said about metrics is checked and shown in version 2."""

    defaults = (("spec.minReplicas", 1),)
    columns = "Reference Targets MinPods MaxPods Replicas Age"

    def cells(self, obj: Object) -> Sequence[Any]:
        if obj.get("apiVersion") == _V1:
            obj = autoscalers.store(obj)
        spec, state = obj.get("spec") or {}, obj.get("status") or {}
        target = spec.get("scaleTargetRef") or {}
        numbers = (str(spec.get("minReplicas", "<unset>")), spec.get("maxReplicas", 0), state.get("currentReplicas", 0))
        metrics = _metrics_text(spec.get("metrics") or (), state.get("currentMetrics") or ())
        return (f"{target.get('kind', '')}/{target.get('name', '')}", metrics, *numbers, created(obj))

    def default(self, obj: Object) -> None:
        """Set the metrics and the behavior, which version 1 does not have."""
        spec = obj["spec"]
        if obj.get("apiVersion") == _V1:
            autoscalers.default_target(obj)
            return
        if "status" in obj:
            obj["status"].setdefault("currentMetrics", None)
        if not spec.get("metrics"):
            spec["metrics"] = copy.deepcopy(autoscalers.DEFAULT_METRICS)
        if (behavior := spec.get("behavior")) is not None:
            for name, rules in (("scaleUp", _UP), ("scaleDown", _DOWN)):
                behavior[name] = {**copy.deepcopy(rules), **(behavior.get(name) or {})}

    def prepare_create(self, context: ServerContext, operation: Operation, obj: Object) -> None:
        """Set the status of an autoscaler that never ran."""
        first = {"currentReplicas": 0} if obj.get("apiVersion") == _V1 else {"currentMetrics": None}
        obj["status"] = {**first, "desiredReplicas": 0}

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        """Check the spec, or the counts of a status."""
        if operation.subresource:
            yield from not_negative(obj.get("status") or {}, "currentReplicas", "desiredReplicas", path="status")
            return
        spec = (autoscalers.store(obj) if obj.get("apiVersion") == _V1 else obj)["spec"]
        least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
        if least is not None and least < 1:
            yield status.invalid_value("spec.minReplicas", least, "must be greater than or equal to 1")
        if most == 0:
            yield status.required("spec.maxReplicas", "must be set and greater than 0")
        elif most < 0:
            yield status.invalid_value("spec.maxReplicas", most, "must be greater than or equal to 1")
        if least is not None and most < least:
            yield status.invalid_value("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
        target, before = spec.get("scaleTargetRef") or {}, (old or {}).get("spec", {}).get("scaleTargetRef") or {}
        same = old is not None and all(target.get(name) == before.get(name) for name in ("apiVersion", "kind"))
        core = same or target.get("kind") == "ReplicationController"
        yield from _reference_causes(target, "spec.scaleTargetRef", core=core)
        for index, metric in enumerate(spec.get("metrics") or ()):
            yield from _metric_causes(metric, f"spec.metrics[{index}]")
        kinds = {metric.get("type") for metric in spec.get("metrics") or ()}
        if least == 0 and not kinds & {"Object", "External"}:
            text = "must specify at least one Object or External metric to support scaling to zero replicas"
            yield status.forbidden_field("spec.metrics", text)
        for name in ("scaleUp", "scaleDown"):
            rules = (spec.get("behavior") or {}).get(name)
            if rules is not None:
                yield from _rules_causes(rules, f"spec.behavior.{name}")


def _reference_causes(reference: Mapping[str, Any], where: str, *, core: bool) -> Iterator[Cause]:
    """Check a reference to an object; `core` says whether it may be of the core group."""
    for name in ("kind", "name"):
        value = reference.get(name, "")
        if not value:
            yield status.required(f"{where}.{name}")
        elif problems := name_problems("segment", value):
            yield from status.invalid_values(f"{where}.{name}", value, problems)
    version = reference.get("apiVersion", "")
    if version.count("/") > 1:
        text = f"unexpected GroupVersion string: {version}"
        yield status.invalid_value(f"{where}.apiVersion", version, text)
    elif not core and not version.partition("/")[2]:
        yield status.invalid_value(f"{where}.apiVersion", version, "apiVersion must specify API group")


def _metric_causes(metric: Mapping[str, Any], where: str) -> Iterator[Cause]:
    kind = metric.get("type", "")
    if not kind:
        yield status.required(f"{where}.type", "must specify a metric source type")
    wrong = status.not_supported(f"{where}.type", kind, _SOURCES)
    if kind not in _SOURCES:
        yield wrong
    sources = [name for name in _ORDER if metric.get(name) is not None]
    if sources:
        yield from _source_causes(sources[0], metric[sources[0]], f"{where}.{sources[0]}")
    wanted = _SOURCES.get(kind, "")
    if not wanted:
        yield wrong
    elif wanted not in sources:
        yield status.required(f"{where}.{wanted}", "must populate information for the given metric source")
    if len(sources) != 1:
        text = "must populate the given metric source only"
        yield from [status.forbidden_field(f"{where}.{name}", text) for name in sources if name != wanted]


def _source_causes(kind: str, source: Mapping[str, Any], where: str) -> Iterator[Cause]:
    target, field = source.get("target") or {}, f"{where}.target"
    if kind == "object":
        yield from _reference_causes(source.get("describedObject") or {}, f"{where}.describedObject", core=True)
    if kind in ("object", "external", "pods"):
        name = (source.get("metric") or {}).get("name", "")
        if not name:
            yield status.required(f"{where}.metric.name", "must specify a metric name")
        elif problems := name_problems("segment", name):
            yield from status.invalid_values(f"{where}.metric.name", name, problems)
    else:
        if not source.get("name"):
            yield status.required(f"{where}.name", "must specify a resource name")
        if kind == "containerResource" and not source.get("container"):
            yield status.required(f"{where}.container", "must specify a container")
    yield from _target_causes(target, field)
    average, value, share = (target.get(name) for name in ("averageValue", "value", "averageUtilization"))
    if kind in ("object", "external") and average is None and value is None:
        yield status.required(f"{field}.averageValue", "must set either a target value or averageValue")
    if kind == "external" and average is not None and value is not None:
        yield status.forbidden_field(f"{field}.value", "may not set both a target value and a per-pod target")
    if kind == "pods" and average is None:
        yield status.required(f"{field}.averageValue", "must specify a positive target averageValue")
    if kind in ("resource", "containerResource"):
        if average is None and share is None:
            text = "must set either a target raw value or a target utilization"
            yield status.required(f"{field}.averageUtilization", text)
        elif average is not None and share is not None:
            text = "may not set both a target raw value and a target utilization"
            yield status.forbidden_field(f"{field}.averageValue", text)


def _target_causes(target: Mapping[str, Any], where: str) -> Iterator[Cause]:
    kind = target.get("type", "")
    if not kind:
        yield status.required(f"{where}.type", "must specify a metric target type")
    if kind not in ("Utilization", "Value", "AverageValue"):
        yield status.invalid_value(f"{where}.type", kind, "must be either Utilization, Value, or AverageValue")
    for name in ("value", "averageValue"):
        if name in target and amount(target[name]) <= 0:
            yield status.invalid_value(f"{where}.{name}", target[name], "must be positive")
    share = target.get("averageUtilization")
    if share is not None and share < 1:
        yield status.invalid_value(f"{where}.averageUtilization", share, "must be greater than 0")


def _rules_causes(rules: Mapping[str, Any], where: str) -> Iterator[Cause]:
    window = rules.get("stabilizationWindowSeconds", 0)
    if window < 0:
        text = "must be greater than or equal to zero"
        yield status.invalid_value(f"{where}.stabilizationWindowSeconds", window, text)
    elif window > _MOST_SECONDS:
        text = f"must be less than or equal to {_MOST_SECONDS}"
        yield status.invalid_value(f"{where}.stabilizationWindowSeconds", window, text)
    if rules.get("selectPolicy", "Max") not in _SELECT:
        yield status.not_supported(f"{where}.selectPolicy", rules["selectPolicy"], _SELECT)
    if not rules.get("policies"):
        yield status.required(f"{where}.policies", "must specify at least one Policy")
    for index, policy in enumerate(rules.get("policies") or ()):
        field, seconds = f"{where}.policies[{index}]", policy.get("periodSeconds", 0)
        if policy.get("type") not in ("Pods", "Percent"):
            yield status.not_supported(f"{field}.type", policy.get("type", ""), ("Percent", "Pods"))
        if policy.get("value", 0) <= 0:
            yield status.invalid_value(f"{field}.value", policy.get("value", 0), "must be greater than zero")
        if seconds <= 0:
            yield status.invalid_value(f"{field}.periodSeconds", seconds, "must be greater than zero")
        elif seconds > _MOST_PERIOD:
            text = f"must be less than or equal to {_MOST_PERIOD}"
            yield status.invalid_value(f"{field}.periodSeconds", seconds, text)


def _metrics_text(metrics: Sequence[Mapping[str, Any]], current: Sequence[Mapping[str, Any]]) -> str:
    """Format the targets as a table shows them: the first two, and the number of others."""
    if not metrics:
        return NONE
    texts = []
    for index, metric in enumerate(metrics):
        kind = _SOURCES.get(metric.get("type", ""), "")
        source = metric.get(kind) or {}
        now = ((current[index] if index < len(current) else {}).get(kind) or {}).get("current") or {}
        texts.append(_metric_text(kind, source, now))
    more = f" + {len(texts) - 2} more..." if len(texts) > 2 else ""
    return ", ".join(texts[:2]) + more


def _metric_text(kind: str, source: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    target = source.get("target") or {}
    average = "averageValue" in target
    if kind in ("resource", "containerResource"):
        if average:
            text = f"{now.get('averageValue', _UNKNOWN)}/{target['averageValue']}"
        else:
            used, wanted = now.get("averageUtilization"), target.get("averageUtilization")
            text = f"{_UNKNOWN if used is None else f'{used}%'}/{'<auto>' if wanted is None else f'{wanted}%'}"
        return f"{source.get('name', '')}: {text}"
    name = "averageValue" if average else "value"
    mark = " (avg)" if average and kind != "pods" else ""
    return f"{now.get(name, _UNKNOWN)}/{target.get(name, '')}{mark}" if kind else "<unknown type>"


STRATEGIES = {("autoscaling", "HorizontalPodAutoscaler"): _Autoscalers()}
