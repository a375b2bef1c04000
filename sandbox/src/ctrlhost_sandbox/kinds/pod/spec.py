"""The spec of a pod, in a Pod or in a workload's template: defaults and validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.names import name_problems
from ctrlhost_sandbox.kinds.fields import legacy_ip_causes
from ctrlhost_sandbox.kinds.pod.containers import container_causes, host_port_causes
from ctrlhost_sandbox.kinds.pod.images import is_latest
from ctrlhost_sandbox.kinds.pod.scheduling import scheduling_causes
from ctrlhost_sandbox.kinds.pod.security import pod_security_causes
from ctrlhost_sandbox.kinds.pod.volumes import volume_causes
from ctrlhost_sandbox.kinds.strategy import below

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.kinds.strategy import Rule

_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTIONS = ("PreemptLowerPriority", "Never")
_MOST_SERVERS, _MOST_SEARCHES = 3, 32
_NAMED = (
    ("serviceAccountName", "subdomain"),
    ("nodeName", "subdomain"),
    ("hostname", "label"),
    ("subdomain", "label"),
    ("priorityClassName", "subdomain"),
    ("runtimeClassName", "subdomain"),
)
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
    ("volumes[*].ephemeral.volumeClaimTemplate.spec.volumeMode", "Filesystem"),
    *below("containers[*]", _CONTAINER),
    *below("initContainers[*]", _CONTAINER),
]


def default(spec: dict[str, Any]) -> None:
    """Set the defaults that depend on other fields."""
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        latest = is_latest(container.get("image", ""))
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
    restarts: Sequence[str] = ("Always",),
) -> Iterator[Cause]:
    """Check a pod's spec, or a template's; `restarts` are the restart policies of a template."""
    volumes: set[str] = set()
    yield from volume_causes(spec.get("volumes") or (), f"{path}.volumes", volumes)
    if not spec.get("containers"):
        yield status.required(f"{path}.containers")
    names: set[str] = set()
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            where = f"{path}.{field}[{index}]"
            initial = field == "initContainers"
            yield from container_causes(container, where, names, volumes, templated=templated, initial=initial)
            if initial:
                yield from host_port_causes([container], where, set())
    yield from host_port_causes(spec.get("containers") or (), f"{path}.containers", set())
    allowed = restarts if templated else ("Always", "OnFailure", "Never")
    if (policy := spec.get("restartPolicy")) not in allowed:
        yield status.not_supported(f"{path}.restartPolicy", policy, allowed)
    if (policy := spec.get("dnsPolicy")) not in _DNS_POLICIES:
        yield status.not_supported(f"{path}.dnsPolicy", policy, _DNS_POLICIES)
    yield from _dns_causes(spec.get("dnsConfig"), policy, f"{path}.dnsConfig")
    yield from pod_security_causes(spec, path)
    if spec.get("hostNetwork"):
        yield from _host_port_causes(spec, path)
    for name, rule in _NAMED:
        if spec.get(name) and (problems := name_problems(rule, spec[name])):
            yield from status.invalid_values(f"{path}.{name}", spec[name], problems)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 2**31:
        text = f"must be between 1 and {2**31 - 1}, inclusive"
        yield status.invalid_value(f"{path}.activeDeadlineSeconds", deadline, text)
    yield from scheduling_causes(spec, path)
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        yield from legacy_ip_causes(alias.get("ip", ""), f"{path}.hostAliases[{index}].ip")
        for at, host in enumerate(alias.get("hostnames") or ()):
            if problems := name_problems("subdomain", host):
                yield from status.invalid_values(f"{path}.hostAliases[{index}].hostnames[{at}]", host, problems)
    if (preemption := spec.get("preemptionPolicy")) is not None and preemption not in _PREEMPTIONS:
        yield status.not_supported(f"{path}.preemptionPolicy", preemption, _PREEMPTIONS)
    system = (spec.get("os") or {}).get("name", "")
    if spec.get("os") is not None and not system:
        yield status.required(f"{path}.os.name")
    elif system and system not in ("linux", "windows"):
        yield status.not_supported(f"{path}.os", system, ("linux", "windows"))
    if templated and deadline is not None and len(restarts) == 1:
        text = "activeDeadlineSeconds in ReplicaSet is not Supported"
        yield status.forbidden_field(f"{path}.activeDeadlineSeconds", text)


def _dns_causes(config: Mapping[str, Any] | None, policy: Any, path: str) -> Iterator[Cause]:
    if policy == "None" and config is None:
        yield status.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
    if config is None:
        return
    servers, searches = config.get("nameservers") or (), config.get("searches") or ()
    if policy == "None" and not servers:
        text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        yield status.required(f"{path}.nameservers", text)
        return
    if len(servers) > _MOST_SERVERS:
        text = f"must not have more than {_MOST_SERVERS} nameservers"
        yield status.invalid_value(f"{path}.nameservers", list(servers), text)
    for index, server in enumerate(servers):
        yield from legacy_ip_causes(server, f"{path}.nameservers[{index}]")
    if len(searches) > _MOST_SEARCHES:
        text = f"must not have more than {_MOST_SEARCHES} search paths"
        yield status.invalid_value(f"{path}.searches", list(searches), text)
    for index, search in enumerate(searches):
        if search != "." and (problems := name_problems("subdomain", search.removesuffix(".").replace("_", "-a"))):
            yield from status.invalid_values(f"{path}.searches[{index}]", search, problems)
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            yield status.required(f"{path}.options[{index}]", "must not be empty")


def _host_port_causes(spec: Mapping[str, Any], path: str) -> Iterator[Cause]:
    for index, container in enumerate(spec.get("containers") or ()):
        for at, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort", port.get("containerPort")) != port.get("containerPort"):
                where = f"{path}.containers[{index}].ports[{at}].hostPort"
                text = "must match `containerPort` when `hostNetwork` is true"
                yield status.invalid_value(where, port["hostPort"], text)
