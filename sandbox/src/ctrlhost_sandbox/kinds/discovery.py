"""EndpointSlices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.names import label_value_problems, name_problems
from ctrlhost_sandbox.kinds.cells import created, first
from ctrlhost_sandbox.kinds.fields import (
    PROTOCOLS,
    immutable,
    ip_problem,
    qualified_causes,
    special_problem,
)
from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation

_OWN = "kubernetes"
_MANAGED, _CONTROLLER = "endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io"
_TYPES = ("FQDN", "IPv4", "IPv6")
_MOST_ADDRESSES, _MOST_HINTS, _LONGEST_NAME = 100, 8, 63


class _EndpointSlices(BuiltinStrategy):
    """The address type of a slice is immutable."""

    defaults = (("ports[*].protocol", "TCP"), ("ports[*].name", ""))
    columns = "AddressType Ports Endpoints Age"

    def cells(self, obj: Object) -> Sequence[Any]:
        ports = [str(port.get("port", "*")) for port in obj.get("ports") or ()]
        addresses = [address for item in obj.get("endpoints") or () for address in item.get("addresses") or ()]
        return (obj.get("addressType", ""), first(ports, "<unset>"), first(addresses, "<unset>"), created(obj))

    def prepare_create(self, context: ServerContext, operation: Operation, obj: Object) -> None:
        """Drop the topology, which only older versions of the API have."""
        for endpoint in obj.get("endpoints") or ():
            endpoint.pop("deprecatedTopology", None)

    def prepare_update(self, context: ServerContext, operation: Operation, obj: Object, old: Object) -> None:
        self.prepare_create(context, operation, obj)

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        kind = obj.get("addressType", "")
        if old is None and kind == "FQDN":
            operation.warnings.append("spec.addressType: FQDN endpoints are deprecated")
        if not kind:
            yield status.required("addressType")
        elif kind not in _TYPES:
            yield status.not_supported("addressType", kind, _TYPES)
        # The server's own address and those of its pods are on loopback.
        metadata = obj["metadata"]
        own = metadata.get("name") == _OWN or (metadata.get("labels") or {}).get(_MANAGED) == _CONTROLLER
        endpoints = obj.get("endpoints") or ()
        kept = old is not None and endpoints == (old.get("endpoints") or ())
        for index, endpoint in enumerate(() if kept else endpoints):
            yield from _endpoint_causes(endpoint, kind, f"endpoints[{index}]", loopback=own)
        yield from _port_causes(obj.get("ports") or ())
        yield from immutable(obj, old, "addressType")


def _endpoint_causes(endpoint: Mapping[str, Any], kind: str, where: str, *, loopback: bool) -> Iterator[Cause]:
    addresses = endpoint.get("addresses") or ()
    if not addresses:
        yield status.required(f"{where}.addresses", "must contain at least 1 address")
    elif len(addresses) > _MOST_ADDRESSES:
        yield status.too_many(f"{where}.addresses", len(addresses), _MOST_ADDRESSES)
        return
    for index, address in enumerate(addresses if kind in _TYPES else ()):
        field = f"{where}.addresses[{index}]"
        if kind == "FQDN":
            if problems := name_problems("subdomain", address):
                yield from status.invalid_values(field, address, problems)
            elif "." not in address:
                text = "should be a domain with at least two segments separated by dots"
                yield status.invalid_value(field, address, text)
            continue
        problem, parsed = ip_problem(address)
        if parsed is not None and not problem and f"IPv{parsed.version}" != kind:
            yield status.invalid_value(f"{where}.addresses", address, f"must be an {kind} address")
        if parsed is not None and not (loopback and parsed.is_loopback):
            problem = problem or special_problem(parsed)
        if problem:
            yield status.invalid_value(field, address, problem)
    for name, rule in (("nodeName", "subdomain"), ("hostname", "label")):
        if endpoint.get(name) is not None and (problems := name_problems(rule, endpoint[name])):
            yield from status.invalid_values(f"{where}.{name}", endpoint[name], problems)
    yield from _hint_causes(endpoint.get("hints") or {}, f"{where}.hints")


def _hint_causes(hints: Mapping[str, Any], path: str) -> Iterator[Cause]:
    for kind in ("forZones", "forNodes"):
        targets = hints.get(kind) or ()
        if len(targets) > _MOST_HINTS:
            yield status.too_many(f"{path}.{kind}", len(targets), _MOST_HINTS)
            continue
        names: set[str] = set()
        for index, address in enumerate(targets):
            where, name = f"{path}.{kind}[{index}].name", address.get("name", "")
            if name in names:
                yield status.duplicate(where, name)
            names.add(name)
            problems = label_value_problems(name) if kind == "forZones" else name_problems("subdomain", name)
            yield from status.invalid_values(where, name, problems)


def _port_causes(ports: Sequence[Mapping[str, Any]]) -> Iterator[Cause]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        where, name = f"ports[{index}]", port.get("name") or ""
        if len(name) > _LONGEST_NAME:
            yield status.invalid_value(f"{where}.name", name, f"must be no more than {_LONGEST_NAME} characters")
        elif name and (problems := name_problems("label", name)):
            yield from status.invalid_values(f"{where}.name", name, problems)
        if name in names:
            yield status.duplicate(f"{where}.name", name)
        names.add(name)
        if port.get("protocol") not in PROTOCOLS:
            yield status.not_supported(f"{where}.protocol", port.get("protocol"), PROTOCOLS)
        if (protocol := port.get("appProtocol")) is not None:
            yield from qualified_causes(protocol, f"{where}.appProtocol")


STRATEGIES = {("discovery.k8s.io", "EndpointSlice"): _EndpointSlices()}
