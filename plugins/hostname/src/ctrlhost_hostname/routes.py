"""What the two kinds of route have in common: what one connects, how it is built, compared and removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ctrlhost_hostname.lease import LabelError, LeaseID, lease_from_labels

if TYPE_CHECKING:
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
    """What a live route connects."""

    hostname: str
    lease: LeaseID
    service_name: str
    service_port: int


class Routes(Protocol):
    """One kind of route: the pure rules of its content, and the one call that differs, its removal."""

    api_version: str
    kind: str
    group: str
    resource: str
    get_action: str
    """What the `action` label of `provider_kube_calls` says of a live read; the three below are those of the writes."""
    create_action: str
    update_action: str
    remove_action: str
    write_verbs: tuple[str, ...]
    """The rights that the controller needs besides reading the routes."""

    def build(self, directive: Directive) -> dict[str, Any]:
        """Give the whole object that should exist."""
        ...

    def differs(self, live: Mapping[str, Any], desired: Mapping[str, Any]) -> bool:
        """Compare the parts that the controller owns; foreign labels and annotations never count."""
        ...

    def connection(self, live: Mapping[str, Any]) -> Connection:
        """Read a live route; `LabelError` or `InvalidConnectionError` if we could not have written it."""
        ...

    def hosts(self, live: Mapping[str, Any]) -> list[str]:
        """Give every host of a route, however odd the rest of it is."""
        ...

    def is_plain(self, live: Mapping[str, Any], hostname: str) -> bool:
        """Say whether a route looks exactly like ours, as it must to be removed though nobody was seen to claim it."""
        ...

    def remove(self, client: ctrlhost.Client, lease: LeaseID, live: ctrlhost.Object) -> None:
        """Remove the route of a lease; that it is gone already is success."""
        ...


def owned_metadata(live: Mapping[str, Any], field: str, keys: Sequence[str]) -> dict[str, str]:
    """Give those labels or annotations of a live object that are ours."""
    values = as_mapping(as_mapping(live.get("metadata")).get(field))
    return {key: values[key] for key in keys if key in values}


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Give `value` if it is a mapping, else an empty one, so that an odd object is read without a crash."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    """Give the items of `value` if it is a list, else none."""
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str | bytes) else []


def plain(value: Any) -> Any:
    """Copy read-only views into plain dicts and lists, so that they compare with what we build."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(item) for item in value]
    return value


def seconds(milliseconds: int) -> int:
    """Round milliseconds up to whole seconds."""
    return -(-milliseconds // 1000)


def owner_of(live: ctrlhost.Object) -> LeaseID | None:
    """Give the lease of a route that is ours to remove: its labels name a lease whose namespace it is in."""
    try:
        lease = lease_from_labels(live.labels)
    except LabelError:
        return None
    return lease if lease.namespace == live.namespace else None
