"""Endpoints, the deprecated form of EndpointSlices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.apimachinery import status
from ctrlhost.sandbox.kinds import checks
from ctrlhost.sandbox.kinds.cells import NONE, created, first
from ctrlhost.sandbox.kinds.fields import PROTOCOLS, ip_problem, special_problem
from ctrlhost.sandbox.kinds.strategy import BuiltinStrategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.apimachinery.status import Cause

_ADDRESSES = ("subsets[*].addresses[*]", "subsets[*].notReadyAddresses[*]")


def _subset_causes(obj: Object, old: Object | None) -> Iterator[Cause]:
    for index, subset in enumerate(obj.get("subsets") or ()):
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield status.required(f"subsets[{index}]", "must specify `addresses` or `notReadyAddresses`")
        ports = subset.get("ports") or ()
        for number, port in enumerate(ports if len(ports) > 1 else ()):
            if not port.get("name"):
                yield status.required(f"subsets[{index}].ports[{number}].name")


def _address_causes(where: str, text: str) -> Iterator[Cause]:
    problem, parsed = ip_problem(text)
    if problem:
        yield status.invalid_value(where, text, problem)
    if parsed is None:
        yield status.invalid_value(where, text, "must be a valid IP address")
    elif problem := special_problem(parsed):
        yield status.invalid_value(where, text, problem)


class _Endpoints(BuiltinStrategy):
    """The addresses of a Service."""

    defaults = (("subsets[*].ports[*].protocol", "TCP"),)
    columns = "Endpoints Age"
    checks = (
        _subset_causes,
        *(checks.of_each(f"{path}.ip", _address_causes) for path in _ADDRESSES),
        checks.named("label", *(f"{path}.hostname" for path in _ADDRESSES), "subsets[*].ports[*].name"),
        checks.named("subdomain", *(f"{path}.nodeName" for path in _ADDRESSES)),
        checks.between(1, 65535, "subsets[*].ports[*].port"),
        checks.one_of("subsets[*].ports[*].protocol", *PROTOCOLS),
        checks.qualified("subsets[*].ports[*].appProtocol"),
    )

    def cells(self, obj: Object) -> Sequence[Any]:
        pairs = [
            f"{address['ip']}:{port['port']}"
            for subset in obj.get("subsets") or ()
            for port in subset.get("ports") or ()
            for address in subset.get("addresses") or ()
        ]
        return (first(pairs, NONE), created(obj))


STRATEGIES = {("", "Endpoints"): _Endpoints()}
