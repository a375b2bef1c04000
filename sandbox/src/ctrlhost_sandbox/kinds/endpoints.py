"""Endpoints, the deprecated form of EndpointSlices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.names import name_problems
from ctrlhost_sandbox.kinds.cells import NONE, created, first
from ctrlhost_sandbox.kinds.fields import (
    PROTOCOLS,
    ip_problem,
    legacy_ip_causes,
    port_causes,
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


class _Endpoints(BuiltinStrategy):
    """The addresses of a Service, in the deprecated form."""

    defaults = (("subsets[*].ports[*].protocol", "TCP"),)
    columns = "Endpoints Age"

    def cells(self, obj: Object) -> Sequence[Any]:
        pairs = [
            f"{address['ip']}:{port['port']}"
            for subset in obj.get("subsets") or ()
            for port in subset.get("ports") or ()
            for address in subset.get("addresses") or ()
        ]
        return (first(pairs, NONE), created(obj))

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        subsets = obj.get("subsets") or ()
        if old is not None and subsets == (old.get("subsets") or ()):
            return
        for index, subset in enumerate(subsets):
            where = f"subsets[{index}]"
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                yield status.required(where, "must specify `addresses` or `notReadyAddresses`")
            for name in ("addresses", "notReadyAddresses"):
                for at, address in enumerate(subset.get(name) or ()):
                    # The server's own address is on loopback.
                    own = obj["metadata"].get("name") == _OWN
                    yield from _address_causes(address, f"{where}.{name}[{at}]", loopback=own)
            ports = subset.get("ports") or ()
            for at, port in enumerate(ports):
                yield from _endpoint_port_causes(port, f"{where}.ports[{at}]", alone=len(ports) == 1)


def _address_causes(address: Mapping[str, Any], where: str, *, loopback: bool) -> Iterator[Cause]:
    text = address.get("ip", "")
    yield from legacy_ip_causes(text, f"{where}.ip")
    _, parsed = ip_problem(text)
    if parsed is None:
        yield status.invalid_value(f"{where}.ip", text, "must be a valid IP address")
    elif not (loopback and parsed.is_loopback) and (problem := special_problem(parsed)):
        yield status.invalid_value(f"{where}.ip", text, problem)
    if (host := address.get("hostname")) and (problems := name_problems("label", host)):
        yield from status.invalid_values(f"{where}.hostname", host, problems)
    if (node := address.get("nodeName")) is not None and (problems := name_problems("subdomain", node)):
        yield from status.invalid_values(f"{where}.nodeName", node, problems)


def _endpoint_port_causes(port: Mapping[str, Any], where: str, *, alone: bool) -> Iterator[Cause]:
    name = port.get("name", "")
    if not name and not alone:
        yield status.required(f"{where}.name")
    elif name and (problems := name_problems("label", name)):
        yield from status.invalid_values(f"{where}.name", name, problems)
    yield from port_causes(port.get("port", 0), f"{where}.port")
    if port.get("protocol") not in PROTOCOLS:
        yield status.not_supported(f"{where}.protocol", port.get("protocol"), PROTOCOLS)
    if (protocol := port.get("appProtocol")) is not None:
        yield from qualified_causes(protocol, f"{where}.appProtocol")


STRATEGIES = {("", "Endpoints"): _Endpoints()}
