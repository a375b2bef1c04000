"""NetworkPolicies, and the kinds behind the addresses of Services."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.selectors import selector_text
from ctrlhost_sandbox.kinds.cells import NONE, created
from ctrlhost_sandbox.kinds.checks import named, required, selectors, unchanged
from ctrlhost_sandbox.kinds.fields import ip_problem, port_causes, selector_causes
from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation

_PROTOCOLS = ("TCP", "UDP", "SCTP")
_TYPES = ("Ingress", "Egress")
_CIDR_TEXT = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


class _NetworkPolicies(BuiltinStrategy):
    """A policy applies to ingress unless it says otherwise."""

    defaults = (("spec.ingress[*].ports[*].protocol", "TCP"), ("spec.egress[*].ports[*].protocol", "TCP"))
    columns = "Pod-Selector Age"
    checks = (selectors("spec.podSelector"),)

    def cells(self, obj: Object) -> Sequence[Any]:
        return (selector_text((obj.get("spec") or {}).get("podSelector") or {}) or NONE, created(obj))

    def default(self, obj: Object) -> None:
        spec = obj["spec"]
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        """Check the rules of both directions."""
        spec = obj["spec"]
        yield from super().causes(context, operation, obj, old)
        for direction, peers in (("ingress", "from"), ("egress", "to")):
            for index, rule in enumerate(spec.get(direction) or ()):
                where = f"spec.{direction}[{index}]"
                for at, port in enumerate(rule.get("ports") or ()):
                    yield from _port_causes(port, f"{where}.ports[{at}]")
                for at, peer in enumerate(rule.get(peers) or ()):
                    yield from _peer_causes(peer, f"{where}.{peers}[{at}]")
        types = spec["policyTypes"]
        if len(types) > len(_TYPES):
            yield status.invalid_value("spec.policyTypes", types, "may not specify more than two policyTypes")
            return
        for index, kind in enumerate(types):
            if kind not in _TYPES:
                yield status.not_supported(f"spec.policyTypes[{index}]", kind, _TYPES)


class _IpAddresses(BuiltinStrategy):
    """An address in use, named after itself."""

    columns = "ParentRef"
    checks = (
        required("spec.parentRef.resource", "spec.parentRef.name"),
        named("subdomain", "spec.parentRef.group"),
        named("segment", "spec.parentRef.resource", "spec.parentRef.name", "spec.parentRef.namespace"),
        unchanged("spec.parentRef"),
    )

    def cells(self, obj: Object) -> Sequence[Any]:
        parent = (obj.get("spec") or {}).get("parentRef")
        if not parent:
            return (NONE, created(obj))
        resource = status.qualified(parent.get("resource", ""), parent.get("group", "")).lower()
        parts = (resource, parent.get("namespace"), parent.get("name"))
        # A real server sends the age too, without a column for it.
        return ("/".join(part for part in parts if part), created(obj))

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        name = obj["metadata"].get("name", "")
        if old is None and name and (problem := ip_problem(name)[0]):
            yield status.invalid_value("metadata.name", name, problem)
        if (obj.get("spec") or {}).get("parentRef") is None:
            yield status.required("spec.parentRef")
        yield from super().causes(context, operation, obj, old)


class _ServiceCidrs(BuiltinStrategy):
    """A range of addresses; only a second family may be added later."""

    columns = "CIDRs Age"

    def cells(self, obj: Object) -> Sequence[Any]:
        return (",".join((obj.get("spec") or {}).get("cidrs") or ()), created(obj))

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        ranges: list[str] = (obj.get("spec") or {}).get("cidrs") or []
        before: list[str] = ranges if old is None else (old.get("spec") or {}).get("cidrs") or []
        if len(before) not in (len(ranges), len(ranges) - 1):
            yield status.invalid_value("spec.cidrs", ranges, "field is immutable")
            return
        for index, text in enumerate(before):
            if ranges[index] != text:
                yield status.invalid_value(f"spec.cidrs[{index}]", ranges[index], "field is immutable")
        if old is None or len(before) != len(ranges):
            yield from _range_causes(ranges)


def _range_causes(ranges: list[str]) -> Iterator[Cause]:
    if not ranges:
        yield status.required("spec.cidrs", "at least one CIDR required")
    elif len(ranges) > 2:
        yield status.invalid_value("spec.cidrs", {"cidrs": ranges}, "may only hold up to 2 values")
    else:
        versions = []
        for index, text in enumerate(ranges):
            problem, network = _network(text)
            versions.append(network.version if network is not None else index)
            if problem:
                yield status.invalid_value(f"spec.cidrs[{index}]", text, problem)
        if len(versions) == 2 and versions[0] == versions[1]:
            text = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
            yield status.invalid_value("spec.cidrs", ranges, text)


def _network(text: str) -> tuple[str, ipaddress.IPv4Network | ipaddress.IPv6Network | None]:
    """Return why `text` is not a network in canonical form, and the network."""
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return _CIDR_TEXT, None
    if "/" not in text:
        return _CIDR_TEXT, None
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return "must not have bits set beyond the prefix length", network
    return ("" if str(network) == text else f'must be in canonical form ("{network}")'), network


def _port_causes(port: Mapping[str, Any], where: str) -> Iterator[Cause]:
    number, end = port.get("port"), port.get("endPort")
    if port.get("protocol") not in _PROTOCOLS:
        yield status.not_supported(f"{where}.protocol", port.get("protocol"), _PROTOCOLS)
    if number is None:
        if end is not None:
            yield status.invalid_value(f"{where}.endPort", end, "may not be specified when `port` is not specified")
        return
    if type(number) is str and end is not None:
        yield status.invalid_value(f"{where}.endPort", end, "may not be specified when `port` is non-numeric")
    yield from port_causes(number, f"{where}.port")
    if type(number) is int and end is not None:
        if end < number:
            yield status.invalid_value(f"{where}.endPort", number, "must be greater than or equal to `port`")
        yield from port_causes(end, f"{where}.endPort")


def _peer_causes(peer: Mapping[str, Any], where: str) -> Iterator[Cause]:
    for name in ("podSelector", "namespaceSelector"):
        if peer.get(name):
            yield from selector_causes(peer[name], f"{where}.{name}")
    block = peer.get("ipBlock")
    if block is not None:
        yield from _block_causes(block, f"{where}.ipBlock")
    if not peer:
        yield status.required(where, "must specify a peer")
    elif block is not None and len(peer) > 1:
        yield status.forbidden_field(where, "may not specify both ipBlock and another peer")


def _block_causes(block: Mapping[str, Any], where: str) -> Iterator[Cause]:
    text = block.get("cidr", "")
    if not text:
        yield status.required(f"{where}.cidr")
        return
    problem, network = _network(text)
    if network is None:
        yield status.invalid_value(f"{where}.cidr", text, problem)
        return
    for index, excluded in enumerate(block.get("except") or ()):
        problem, inner = _network(excluded)
        field = f"{where}.except[{index}]"
        if inner is None:
            yield status.invalid_value(field, excluded, problem)
        elif inner.version != network.version or inner == network or not _is_inside(inner, network):
            yield status.invalid_value(field, excluded, "must be a strict subset of `cidr`")


def _is_inside(inner: Any, network: Any) -> bool:
    return bool(inner.subnet_of(network))


_GROUP = "networking.k8s.io"
STRATEGIES = {
    (_GROUP, "NetworkPolicy"): _NetworkPolicies(),
    (_GROUP, "IPAddress"): _IpAddresses(),
    (_GROUP, "ServiceCIDR"): _ServiceCidrs(),
}
