"""What both kinds of route share: their content, how a hand-made change is undone, and which ones are ours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import ctrlhost
from ctrlhost_hostname.lease import LabelError, LeaseID, lease_from_labels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost_hostname.claims import Claim
    from ctrlhost_hostname.manifest import HTTPOptions

MANAGED_SELECTOR = "akash.network=true"
#: The annotation of a route whose removal is confirmed; a route that stays loses it.
CONFIRM = "ctrlhost-hostname/confirm-removal"


@dataclass(frozen=True)
class Connection:
    """Where a hostname leads to; `last_update` is in seconds since the epoch, None for a route found at start."""

    lease: LeaseID
    service_name: str
    external_port: int
    last_update: float | None = None


class Routes(ABC):
    """One route per hostname, named after it, in the namespace of its lease."""

    #: The apiVersion and the kind.
    kind: ClassVar[tuple[str, str]]
    resource: ClassVar[str]
    #: The class of an Ingress.
    ingress_class: ClassVar[str | None] = None
    #: The beginning of the actions that are counted, as upstream names them.
    action: ClassVar[str]
    #: Annotations that only the plugin sets: another value is none.
    own_annotations: ClassVar[frozenset[str]] = frozenset({CONFIRM})

    def build(self, claim: Claim, options: HTTPOptions) -> dict[str, Any]:
        """Return the route of a claim, to its external port: the tenant's Service maps that to the container's."""
        metadata = {
            "name": claim.hostname,
            "namespace": claim.lease.namespace,
            "labels": dict(claim.lease.labels),
            "annotations": self.annotations(options),
        }
        return {"apiVersion": self.kind[0], "kind": self.kind[1], "metadata": metadata, "spec": self.spec(claim)}

    @abstractmethod
    def annotations(self, options: HTTPOptions) -> dict[str, str]:
        """Return the HTTP options in the words of the proxy."""

    @abstractmethod
    def spec(self, claim: Claim) -> dict[str, Any]:
        """Return the spec with the server's defaults, so that any other value is somebody's change."""

    @abstractmethod
    def hosts(self, live: ctrlhost.Object) -> list[str]:
        """Return the hostnames of a live route."""

    def is_plain(self, live: ctrlhost.Object, hostname: str) -> bool:
        """Return whether a live route looks like ours: its class, and a single rule, for this hostname."""
        ours = live.get_path("spec", "ingressClassName") == self.ingress_class
        return ours and len(live.get_path("spec", "rules", default=())) == 1 and self.hosts(live) == [hostname]

    @abstractmethod
    def connection(self, live: ctrlhost.Object) -> tuple[str, Connection]:
        """Read a live route; raises `LabelError` or `InvalidConnectionError` if the plugin cannot have written it."""

    def unwanted(self, live: ctrlhost.Object, desired: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the merge patch that removes what others added to our parts; None if there is nothing.

        A server-side apply keeps the fields that it does not name.
        """
        wanted, kept = desired["spec"], desired["metadata"]["annotations"]
        spec = {key: wanted.get(key) for key, value in live.to_dict()["spec"].items() if value != wanted.get(key)}
        annotations = {key: None for key in self.own_annotations if key in live.annotations and key not in kept}
        patch = {"spec": spec, "metadata": {"annotations": annotations} if annotations else None}
        return {key: value for key, value in patch.items() if value} or None

    def remove(self, client: ctrlhost.Client, live: ctrlhost.Object) -> None:
        """Delete the object whose labels were read; a newer route of the same name has another uid and is kept."""
        try:
            client.delete(*self.kind, live.name, live.namespace, preconditions={"uid": live.uid})
        except ctrlhost.NotFound:
            return


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
