"""EndpointSlices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.apimachinery import status
from ctrlhost.sandbox.kinds.cells import created, first
from ctrlhost.sandbox.kinds.fields import immutable
from ctrlhost.sandbox.kinds.strategy import BuiltinStrategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.apimachinery.status import Cause
    from ctrlhost.sandbox.context import ServerContext
    from ctrlhost.sandbox.registry.operation import Operation

_TYPES = ("FQDN", "IPv4", "IPv6")


class _EndpointSlices(BuiltinStrategy):
    """The address type of a slice is immutable."""

    defaults = (("ports[*].protocol", "TCP"), ("ports[*].name", ""))
    columns = "AddressType Ports Endpoints Age"

    def cells(self, obj: Object) -> Sequence[Any]:
        ports = [str(port.get("port", "*")) for port in obj.get("ports") or ()]
        addresses = [address for item in obj.get("endpoints") or () for address in item.get("addresses") or ()]
        return (obj.get("addressType", ""), first(ports, "<unset>"), first(addresses, "<unset>"), created(obj))

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        kind = obj.get("addressType", "")
        if not kind:
            yield status.required("addressType")
        elif kind not in _TYPES:
            yield status.not_supported("addressType", kind, _TYPES)
        else:
            for index, endpoint in enumerate(obj.get("endpoints") or ()):
                if not endpoint.get("addresses"):
                    yield status.required(f"endpoints[{index}].addresses")
        yield from immutable(obj, old, "addressType")


STRATEGIES = {("discovery.k8s.io", "EndpointSlice"): _EndpointSlices()}
