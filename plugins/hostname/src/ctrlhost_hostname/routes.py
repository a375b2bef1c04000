"""The parts that both kinds of route share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost_hostname.lease import LabelError, LeaseID, lease_from_labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import ctrlhost
    from ctrlhost_hostname.manifest import HTTPOptions

MANAGED_SELECTOR = "akash.network=true"


@dataclass(frozen=True)
class Directive:
    """One hostname to connect. `service_port` is the external port: the tenant's Service maps it to the container's."""

    hostname: str
    lease: LeaseID
    service_name: str
    service_port: int
    options: HTTPOptions


@dataclass(frozen=True)
class Connection:
    """The hostname of a live route, and the service port that it leads to."""

    hostname: str
    lease: LeaseID
    service_name: str
    service_port: int


def new_route(
    api_version: str, kind: str, directive: Directive, annotations: dict[str, str], spec: dict[str, Any]
) -> dict[str, Any]:
    """Return a route that is named after its hostname, in the namespace of its lease."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": directive.hostname,
            "namespace": directive.lease.namespace,
            "labels": dict(directive.lease.labels),
            "annotations": annotations,
        },
        "spec": spec,
    }


def any_differs(live: Mapping[str, str], desired: Mapping[str, str], keys: Iterable[str]) -> bool:
    """Return whether one of these labels or annotations differs; foreign keys never count."""
    return any(live.get(key) != desired.get(key) for key in keys)


def seconds(milliseconds: int) -> int:
    """Round milliseconds up to whole seconds."""
    return -(-milliseconds // 1000)


def removable_owner(live: ctrlhost.Object) -> LeaseID | None:
    """Return the lease of a route that may be removed: its labels name a lease whose namespace it is in."""
    try:
        lease = lease_from_labels(live.labels)
    except LabelError:
        return None
    return lease if lease.namespace == live.namespace else None
