"""The kind whose status is written. Another kind is another class with these methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ctrlhost_ingress_status.addresses import fingerprint, normalise
from ctrlhost_ingress_status.classes import effective_class

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost.cache import Object
    from ctrlhost_ingress_status.addresses import Entries


class Target(Protocol):
    """What the writer needs to know of a kind."""

    api_version: str
    kind: str
    #: What must be cached of each object for the methods below.
    reads: tuple[str, ...]

    def class_of(self, obj: Object) -> str:
        """Give the class that the object names; empty for none."""

    def addresses(self, obj: Object | Mapping[str, Any]) -> Entries:
        """Give the addresses in the object's status."""

    def mark(self, obj: Object) -> str:
        """Give the fingerprint of the addresses in the object's status; cheap, since many objects have the same."""

    def patch(self, uid: str, entries: Entries | None) -> dict[str, Any]:
        """Build the merge patch of the status that sets the addresses, or with None removes them."""

    def replacement(self, obj: dict[str, Any], entries: Entries | None) -> dict[str, Any]:
        """Build the object to replace the status with, from one that may be changed."""


#: So many lists are remembered with their fingerprints. A cluster has few, unless something is very wrong with it.
_REMEMBERED = 1000


class IngressTarget:
    """An Ingress of networking.k8s.io/v1."""

    api_version = "networking.k8s.io/v1"
    kind = "Ingress"
    reads: tuple[str, ...] = ("spec.ingressClassName", "status.loadBalancer")

    def __init__(self, vendor_annotation: str) -> None:
        """Take this annotation before the one that all controllers know."""
        self._vendor = vendor_annotation
        self._marks: dict[str, str] = {}

    def class_of(self, obj: Object) -> str:
        """Give the class that the Ingress names, by annotation or field."""
        return effective_class(obj.annotations, obj.get_path("spec", "ingressClassName", default=""), self._vendor)

    def addresses(self, obj: Object | Mapping[str, Any]) -> Entries:
        """Give the addresses in the Ingress's status."""
        balancer = (obj.get("status") or {}).get("loadBalancer") or {}
        return normalise(balancer.get("ingress"))

    def mark(self, obj: Object) -> str:
        """Give the fingerprint of the addresses in the Ingress's status, worked out once for all that say the same."""
        raw = obj.get_path("status", "loadBalancer", "ingress")
        text = repr(raw)
        mark = self._marks.get(text)
        if mark is None:
            if len(self._marks) >= _REMEMBERED:
                self._marks.clear()
            mark = self._marks[text] = fingerprint(normalise(raw))
        return mark

    def patch(self, uid: str, entries: Entries | None) -> dict[str, Any]:
        """Build the patch. The uid has the server refuse it for another object of the name."""
        addresses = None if entries is None else list(entries)
        return {"metadata": {"uid": uid}, "status": {"loadBalancer": {"ingress": addresses}}}

    def replacement(self, obj: dict[str, Any], entries: Entries | None) -> dict[str, Any]:
        """Build the object; its resourceVersion stays, so that the server refuses it if another was faster."""
        balancer = {} if entries is None else {"ingress": list(entries)}
        return {**obj, "status": {**(obj.get("status") or {}), "loadBalancer": balancer}}
