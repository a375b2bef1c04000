"""The spec of a pod, in a Pod or in a workload's template: defaults and validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.apimachinery import status
from ctrlhost.sandbox.apimachinery.names import is_label, name_problem
from ctrlhost.sandbox.apimachinery.status import Cause
from ctrlhost.sandbox.kinds.fields import PROTOCOLS, port_causes
from ctrlhost.sandbox.kinds.strategy import below

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ctrlhost.sandbox.kinds.strategy import Rule

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
    spec: Mapping[str, Any], path: str, *, templated: bool = False, claims: Iterable[str] = ()
) -> Iterator[Cause]:
    """Check a pod's spec, or a template's; `claims` are volumes that a StatefulSet adds."""
    containers = spec.get("containers") or []
    if not containers:
        yield status.required(f"{path}.containers")
    names: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield from _container(container, f"{path}.{field}[{index}]", names)
    volumes: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        name = volume.get("name", "")
        if not is_label(name):
            yield status.invalid_value(f"{path}.volumes[{index}].name", name, name_problem("label", name))
        elif name in volumes:
            yield status.duplicate(f"{path}.volumes[{index}].name", name)
        volumes.add(name)
    volumes.update(claims)
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            for at, mount in enumerate(container.get("volumeMounts") or ()):
                if mount.get("name") not in volumes:
                    where = f"{path}.{field}[{index}].volumeMounts[{at}].name"
                    yield Cause("FieldValueNotFound", f"Not found: {status.shown(mount.get('name'))}", where)
    policy = spec.get("restartPolicy")
    allowed = ("Always",) if templated else ("Always", "OnFailure", "Never")
    if policy not in allowed:
        yield status.not_supported(f"{path}.restartPolicy", policy, allowed)
    for name in ("hostname", "subdomain"):
        if spec.get(name) and not is_label(spec[name]):
            yield status.invalid_value(f"{path}.{name}", spec[name], name_problem("label", spec[name]))


def _container(container: Mapping[str, Any], path: str, names: set[str]) -> Iterator[Cause]:
    name = container.get("name", "")
    if not name:
        yield status.required(f"{path}.name")
    elif not is_label(name):
        yield status.invalid_value(f"{path}.name", name, name_problem("label", name))
    elif name in names:
        yield status.duplicate(f"{path}.name", name)
    names.add(name)
    image = container.get("image", "")
    if not image:
        yield status.required(f"{path}.image")
    elif image != image.strip():
        yield status.invalid_value(f"{path}.image", image, "must not have leading or trailing whitespace")
    for index, port in enumerate(container.get("ports") or ()):
        where = f"{path}.ports[{index}]"
        if not port.get("containerPort"):
            yield status.required(f"{where}.containerPort")
        yield from port_causes(port.get("containerPort") or 1, f"{where}.containerPort")
        if port.get("protocol") not in PROTOCOLS:
            yield status.not_supported(f"{where}.protocol", port.get("protocol"), PROTOCOLS)
    if container.get("imagePullPolicy") not in ("Always", "IfNotPresent", "Never"):
        supported = ("Always", "IfNotPresent", "Never")
        yield status.not_supported(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), supported)
    yield from [
        status.required(f"{path}.env[{index}].name")
        for index, variable in enumerate(container.get("env") or ())
        if not variable.get("name")
    ]
