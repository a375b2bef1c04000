"""What makes pods, and the workloads that make pods, invalid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.apimachinery import status
from ctrlhost.sandbox.apimachinery.names import is_label, label_causes, name_problem
from ctrlhost.sandbox.apimachinery.selectors import match_selector
from ctrlhost.sandbox.apimachinery.status import Cause
from ctrlhost.sandbox.validation.fields import PROTOCOLS, not_negative, port_causes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost.sandbox.apimachinery.objects import Object


_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def _pod_spec(spec: Mapping[str, Any], path: str, *, templated: bool = False) -> list[Cause]:
    """Check a pod's spec, or a template's."""
    found: list[Cause] = []
    containers = spec.get("containers") or []
    if not containers:
        found.append(status.required(f"{path}.containers"))
    names: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            found += _container(container, f"{path}.{field}[{index}]", names)
    volumes: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        name = volume.get("name", "")
        if not is_label(name):
            found.append(status.invalid_value(f"{path}.volumes[{index}].name", name, name_problem("label", name)))
        elif name in volumes:
            found.append(status.duplicate(f"{path}.volumes[{index}].name", name))
        volumes.add(name)
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            for at, mount in enumerate(container.get("volumeMounts") or ()):
                if mount.get("name") not in volumes:
                    where = f"{path}.{field}[{index}].volumeMounts[{at}].name"
                    found.append(Cause("FieldValueNotFound", f"Not found: {status.shown(mount.get('name'))}", where))
    policy = spec.get("restartPolicy")
    allowed = ("Always",) if templated else ("Always", "OnFailure", "Never")
    if policy not in allowed:
        found.append(status.not_supported(f"{path}.restartPolicy", policy, allowed))
    for name in ("hostname", "subdomain"):
        if spec.get(name) and not is_label(spec[name]):
            found.append(status.invalid_value(f"{path}.{name}", spec[name], name_problem("label", spec[name])))
    return found


def _container(container: Mapping[str, Any], path: str, names: set[str]) -> list[Cause]:
    found: list[Cause] = []
    name = container.get("name", "")
    if not name:
        found.append(status.required(f"{path}.name"))
    elif not is_label(name):
        found.append(status.invalid_value(f"{path}.name", name, name_problem("label", name)))
    elif name in names:
        found.append(status.duplicate(f"{path}.name", name))
    names.add(name)
    image = container.get("image", "")
    if not image:
        found.append(status.required(f"{path}.image"))
    elif image != image.strip():
        found.append(status.invalid_value(f"{path}.image", image, "must not have leading or trailing whitespace"))
    for index, port in enumerate(container.get("ports") or ()):
        where = f"{path}.ports[{index}]"
        if not port.get("containerPort"):
            found.append(status.required(f"{where}.containerPort"))
        found += port_causes(port.get("containerPort") or 1, f"{where}.containerPort")
        if port.get("protocol") not in PROTOCOLS:
            found.append(status.not_supported(f"{where}.protocol", port.get("protocol"), PROTOCOLS))
    if container.get("imagePullPolicy") not in ("Always", "IfNotPresent", "Never"):
        supported = ("Always", "IfNotPresent", "Never")
        found.append(status.not_supported(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), supported))
    found += [
        status.required(f"{path}.env[{index}].name")
        for index, variable in enumerate(container.get("env") or ())
        if not variable.get("name")
    ]
    return found


def pod(obj: Object) -> list[Cause]:
    """Check a Pod."""
    return _pod_spec(obj["spec"], "spec")


def workload(obj: Object) -> list[Cause]:
    """Check a Deployment, ReplicaSet, StatefulSet or DaemonSet."""
    spec = obj["spec"]
    found = not_negative(spec, "replicas") + not_negative(spec, "minReadySeconds")
    found += not_negative(spec, "revisionHistoryLimit")
    selector = spec.get("selector")
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not selector:
        found.append(status.required("spec.selector"))
        found.append(status.invalid_value("spec.selector", {}, "empty selector is invalid for this kind"))
    else:
        found += _selector(selector, "spec.selector")
        if not found and not match_selector(selector, labels):
            text = "`selector` does not match template `labels`"
            found.append(status.invalid_value("spec.template.metadata.labels", labels or None, text))
    found += label_causes(labels, "spec.template.labels")
    found += _pod_spec(template.get("spec") or {}, "spec.template.spec", templated=True)
    kind = (spec.get("strategy") or {}).get("type")
    if obj["kind"] == "Deployment":
        if kind not in ("Recreate", "RollingUpdate"):
            found.append(status.not_supported("spec.strategy.type", kind, ("Recreate", "RollingUpdate")))
        elif kind == "Recreate" and (spec["strategy"].get("rollingUpdate")):
            text = "may not be specified when strategy `type` is 'Recreate'"
            found.append(status.forbidden_field("spec.strategy.rollingUpdate", text))
    return found


def _selector(selector: Mapping[str, Any], path: str) -> list[Cause]:
    """Check a LabelSelector."""
    found = label_causes(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, item in enumerate(selector.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{index}]"
        operator, values = item.get("operator"), item.get("values")
        if operator not in _OPERATORS:
            found.append(status.invalid_value(f"{where}.operator", operator, "not a valid selector operator"))
        elif operator in ("In", "NotIn") and not values:
            found.append(status.required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in ("Exists", "DoesNotExist") and values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            found.append(status.forbidden_field(f"{where}.values", text))
    return found
