"""HorizontalPodAutoscalers of autoscaling/v1, which are stored as those of autoscaling/v2.

What version 1 has no field for is in annotations, as `pkg/apis/autoscaling/v1/conversion.go` of upstream has it.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from ctrlhost.sandbox.apimachinery.objects import Object

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


def shown(obj: Object) -> Object:
    """Return a stored object in version 1."""
    spec, state = obj.get("spec") or {}, obj.get("status") or {}
    kept: dict[str, Any] = {}
    others = []
    for metric in spec.pop("metrics", None) or ():
        target = _cpu(metric, "target")
        if target is not None and "averageUtilization" in target and _TARGET not in spec:
            spec[_TARGET] = target["averageUtilization"]
        else:
            others.append(metric)
    current = []
    for metric in state.pop("currentMetrics", None) or ():
        found = _cpu(metric, "current")
        if found is not None and "averageUtilization" in found and _CURRENT_CPU not in state:
            state[_CURRENT_CPU] = found["averageUtilization"]
        current.append(metric)
    kept[_METRICS], kept[_BEHAVIOR] = others, spec.pop("behavior", None)
    kept[_CURRENT], kept[_CONDITIONS] = current, state.pop("conditions", None)
    if texts := {name: msgspec.json.encode(value).decode() for name, value in kept.items() if value}:
        obj["metadata"]["annotations"] = {**(obj["metadata"].get("annotations") or {}), **texts}
    return obj


def default_target(obj: Object) -> None:
    """Set the target of an object of version 1 that has no metrics."""
    if not _decoded((obj["metadata"].get("annotations") or {}).get(_METRICS, "")):
        obj["spec"].setdefault(_TARGET, _DEFAULT_TARGET)


def stored(obj: Object) -> Object:
    """Return an object of version 1 in the stored version; annotations that are not JSON are dropped."""
    obj = copy.deepcopy(obj)
    spec, state = obj.get("spec") or {}, obj.get("status") or {}
    annotations = obj["metadata"].get("annotations") or {}
    found = {name: _decoded(annotations.pop(name, "")) for name in (_METRICS, _BEHAVIOR, _CURRENT, _CONDITIONS)}
    if "annotations" in obj["metadata"] and not annotations:
        del obj["metadata"]["annotations"]
    metrics = found[_METRICS] or []
    target = spec.pop(_TARGET, None)
    if target is not None:
        metrics = [*metrics, _resource("target", {"type": "Utilization", "averageUtilization": target})]
    spec["metrics"] = metrics
    usage = state.pop(_CURRENT_CPU, None)
    current = found[_CURRENT] or ([] if usage is None else [_resource("current", {"averageUtilization": usage})])
    for part, name, value in (
        (spec, "behavior", found[_BEHAVIOR]),
        (state, "currentMetrics", current),
        (state, "conditions", found[_CONDITIONS]),
    ):
        if value:
            part[name] = value
    return obj


def _cpu(metric: dict[str, Any], member: str) -> dict[str, Any] | None:
    resource = metric.get("resource") or {}
    return resource.get(member) if metric.get("type") == "Resource" and resource.get("name") == "cpu" else None


def _resource(member: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Resource", "resource": {"name": "cpu", member: value}}


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text) if text else None
    except msgspec.DecodeError:
        return None
