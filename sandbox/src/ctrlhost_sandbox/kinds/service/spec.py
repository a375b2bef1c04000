"""Validation of the spec of a Service; what its addresses need is in `service_addresses`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.names import is_label, label_causes, name_problems
from ctrlhost_sandbox.kinds.fields import (
    PROTOCOLS,
    ip_problem,
    legacy_ip_causes,
    network_problem,
    port_causes,
    qualified_causes,
    special_problem,
)
from ctrlhost_sandbox.kinds.service.addresses import is_headless

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause

WITH_NODE_PORTS = ("NodePort", "LoadBalancer")
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_LONGEST_AFFINITY = 86400


def is_external(spec: Mapping[str, Any]) -> bool:
    """Return whether a Service can be reached from outside of the cluster."""
    kind = spec.get("type")
    return kind in WITH_NODE_PORTS or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def needs_health_check(spec: Mapping[str, Any]) -> bool:
    """Return whether the nodes have a port for the checks of a load balancer."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def spec_causes(obj: Object, before: Mapping[str, Any]) -> Iterator[Cause]:
    """Check the spec of a Service; `before` is that of the stored one."""
    spec = obj["spec"]
    kind, ports = spec.get("type"), spec.get("ports") or []
    if kind not in _TYPES:
        yield status.not_supported("spec.type", kind, _TYPES)
    if not ports and kind != "ExternalName" and not is_headless(spec):
        yield status.required("spec.ports")
    if kind == "ExternalName":
        for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(name):
                yield status.forbidden_field(f"spec.{name}", "may not be set for ExternalName services")
        name = spec.get("externalName", "").removesuffix(".")
        if not name:
            yield status.required("spec.externalName")
        elif problems := name_problems("subdomain", name):
            yield from status.invalid_values("spec.externalName", name, problems)
    names: set[str] = set()
    numbers: set[tuple[Any, Any]] = set()
    node_ports: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        where, name = f"spec.ports[{index}]", port.get("name", "")
        if not name and len(ports) > 1:
            yield status.required(f"{where}.name")
        elif name and not is_label(name):
            yield from status.invalid_values(f"{where}.name", name, name_problems("label", name))
        elif name in names:
            yield status.duplicate(f"{where}.name", name)
        names.add(name)
        number = port.get("port") or 0
        yield from port_causes(number, f"{where}.port")
        if port.get("protocol") not in PROTOCOLS:
            yield status.not_supported(f"{where}.protocol", port.get("protocol"), PROTOCOLS)
        yield from port_causes(port.get("targetPort"), f"{where}.targetPort")
        if (protocol := port.get("appProtocol")) is not None:
            yield from qualified_causes(protocol, f"{where}.appProtocol")
        key = (port.get("nodePort"), port.get("protocol"))
        if port.get("nodePort") and key in node_ports:
            yield status.duplicate(f"{where}.nodePort", port["nodePort"])
        node_ports.add(key)
        if port.get("nodePort") and kind == "ClusterIP":
            yield status.forbidden_field(f"{where}.nodePort", "may not be used when `type` is 'ClusterIP'")
        if (number, port.get("protocol")) in numbers:
            yield status.duplicate(where, {"port": number, "protocol": port.get("protocol")})
        numbers.add((number, port.get("protocol")))
    affinity = spec.get("sessionAffinity")
    if affinity not in ("ClientIP", "None"):
        yield status.not_supported("spec.sessionAffinity", affinity, ("ClientIP", "None"))
    elif affinity == "ClientIP":
        seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
        if not 0 < seconds <= _LONGEST_AFFINITY:
            text = f"must be greater than 0 and less than {_LONGEST_AFFINITY}"
            yield status.invalid_value("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, text)
    if kind in WITH_NODE_PORTS and is_headless(spec):
        text = f"may not be set to 'None' for {kind} services"
        yield status.invalid_value("spec.clusterIPs[0]", "None", text)
    yield from label_causes(spec.get("selector") or {}, "spec.selector")
    kept = before.get("externalIPs") or ()
    for index, address in enumerate(spec.get("externalIPs") or ()):
        causes = list(legacy_ip_causes(address, f"spec.externalIPs[{index}]", kept))
        yield from causes
        parsed = ip_problem(address)[1]
        if not causes and parsed is not None and (problem := special_problem(parsed)):
            yield status.invalid_value(f"spec.externalIPs[{index}]", address, problem)
    yield from _load_balancer_causes(spec, before)
    yield from _traffic_causes(spec)


def _load_balancer_causes(spec: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[Cause]:
    balanced, text = spec.get("type") == "LoadBalancer", "may only be used when `type` is 'LoadBalancer'"
    # A real server names this field in upper case.
    field, ranges = "spec.LoadBalancerSourceRanges", spec.get("loadBalancerSourceRanges") or ()
    if ranges and not balanced:
        yield status.forbidden_field(field, text)
    kept = [source.strip() for source in before.get("loadBalancerSourceRanges") or ()]
    for index, source in enumerate(ranges):
        if source.strip() not in kept and (problem := network_problem(source.strip())):
            yield status.invalid_value(f"{field}[{index}]", source.strip(), problem)
    for name in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
        if spec.get(name) is not None and not balanced:
            yield status.forbidden_field(f"spec.{name}", text)
    if balanced and (cls := spec.get("loadBalancerClass")) is not None:
        yield from qualified_causes(cls, "spec.loadBalancerClass")


def _traffic_causes(spec: Mapping[str, Any]) -> Iterator[Cause]:
    field = "spec.externalTrafficPolicy"
    policy = spec.get("externalTrafficPolicy")
    if policy and not is_external(spec):
        yield status.invalid_value(field, policy, "may only be set for externally-accessible services")
    elif policy not in (None, "", "Cluster", "Local"):
        yield status.not_supported(field, policy, ("Cluster", "Local"))
    field = "spec.healthCheckNodePort"
    number = spec.get("healthCheckNodePort")
    if number and not needs_health_check(spec):
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield status.invalid_value(field, number, text)
    elif number:
        yield from port_causes(number, field)
    elif needs_health_check(spec):
        yield status.required(field)
    if (inner := spec.get("internalTrafficPolicy")) is not None and inner not in ("Cluster", "Local"):
        yield status.not_supported("spec.internalTrafficPolicy", inner, ("Cluster", "Local"))
    if (spread := spec.get("trafficDistribution")) is not None and spread not in _DISTRIBUTIONS:
        yield status.not_supported("spec.trafficDistribution", spread, _DISTRIBUTIONS)
