"""The spec of a pod, in a Pod or in a workload's template: defaults and validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.apimachinery import status
from ctrlhost.sandbox.apimachinery.names import (
    LABEL_VALUE_TEXT,
    is_label_value,
    label_causes,
    name_problem,
    qualified_problems,
)
from ctrlhost.sandbox.kinds.containers import container_causes
from ctrlhost.sandbox.kinds.strategy import below
from ctrlhost.sandbox.kinds.volumes import volume_causes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ctrlhost.sandbox.apimachinery.status import Cause
    from ctrlhost.sandbox.kinds.strategy import Rule

_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_PROBE: list[Rule] = [
    ("timeoutSeconds", 1),
    ("periodSeconds", 10),
    ("successThreshold", 1),
    ("failureThreshold", 3),
    ("httpGet.path", "/"),
    ("httpGet.scheme", "HTTP"),
    ("grpc.service", ""),
]
_CONTAINER: list[Rule] = [
    ("terminationMessagePath", "/dev/termination-log"),
    ("terminationMessagePolicy", "File"),
    ("ports[*].protocol", "TCP"),
    ("env[*].valueFrom.fieldRef.apiVersion", "v1"),
    ("lifecycle.postStart.httpGet.path", "/"),
    ("lifecycle.postStart.httpGet.scheme", "HTTP"),
    ("lifecycle.preStop.httpGet.path", "/"),
    ("lifecycle.preStop.httpGet.scheme", "HTTP"),
    *below("livenessProbe", _PROBE),
    *below("readinessProbe", _PROBE),
    *below("startupProbe", _PROBE),
]
DEFAULTS: list[Rule] = [
    ("restartPolicy", "Always"),
    ("dnsPolicy", "ClusterFirst"),
    ("schedulerName", "default-scheduler"),
    ("terminationGracePeriodSeconds", 30),
    ("securityContext", {}),
    ("volumes[*].secret.defaultMode", 420),
    ("volumes[*].configMap.defaultMode", 420),
    ("volumes[*].downwardAPI.defaultMode", 420),
    ("volumes[*].downwardAPI.items[*].fieldRef.apiVersion", "v1"),
    ("volumes[*].projected.defaultMode", 420),
    ("volumes[*].projected.sources[*].serviceAccountToken.expirationSeconds", 3600),
    ("volumes[*].projected.sources[*].downwardAPI.items[*].fieldRef.apiVersion", "v1"),
    ("volumes[*].hostPath.type", ""),
    *below("containers[*]", _CONTAINER),
    *below("initContainers[*]", _CONTAINER),
]


def default(spec: dict[str, Any]) -> None:
    """Set the defaults that depend on other fields."""
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        image = container.get("image", "")
        tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
        latest = tag == "latest" or (not tag and "@" not in image)
        container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    for volume in spec.get("volumes") or ():
        if set(volume) <= {"name"}:
            volume["emptyDir"] = {}
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def causes(
    spec: Mapping[str, Any],
    path: str,
    *,
    templated: bool = False,
    claims: Iterable[str] = (),
    restarts: Sequence[str] = ("Always",),
) -> Iterator[Cause]:
    """Check a pod's spec, or a template's; `claims` are volumes that a StatefulSet adds.

    `restarts` are the restart policies of a template.
    """
    volumes: set[str] = set()
    yield from volume_causes(spec.get("volumes") or (), f"{path}.volumes", volumes)
    volumes.update(claims)
    if not spec.get("containers"):
        yield status.required(f"{path}.containers")
    names: set[str] = set()
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            where = f"{path}.{field}[{index}]"
            yield from container_causes(container, where, names, volumes, templated=templated)
    allowed = restarts if templated else ("Always", "OnFailure", "Never")
    if (policy := spec.get("restartPolicy")) not in allowed:
        yield status.not_supported(f"{path}.restartPolicy", policy, allowed)
    if (policy := spec.get("dnsPolicy")) not in _DNS_POLICIES:
        yield status.not_supported(f"{path}.dnsPolicy", policy, _DNS_POLICIES)
    elif policy == "None" and not spec.get("dnsConfig"):
        yield status.required(f"{path}.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None")
    yield from label_causes(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    if spec.get("hostNetwork"):
        yield from _host_port_causes(spec, path)
    for name, rule in (("serviceAccountName", "subdomain"), ("nodeName", "subdomain")):
        if spec.get(name) and (problem := name_problem(rule, spec[name])):
            yield status.invalid_value(f"{path}.{name}", spec[name], problem)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 2**31:
        text = f"must be between 1 and {2**31 - 1}, inclusive"
        yield status.invalid_value(f"{path}.activeDeadlineSeconds", deadline, text)
    for name in ("hostname", "subdomain"):
        if spec.get(name) and (problem := name_problem("label", spec[name])):
            yield status.invalid_value(f"{path}.{name}", spec[name], problem)
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        yield from _toleration_causes(toleration, f"{path}.tolerations[{index}]")
    if templated and deadline is not None and len(restarts) == 1:
        text = "activeDeadlineSeconds in ReplicaSet is not Supported"
        yield status.forbidden_field(f"{path}.activeDeadlineSeconds", text)


def _host_port_causes(spec: Mapping[str, Any], path: str) -> Iterator[Cause]:
    for index, container in enumerate(spec.get("containers") or ()):
        for at, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort", port.get("containerPort")) != port.get("containerPort"):
                where = f"{path}.containers[{index}].ports[{at}].hostPort"
                text = "must match `containerPort` when `hostNetwork` is true"
                yield status.invalid_value(where, port["hostPort"], text)


def _toleration_causes(toleration: Mapping[str, Any], path: str) -> Iterator[Cause]:
    key, value = toleration.get("key", ""), toleration.get("value", "")
    operator, effect = toleration.get("operator", ""), toleration.get("effect", "")
    if key:
        yield from [status.invalid_value(f"{path}.key", key, text) for text in qualified_problems(key)]
    elif operator != "Exists":
        text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield status.invalid_value(f"{path}.operator", operator, text)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield status.invalid_value(f"{path}.effect", effect, text)
    if operator in ("", "Equal") and not is_label_value(value):
        yield status.invalid_value(f"{path}.operator", value, LABEL_VALUE_TEXT)
    elif operator == "Exists" and value:
        text = "value must be empty when `operator` is 'Exists'"
        yield status.invalid_value(f"{path}.operator", value, text)
    elif operator not in ("", "Equal", "Exists"):
        yield status.not_supported(f"{path}.operator", operator, ("Equal", "Exists"))
    if effect and effect not in _EFFECTS:
        yield status.not_supported(f"{path}.effect", effect, _EFFECTS)
