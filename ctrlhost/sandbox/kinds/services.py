"""Services: their addresses and ports are allocated at creation."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.apimachinery import status
from ctrlhost.sandbox.apimachinery.names import is_label, label_causes, name_problem
from ctrlhost.sandbox.kinds.cells import NONE, created, labels
from ctrlhost.sandbox.kinds.fields import PROTOCOLS, port_causes
from ctrlhost.sandbox.kinds.networking import address_causes, addresses, entries
from ctrlhost.sandbox.kinds.strategy import BuiltinStrategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.apimachinery.status import Cause
    from ctrlhost.sandbox.context import ServerContext
    from ctrlhost.sandbox.registry.operation import Operation

NODE_PORTS = range(30000, 32768)
_ALLOCATED = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_WITH_NODE_PORTS = ("NodePort", "LoadBalancer")


class _Services(BuiltinStrategy):
    """Allocations are kept in the context, by the uid of the holder."""

    allocates = True
    defaults = (("spec.type", "ClusterIP"), ("spec.sessionAffinity", "None"), ("spec.ports[*].protocol", "TCP"))
    columns = "Type Cluster-IP External-IP Port(s) Age Selector:w"

    def cells(self, obj: Object) -> Sequence[Any]:
        spec = obj["spec"]
        kind = spec.get("type", "")
        ports = ",".join(
            f"{port['port']}"
            + (f":{port['nodePort']}" if port.get("nodePort") else "")
            + f"/{port.get('protocol', 'TCP')}"
            for port in spec.get("ports") or ()
        )
        return (
            kind,
            spec.get("clusterIP") or NONE,
            _external(obj, kind),
            ports or NONE,
            created(obj),
            labels(spec.get("selector")),
        )

    def default(self, obj: Object) -> None:
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
                # Endpoints without a selector may be of any family.
                spec.setdefault("ipFamilies", ["IPv4", "IPv6"])
                spec.setdefault("ipFamilyPolicy", "RequireDualStack")
        if kind in _WITH_NODE_PORTS:
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if kind == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
            for one in entries(obj):
                if one.get("ip"):
                    one.setdefault("ipMode", "VIP")
        if spec.get("sessionAffinity") == "ClientIP":
            spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {}).setdefault("timeoutSeconds", 10800)

    def prepare_create(self, context: ServerContext, operation: Operation, obj: Object) -> None:
        """Allocate addresses and ports that were not requested."""
        obj["status"] = {"loadBalancer": {}}
        self._allocate(context, obj)

    def prepare_update(self, context: ServerContext, operation: Operation, obj: Object, old: Object) -> None:
        """Keep omitted allocations; a change of type frees those that the new type lacks."""
        if operation.subresource:
            return
        spec, before = obj["spec"], old["spec"]
        if spec.get("type") != "ExternalName" and before.get("type") != "ExternalName":
            for field in ("clusterIP", "clusterIPs"):
                if not spec.get(field) and before.get(field):
                    spec[field] = before[field]
        if spec.get("type") in _WITH_NODE_PORTS and before.get("type") in _WITH_NODE_PORTS:
            taken = {_port_key(port): port.get("nodePort") for port in before.get("ports") or ()}
            for port in spec.get("ports") or ():
                if not port.get("nodePort") and taken.get(_port_key(port)):
                    port["nodePort"] = taken[_port_key(port)]
        elif spec.get("type") not in _WITH_NODE_PORTS:
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)
            spec.pop("externalTrafficPolicy", None)
            spec.pop("allocateLoadBalancerNodePorts", None)
        if before.get("type") == "LoadBalancer" != spec.get("type"):
            obj["status"] = {**(obj.get("status") or {}), "loadBalancer": {}}
        if not operation.dry_run:
            self._allocate(context, obj)

    def tracked(self, obj: Object, sent: Object) -> Object:
        """Omit allocated fields that were not requested."""
        spec = {key: value for key, value in obj["spec"].items() if key not in _ALLOCATED or key in sent}
        if "ports" in spec:
            asked = {_port_key(port): "nodePort" in port for port in sent.get("ports") or ()}
            spec["ports"] = [
                port
                if any(asked.get(key) for key in (_port_key(port), (port.get("port"), None)))
                else {key: value for key, value in port.items() if key != "nodePort"}
                for port in spec["ports"]
            ]
        return {**obj, "spec": spec}

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        spec, uid = obj["spec"], obj["metadata"]["uid"]
        yield from _spec_causes(obj)
        if spec.get("externalIPs"):
            operation.warnings.append(
                "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
            )
        if spec.get("externalName") and spec.get("type") != "ExternalName":
            operation.warnings.append('spec.externalName is ignored when spec.type is not "ExternalName"')
        address = spec.get("clusterIP", "")
        before = "" if old is None or old["spec"].get("type") == "ExternalName" else old["spec"].get("clusterIP", "")
        if spec.get("type") == "ExternalName":
            if not spec.get("externalName"):
                yield status.required("spec.externalName")
        elif before and before != address:
            yield status.invalid_value("spec.clusterIPs[0]", [address], "may not change once set")
        elif address and address != "None":
            try:
                inside = ipaddress.ip_address(address) in ipaddress.ip_network(context.options.service_cidr)
            except ValueError:
                inside = False
            why = "" if inside else "the provided IP is not in the valid range"
            if inside and _pool(context, "clusterIP").get(address, uid) != uid:
                why = "provided IP is already allocated"
            if why:
                yield status.invalid_value("spec.clusterIPs", [address], f"failed to allocate IP {address}: {why}")
        if spec.get("type") == "LoadBalancer":
            yield from address_causes(obj, old, operation.warnings, modes=True)
        elif (given := entries(obj)) and given != entries(old):
            text = "may only be used when `spec.type` is 'LoadBalancer'"
            yield status.forbidden_field("status.loadBalancer.ingress", text)
        for index, port in enumerate(spec.get("ports") or ()):
            node_port, field = port.get("nodePort"), f"spec.ports[{index}].nodePort"
            if node_port and node_port not in NODE_PORTS:
                text = "provided port is not in the valid range. The range of valid ports is 30000-32767"
                yield status.invalid_value(field, node_port, text)
            elif node_port and _pool(context, "nodePort").get(_node_key(port), uid) != uid:
                yield status.invalid_value(field, node_port, "provided port is already allocated")

    def stored(self, context: ServerContext, obj: Object, old: Object | None) -> None:
        if old is not None:
            release(context, old)
        hold(context, obj)

    def deleted(self, context: ServerContext, obj: Object) -> None:
        release(context, obj)

    def _allocate(self, context: ServerContext, obj: Object) -> None:
        spec = obj["spec"]
        if spec.get("type") == "ExternalName":
            for field in (*_ALLOCATED, "internalTrafficPolicy"):
                spec.pop(field, None)
            return
        if not spec.get("clusterIP"):
            listed = spec.get("clusterIPs")
            spec["clusterIP"] = listed[0] if listed else _free_address(context)
        spec["clusterIPs"] = [spec["clusterIP"], *(spec.get("clusterIPs") or [])[1:]]
        if spec.get("type") in _WITH_NODE_PORTS and spec.get("allocateLoadBalancerNodePorts", True):
            chosen: set[str] = set()
            for port in spec.get("ports") or ():
                if not port.get("nodePort"):
                    port["nodePort"] = _free_port(context, port, chosen)
                chosen.add(_node_key(port))


def _spec_causes(obj: Object) -> Iterator[Cause]:
    spec = obj["spec"]
    kind, ports = spec.get("type"), spec.get("ports") or []
    if kind not in _TYPES:
        yield status.not_supported("spec.type", kind, _TYPES)
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        yield status.required("spec.ports")
    names: set[str] = set()
    numbers: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        where, name = f"spec.ports[{index}]", port.get("name", "")
        if not name and len(ports) > 1:
            yield status.required(f"{where}.name")
        elif name and not is_label(name):
            yield status.invalid_value(f"{where}.name", name, name_problem("label", name))
        elif name in names:
            yield status.duplicate(f"{where}.name", name)
        names.add(name)
        number = port.get("port") or 0
        yield from port_causes(number, f"{where}.port")
        if port.get("protocol") not in PROTOCOLS:
            yield status.not_supported(f"{where}.protocol", port.get("protocol"), PROTOCOLS)
        yield from port_causes(port.get("targetPort"), f"{where}.targetPort")
        if port.get("nodePort") and kind == "ClusterIP":
            yield status.forbidden_field(f"{where}.nodePort", "may not be used when `type` is 'ClusterIP'")
        if (number, port.get("protocol")) in numbers:
            yield status.duplicate(where, {"port": number, "protocol": port.get("protocol")})
        numbers.add((number, port.get("protocol")))
    if spec.get("sessionAffinity") not in ("ClientIP", "None"):
        yield status.not_supported("spec.sessionAffinity", spec.get("sessionAffinity"), ("ClientIP", "None"))
    if kind in _WITH_NODE_PORTS and spec.get("clusterIP") == "None":
        text = f"may not be set to 'None' for {kind} services"
        yield status.invalid_value("spec.clusterIPs[0]", "None", text)
    yield from label_causes(spec.get("selector") or {}, "spec.selector")


def _external(obj: Object, kind: str) -> str:
    spec = obj["spec"]
    listed = list(spec.get("externalIPs") or ())
    if kind == "ExternalName":
        return str(spec.get("externalName") or NONE)
    if kind == "LoadBalancer":
        return ",".join([*addresses(obj), *listed]) or "<pending>"
    return ",".join(listed) or NONE


def hold(context: ServerContext, obj: Object) -> None:
    """Record the addresses and ports of a stored Service as allocated."""
    uid = obj["metadata"]["uid"]
    if (address := obj["spec"].get("clusterIP", "None")) != "None":
        _pool(context, "clusterIP")[address] = uid
    for port in obj["spec"].get("ports") or ():
        if port.get("nodePort"):
            _pool(context, "nodePort")[_node_key(port)] = uid


def release(context: ServerContext, obj: Object) -> None:
    """Free the allocations of a Service."""
    uid = obj["metadata"]["uid"]
    for name in ("clusterIP", "nodePort"):
        pool = _pool(context, name)
        for key in [key for key, holder in pool.items() if holder == uid]:
            del pool[key]


def _pool(context: ServerContext, name: str) -> dict[str, str]:
    return context.allocations.setdefault(name, {})


def _port_key(port: dict[str, Any]) -> tuple[Any, Any]:
    return port.get("port"), port.get("protocol")


def _node_key(port: dict[str, Any]) -> str:
    return f"{port.get('protocol', 'TCP')}/{port.get('nodePort')}"


def _free_address(context: ServerContext) -> str:
    network = ipaddress.ip_network(context.options.service_cidr)
    pool = _pool(context, "clusterIP")
    # Because of the serial, a freed address is reused last.
    for _ in range(network.num_addresses):
        offset = 10 + next(context.serial) % (network.num_addresses - 11)
        address = str(network.network_address + offset)
        if address not in pool:
            return address
    raise status.internal("the range of cluster addresses is exhausted")


def _free_port(context: ServerContext, port: dict[str, Any], chosen: set[str]) -> int:
    pool = _pool(context, "nodePort")
    for _ in NODE_PORTS:
        number = NODE_PORTS[next(context.serial) * 7 % len(NODE_PORTS)]
        key = _node_key({**port, "nodePort": number})
        if key not in pool and key not in chosen:
            return number
    raise status.internal("the range of node ports is exhausted")


STRATEGIES = {("", "Service"): _Services()}
