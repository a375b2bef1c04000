"""Services: their addresses and ports are allocated at creation."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.status import Failure
from ctrlhost_sandbox.kinds.cells import NONE, created, labels
from ctrlhost_sandbox.kinds.networking import address_causes, addresses, entries
from ctrlhost_sandbox.kinds.service.addresses import family_causes, is_headless, kept_causes
from ctrlhost_sandbox.kinds.service.spec import WITH_NODE_PORTS, is_external, needs_health_check, spec_causes
from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation

NODE_PORTS = range(30000, 32768)
_ALLOCATED = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


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
                port["targetPort"] = port.get("port") or 0
        kind = spec.get("type")
        if kind in ("ClusterIP", *WITH_NODE_PORTS):
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if is_external(spec):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if kind == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
            for entry in entries(obj):
                if entry.get("ip"):
                    entry.setdefault("ipMode", "VIP")
        if spec.get("sessionAffinity") == "None":
            spec.pop("sessionAffinityConfig", None)
        if spec.get("sessionAffinity") == "ClientIP":
            spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {}).setdefault("timeoutSeconds", 10800)

    def prepare_create(self, context: ServerContext, operation: Operation, obj: Object) -> None:
        """Allocate addresses and ports that were not requested."""
        obj["status"] = {"loadBalancer": {}}
        spec = obj["spec"]
        if not operation.allocates:
            return
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        self._check_allocation(context, operation, obj, None)
        self._allocate(context, obj, None)

    def prepare_update(self, context: ServerContext, operation: Operation, obj: Object, old: Object) -> None:
        """Keep omitted allocations; a change of type frees those that the new type lacks."""
        if operation.subresource:
            return
        spec, before = obj["spec"], old["spec"]
        _drop_needless(spec, before)
        if spec.get("type") != "LoadBalancer":
            obj["status"] = {**(obj.get("status") or {}), "loadBalancer": {}}
        if "ExternalName" not in (spec.get("type"), before.get("type")):
            for name in ("clusterIP", "clusterIPs"):
                if not spec.get(name) and before.get(name):
                    spec[name] = before[name]
        _match_addresses(spec, before)
        if spec.get("type") in WITH_NODE_PORTS and before.get("type") in WITH_NODE_PORTS:
            _keep_node_ports(spec, before)
        if needs_health_check(spec) and needs_health_check(before):
            spec.setdefault("healthCheckNodePort", before.get("healthCheckNodePort"))
        if spec.get("type") != "ExternalName" and "ipFamilyPolicy" not in spec and before.get("ipFamilyPolicy"):
            spec["ipFamilyPolicy"] = before["ipFamilyPolicy"]
        self._check_allocation(context, operation, obj, old)
        self._allocate(context, obj, old)

    def tracked(self, obj: Object, sent: Object) -> Object:
        """Omit allocated fields that were not requested."""
        spec = {key: value for key, value in obj["spec"].items() if key not in _ALLOCATED or key in sent}
        if "ports" in spec:
            requested = {_port_key(port): "nodePort" in port for port in sent.get("ports") or ()}
            spec["ports"] = [
                port
                if any(requested.get(key) for key in (_port_key(port), (port.get("port"), None)))
                else {key: value for key, value in port.items() if key != "nodePort"}
                for port in spec["ports"]
            ]
        return {**obj, "spec": spec}

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        spec = obj["spec"]
        if not operation.subresource:
            yield from spec_causes(obj, {} if old is None else old["spec"])
            if not operation.allocates:
                yield from family_causes(spec, None)
        if spec.get("externalIPs"):
            operation.warnings.append(
                "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
            )
        if spec.get("externalName") and spec.get("type") != "ExternalName":
            operation.warnings.append('spec.externalName is ignored when spec.type is not "ExternalName"')
        if old is not None and not operation.subresource:
            yield from kept_causes(spec, old["spec"])
            classes = [state["spec"].get("loadBalancerClass") for state in (obj, old)]
            if spec.get("type") == old["spec"].get("type") == "LoadBalancer" and classes[0] != classes[1]:
                yield status.invalid_value("spec.loadBalancerClass", classes[0], "may not change once set")
        if spec.get("type") == "LoadBalancer":
            yield from address_causes(obj, old, operation.warnings, modes=True)
        elif (addresses := entries(obj)) and addresses != entries(old):
            text = "may only be used when `spec.type` is 'LoadBalancer'"
            yield status.forbidden_field("status.loadBalancer.ingress", text)

    def _check_allocation(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> None:
        """Raise 422 for what cannot be allocated; a real server reports that alone."""
        spec, kind = obj["spec"], operation.kind
        before = {} if old is None else old["spec"]
        causes = family_causes(spec, before) or list(_address_problem(context, obj, before))
        causes = causes or list(_node_port_problem(context, obj, before))
        if causes:
            raise status.invalid(kind.kind, kind.group, obj["metadata"].get("name", ""), causes)

    def stored(self, context: ServerContext, obj: Object, old: Object | None) -> None:
        if old is not None:
            release(context, old)
        hold(context, obj)

    def deleted(self, context: ServerContext, obj: Object) -> None:
        """Free the allocations, and delete the Endpoints of that name, unless finalizers keep them."""
        release(context, obj)
        table, metadata = context.store.table("endpoints"), obj["metadata"]
        endpoints = table.get(metadata["namespace"], metadata["name"])
        if endpoints is not None and not endpoints.decode()["metadata"].get("finalizers"):
            context.store.remove(table, endpoints)

    def _allocate(self, context: ServerContext, obj: Object, old: Object | None) -> None:
        spec = obj["spec"]
        if spec.get("type") == "ExternalName":
            return
        headless = is_headless(spec) and not spec.get("selector")
        # Endpoints without a selector may be of any family.
        spec.setdefault("ipFamilyPolicy", "RequireDualStack" if headless else "SingleStack")
        if not spec.get("ipFamilies"):
            spec["ipFamilies"] = ["IPv4"]
        if headless and spec["ipFamilyPolicy"] != "SingleStack" and len(spec["ipFamilies"]) == 1:
            spec["ipFamilies"].append("IPv6" if spec["ipFamilies"] == ["IPv4"] else "IPv4")
        if not spec.get("clusterIP"):
            spec["clusterIP"] = _free_address(context)
            spec["clusterIPs"] = [spec["clusterIP"]]
        if spec.get("type") in WITH_NODE_PORTS and spec.get("allocateLoadBalancerNodePorts", True):
            _allocate_node_ports(context, spec.get("ports") or (), old)
        if needs_health_check(spec) and not spec.get("healthCheckNodePort"):
            spec["healthCheckNodePort"] = _free_port(context, {}, set())


def _drop_needless(spec: dict[str, Any], before: Mapping[str, Any]) -> None:
    """Remove what the new type no longer needs, unless the update also changed it."""
    kind, was = spec.get("type"), before.get("type")
    gone: list[str] = []
    if kind == "ExternalName" != was:
        gone += ["clusterIP", "clusterIPs"] * all(
            spec.get(name) == before.get(name) for name in ("clusterIP", "clusterIPs")
        )
        gone += ["ipFamilies", "ipFamilyPolicy"]
    if was in WITH_NODE_PORTS and kind not in WITH_NODE_PORTS:
        held = {port.get("nodePort") for port in before.get("ports") or ()}
        if all(port.get("nodePort") in (None, 0, *held) for port in spec.get("ports") or ()):
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)
    if needs_health_check(before) and not needs_health_check(spec):
        gone.append("healthCheckNodePort")
    if was == "LoadBalancer" != kind:
        gone += ["allocateLoadBalancerNodePorts", "loadBalancerClass"]
    if is_external(before) and not is_external(spec):
        gone.append("externalTrafficPolicy")
    for name in gone:
        if spec.get(name) == before.get(name):
            spec.pop(name, None)


def _match_addresses(spec: dict[str, Any], before: Mapping[str, Any]) -> None:
    """Adjust the list of addresses to the first one: of the two fields, clients may change one."""
    address, addresses = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    if address == (before.get("clusterIP") or ""):
        addresses = addresses or before.get("clusterIPs") or []
    elif addresses == (before.get("clusterIPs") or []):
        addresses = [address] if address else []
    spec["clusterIPs"] = list(addresses)
    if not addresses:
        del spec["clusterIPs"]


def _keep_node_ports(spec: dict[str, Any], before: Mapping[str, Any]) -> None:
    """Keep omitted ports of nodes, by the names of the ports."""
    ports, old = spec.get("ports") or (), before.get("ports") or ()
    used = {port.get("nodePort") for port in ports} & {port.get("nodePort") for port in old}
    held = {port.get("name", ""): port.get("nodePort") for port in old}
    for port in ports:
        number = held.get(port.get("name", ""))
        if not port.get("nodePort") and number and number not in used:
            port["nodePort"] = number


def _address_problem(context: ServerContext, obj: Object, before: Mapping[str, Any]) -> Iterator[Cause]:
    """Check a requested cluster address."""
    spec = obj["spec"]
    address = spec.get("clusterIP") or "None"
    if spec.get("type") == "ExternalName" or address == "None" or address == before.get("clusterIP"):
        return
    if before.get("clusterIP") and before.get("type") != "ExternalName":
        return
    network = context.options.service_cidr
    inside = ipaddress.ip_address(address) in ipaddress.ip_network(network)
    why = "" if inside else "the provided IP is not in the valid range"
    if inside and _pool(context, "clusterIP").get(address, obj["metadata"].get("uid")) != obj["metadata"].get("uid"):
        why = "provided IP is already allocated"
    if why:
        yield status.invalid_value("spec.clusterIPs", spec["clusterIPs"], f"failed to allocate IP {address}: {why}")


def _node_port_problem(context: ServerContext, obj: Object, before: Mapping[str, Any]) -> Iterator[Cause]:
    """Check the first requested node port that cannot be allocated."""
    if obj["spec"].get("type") not in WITH_NODE_PORTS:
        return
    uid = obj["metadata"].get("uid")
    for index, port in enumerate(obj["spec"].get("ports") or ()):
        number, why = port.get("nodePort"), ""
        if number and number not in NODE_PORTS:
            why = "provided port is not in the valid range. The range of valid ports is 30000-32767"
        elif number and _pool(context, "nodePort").get(_node_key(port), uid) != uid:
            why = "provided port is already allocated"
        if why:
            yield status.invalid_value(f"spec.ports[{index}].nodePort", number, why)
            return


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


def _allocate_node_ports(context: ServerContext, ports: Sequence[dict[str, Any]], old: Object | None) -> None:
    """Set missing node ports; ports of one number share theirs at creation. Raise 500 for equal ones in an update."""
    chosen: set[str] = set()
    shared = {port.get("port"): port["nodePort"] for port in ports if port.get("nodePort")} if old is None else {}
    for port in ports:
        if not port.get("nodePort"):
            port["nodePort"] = shared.get(port.get("port")) or _free_port(context, port, chosen)
        if old is None:
            shared.setdefault(port.get("port"), port["nodePort"])
        elif _node_key(port) in chosen:
            why = f"duplicate nodePort: {{{port.get('protocol', 'TCP')} {port['nodePort']}}}"
            raise Failure(500, "", why)
        chosen.add(_node_key(port))


def _free_port(context: ServerContext, port: dict[str, Any], chosen: set[str]) -> int:
    pool = _pool(context, "nodePort")
    for _ in NODE_PORTS:
        number = NODE_PORTS[next(context.serial) * 7 % len(NODE_PORTS)]
        key = _node_key({**port, "nodePort": number})
        if key not in pool and key not in chosen:
            return number
    raise status.internal("the range of node ports is exhausted")


STRATEGIES = {("", "Service"): _Services()}
