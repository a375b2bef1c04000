"""HorizontalPodAutoscalers of autoscaling/v1, which are stored as those of autoscaling/v2.

What version 1 has no field for is in annotations, in the form that `pkg/apis/autoscaling/v1/conversion.go` of upstream
gives it: metrics with the names of version 1, behavior with the names of Go.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost_sandbox.apimachinery.objects import at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctrlhost_sandbox.apimachinery.objects import Object

_PREFIX = "autoscaling.alpha.kubernetes.io/"
_METRICS, _BEHAVIOR = f"{_PREFIX}metrics", f"{_PREFIX}behavior"
_CURRENT, _CONDITIONS = f"{_PREFIX}current-metrics", f"{_PREFIX}conditions"
_TARGET, _CURRENT_CPU = "targetCPUUtilizationPercentage", "currentCPUUtilizationPercentage"
_DEFAULT_TARGET = 80
DEFAULT_METRICS: list[dict[str, Any]] = [
    {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": _DEFAULT_TARGET}},
    }
]
"""The metrics of an autoscaler that names none."""
_SOURCES = ("object", "pods", "resource", "containerResource", "external")
_RULES = ("StabilizationWindowSeconds", "SelectPolicy", "Policies", "Tolerance")


def _names(source: str, member: str) -> list[tuple[tuple[str, ...], str, bool]]:
    """Return the fields of a source of metrics: path in version 2, name in version 1, whether it is always written.

    `member` is `target` for a metric, and `current` for its state.
    """
    now = member == "current"
    name, selector = (("metric", "name"), "metricName", True), ("metric", "selector")
    value = ((member, "value"), f"{member}Value", source == "object" or now)
    average = ((member, "averageValue"), f"{member}AverageValue", source == "pods" or now)
    if source == "object":
        part = ((member, "averageValue"), "averageValue", False)
        return [(("describedObject",), "target", True), name, value, (selector, "selector", False), part]
    if source == "pods":
        return [name, average, (selector, "selector", False)]
    if source == "external":
        total = (member, "averageValue"), f"{member}AverageValue", False
        return [name, (selector, "metricSelector", False), value, total]
    share = ((member, "averageUtilization"), f"{member}AverageUtilization", False)
    container = [(("container",), "container", True)] if source == "containerResource" else []
    return [(("name",), "name", True), share, average, *container]


def _to_v1(metric: dict[str, Any], member: str) -> dict[str, Any]:
    converted: dict[str, Any] = {"type": metric.get("type", "")}
    for source in _SOURCES:
        if metric.get(source) is not None:
            part = converted[source] = {}
            for path, name, always in _names(source, member):
                value = at(metric[source], path)
                if value is not None or always:
                    part[name] = "0" if value is None else value
    return converted


def _to_v2(metric: dict[str, Any], member: str) -> dict[str, Any]:
    converted: dict[str, Any] = {"type": metric.get("type", "")}
    for source in _SOURCES:
        if metric.get(source) is None:
            continue
        part = converted[source] = {}
        for path, name, always in _names(source, member):
            value = metric[source].get(name)
            if value is not None and not (always and value == "0"):
                *parents, last = path
                node = part
                for parent in parents:
                    node = node.setdefault(parent, {})
                node[last] = value
        if member == "target":
            kinds = ("averageUtilization", "averageValue", "value")
            target = next((kind for kind in kinds if kind in part.get(member, {})), "value")
            type_ = {"averageUtilization": "Utilization"}.get(target) or target[0].upper() + target[1:]
            part[member] = {"type": type_, **part.get(member, {})}
    return converted


def _behavior_to_v1(behavior: dict[str, Any]) -> dict[str, Any]:
    converted: dict[str, Any] = {}
    for name in ("scaleUp", "scaleDown"):
        rules = behavior.get(name)
        if rules is not None:
            rules = {key: rules.get(key[0].lower() + key[1:]) for key in _RULES}
            rules["Policies"] = [_renamed(policy, str.upper) for policy in rules["Policies"] or ()] or None
        converted[name[0].upper() + name[1:]] = rules
    return converted


def _behavior_to_v2(behavior: dict[str, Any]) -> dict[str, Any]:
    converted = _without_null(_renamed(behavior, str.lower))
    for name, rules in converted.items():
        converted[name] = _without_null(_renamed(rules, str.lower))
        if "policies" in converted[name]:
            converted[name]["policies"] = [_renamed(policy, str.lower) for policy in converted[name]["policies"]]
    return converted


def _renamed(value: dict[str, Any], case: Callable[[str], str]) -> dict[str, Any]:
    return {case(key[:1]) + key[1:]: item for key, item in value.items()}


def _without_null(value: dict[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if item is not None}


def serve(obj: Object) -> Object:
    """Return a stored object in version 1."""
    spec, state = obj.get("spec") or {}, obj.get("status") or {}
    metrics, current = spec.pop("metrics", None) or (), state.pop("currentMetrics", None) or ()
    behavior, conditions = spec.pop("behavior", None), state.pop("conditions", None) or ()
    shares = [(metric, _cpu_share(metric, "target")) for metric in metrics]
    others = [_to_v1(metric, "target") for metric, share in shares if share is None]
    _set_first(spec, _TARGET, (share for _, share in shares))
    _set_first(state, _CURRENT_CPU, (_cpu_share(metric, "current") for metric in current))
    kept = {
        _METRICS: others,
        _CURRENT: [_to_v1(metric, "current") for metric in current],
        _BEHAVIOR: None if behavior is None else _behavior_to_v1(behavior),
        _CONDITIONS: [{"lastTransitionTime": None, **condition} for condition in conditions],
    }
    if texts := {name: msgspec.json.encode(value).decode() for name, value in kept.items() if value}:
        obj["metadata"]["annotations"] = {**(obj["metadata"].get("annotations") or {}), **texts}
    return obj


def _set_first(part: dict[str, Any], name: str, values: Iterable[Any]) -> None:
    for value in values:
        if value is not None:
            part[name] = value
            return


def _cpu_share(metric: dict[str, Any], member: str) -> Any:
    """Return the utilization of the CPU that a metric is about; None if it is about something else."""
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    return (resource.get(member) or {}).get("averageUtilization")


def default_target(obj: Object) -> None:
    """Set the target of an object of version 1 that has no metrics."""
    if not _decoded((obj["metadata"].get("annotations") or {}).get(_METRICS, "")):
        obj["spec"].setdefault(_TARGET, _DEFAULT_TARGET)


def store(obj: Object) -> Object:
    """Return an object of version 1 in the stored version; annotations that are invalid are dropped."""
    obj = copy.deepcopy(obj)
    spec, state = obj.get("spec") or {}, obj.get("status") or {}
    annotations = obj["metadata"].get("annotations") or {}
    decoded = {name: _decoded(annotations.pop(name, "")) for name in (_METRICS, _BEHAVIOR, _CURRENT, _CONDITIONS)}
    if "annotations" in obj["metadata"] and not annotations:
        del obj["metadata"]["annotations"]
    metrics = [_to_v2(metric, "target") for metric in _objects(decoded[_METRICS])]
    target, usage = spec.pop(_TARGET, None), state.pop(_CURRENT_CPU, None)
    if target is not None:
        metrics.append(_cpu("target", {"type": "Utilization", "averageUtilization": target}))
    spec["metrics"] = metrics
    current = [_to_v2(metric, "current") for metric in _objects(decoded[_CURRENT])]
    if usage is not None and not current:
        current.append(_cpu("current", {"averageUtilization": usage}))
    if isinstance(decoded[_BEHAVIOR], dict) and decoded[_BEHAVIOR]:
        spec["behavior"] = _behavior_to_v2(decoded[_BEHAVIOR])
    for name, items in (("currentMetrics", current), ("conditions", _objects(decoded[_CONDITIONS]))):
        if items:
            state[name] = items
    return obj


def _cpu(member: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Resource", "resource": {"name": "cpu", member: value}}


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text) if text else None
    except msgspec.DecodeError:
        return None
