"""Defaults of the built-in kinds, as data: a path, and the value for it where the path's parent is there."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.registry.registry import Kind

Rule = tuple[str, Any]
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
    *(
        (f"{probe}.{path}", value)
        for probe in ("livenessProbe", "readinessProbe", "startupProbe")
        for path, value in _PROBE
    ),
]
_POD_SPEC: list[Rule] = [
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
    *((f"{field}[*].{path}", value) for field in ("containers", "initContainers") for path, value in _CONTAINER),
]


def _below(prefix: str, rules: list[Rule]) -> list[Rule]:
    return [(f"{prefix}.{path}", value) for path, value in rules]


_TEMPLATE = _below("spec.template.spec", _POD_SPEC)
RULES: Mapping[tuple[str, str], list[Rule]] = {
    ("", "Pod"): [
        *_below("spec", _POD_SPEC),
        ("spec.enableServiceLinks", True),
        ("spec.serviceAccountName", "default"),
    ],
    ("", "Service"): [
        ("spec.type", "ClusterIP"),
        ("spec.sessionAffinity", "None"),
        ("spec.ports[*].protocol", "TCP"),
    ],
    ("", "Secret"): [("type", "Opaque")],
    ("", "Endpoints"): [("subsets[*].ports[*].protocol", "TCP")],
    ("discovery.k8s.io", "EndpointSlice"): [("ports[*].protocol", "TCP"), ("ports[*].name", "")],
    ("apps", "Deployment"): [
        ("spec.replicas", 1),
        ("spec.strategy.type", "RollingUpdate"),
        ("spec.revisionHistoryLimit", 10),
        ("spec.progressDeadlineSeconds", 600),
        *_TEMPLATE,
    ],
    ("apps", "ReplicaSet"): [("spec.replicas", 1), *_TEMPLATE],
    ("apps", "StatefulSet"): [
        ("spec.replicas", 1),
        ("spec.podManagementPolicy", "OrderedReady"),
        ("spec.updateStrategy.type", "RollingUpdate"),
        ("spec.revisionHistoryLimit", 10),
        ("spec.persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"}),
        *_TEMPLATE,
    ],
    ("apps", "DaemonSet"): [
        ("spec.updateStrategy.type", "RollingUpdate"),
        ("spec.revisionHistoryLimit", 10),
        *_TEMPLATE,
    ],
    ("rbac.authorization.k8s.io", "RoleBinding"): [("roleRef.apiGroup", "rbac.authorization.k8s.io")],
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): [("roleRef.apiGroup", "rbac.authorization.k8s.io")],
    ("networking.k8s.io", "IngressClass"): [("spec.parameters.scope", "Cluster")],
    ("apiextensions.k8s.io", "CustomResourceDefinition"): [("spec.conversion", {"strategy": "None"})],
}


def apply(kind: Kind, obj: Object) -> None:
    """Fill in a built-in object's defaults, in place."""
    for path, value in RULES.get((kind.group, kind.kind), ()):
        _set(obj, path, value)
    special = _SPECIAL.get((kind.group, kind.kind))
    if special is not None:
        special(obj)


def _parents(value: Any, parts: list[str]) -> Iterator[dict[str, Any]]:
    """Find the objects in which the last part of a path stands."""
    if not parts:
        if type(value) is dict:
            yield value
        return
    if type(value) is not dict:
        return
    part, rest = parts[0], parts[1:]
    if part.endswith("[*]"):
        for item in value.get(part[:-3]) or ():
            yield from _parents(item, rest)
    elif part in value:
        yield from _parents(value[part], rest)


def _set(obj: Object, path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for parent in _parents(obj, parents):
        if parent.get(last) in (None, "") and not (parent.get(last) == "" and value == ""):
            parent[last] = copy.copy(value)


def _service(obj: Object) -> None:
    spec = obj["spec"]
    for port in spec.get("ports") or ():
        if port.get("targetPort") in (None, "", 0):
            port["targetPort"] = port.get("port")
    kind = spec.get("type")
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec.get("clusterIP") != "None" or spec.get("selector"):
            spec.setdefault("ipFamilies", ["IPv4"])
            spec.setdefault("ipFamilyPolicy", "SingleStack")
        else:
            # Its endpoints are written by hand, in any family.
            spec.setdefault("ipFamilies", ["IPv4", "IPv6"])
            spec.setdefault("ipFamilyPolicy", "RequireDualStack")
    if kind in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for one in ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ():
            if one.get("ip"):
                one.setdefault("ipMode", "VIP")
    if spec.get("sessionAffinity") == "ClientIP":
        spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {}).setdefault("timeoutSeconds", 10800)


def _pod_spec(spec: dict[str, Any]) -> None:
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


def _pod(obj: Object) -> None:
    _pod_spec(obj["spec"])
    for container in obj["spec"].get("containers") or ():
        limits = (container.get("resources") or {}).get("limits")
        if limits:
            requests = container["resources"].setdefault("requests", {})
            for name, value in limits.items():
                requests.setdefault(name, value)


def _template(obj: Object) -> None:
    template = obj["spec"].get("template")
    if template:
        _pod_spec(template.get("spec") or {})


def _deployment(obj: Object) -> None:
    _template(obj)
    strategy = obj["spec"]["strategy"]
    if strategy.get("type") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")


def _stateful_set(obj: Object) -> None:
    _template(obj)
    strategy = obj["spec"]["updateStrategy"]
    if strategy.get("type") == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)


def _daemon_set(obj: Object) -> None:
    _template(obj)
    strategy = obj["spec"]["updateStrategy"]
    if strategy.get("type") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)


def _binding(obj: Object) -> None:
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", "rbac.authorization.k8s.io")


def _crd(obj: Object) -> None:
    names = obj["spec"].setdefault("names", {})
    if names.get("kind"):
        if not names.get("singular"):
            names["singular"] = names["kind"].lower()
        if not names.get("listKind"):
            names["listKind"] = f"{names['kind']}List"


_SPECIAL = {
    ("", "Pod"): _pod,
    ("", "Service"): _service,
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _template,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("rbac.authorization.k8s.io", "RoleBinding"): _binding,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _binding,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _crd,
}
