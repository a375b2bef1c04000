"""The kind whose status is written: how to read its class and its addresses, and how to set them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_ingress_status.addresses import fingerprint, normalise
from ctrlhost_ingress_status.classes import effective_class

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost import Object
    from ctrlhost_ingress_status.addresses import Entries

#: Lists whose fingerprints are cached. A healthy cluster has few.
_MAX_MARKS = 1000


class IngressTarget:
    """An Ingress of networking.k8s.io/v1. Another kind is another class with these methods."""

    api_version = "networking.k8s.io/v1"
    kind = "Ingress"
    #: The fields of each object that the methods below need in the cache.
    reads: tuple[str, ...] = ("spec.ingressClassName", "status.loadBalancer")

    def __init__(self, vendor_annotation: str) -> None:
        """Prefer this annotation to the one that all controllers know."""
        self._vendor = vendor_annotation
        self._marks: dict[str, str] = {}

    def class_of(self, obj: Object) -> str:
        """Return the class of the Ingress, by annotation or field; empty for none."""
        return effective_class(obj.annotations, obj.get_path("spec", "ingressClassName", default=""), self._vendor)

    def addresses(self, obj: Object | Mapping[str, Any]) -> Entries:
        """Return the addresses in the Ingress's status."""
        balancer = (obj.get("status") or {}).get("loadBalancer") or {}
        return normalise(balancer.get("ingress"))

    def mark(self, obj: Object) -> str:
        """Return the fingerprint of the addresses in the Ingress's status, computed once for all that have the same."""
        raw = obj.get_path("status", "loadBalancer", "ingress")
        text = repr(ctrlhost.plain(raw))
        mark = self._marks.get(text)
        if mark is None:
            if len(self._marks) >= _MAX_MARKS:
                self._marks.clear()
            mark = self._marks[text] = fingerprint(normalise(raw))
        return mark

    def patch(self, uid: str, entries: Entries | None) -> dict[str, Any]:
        """Build the merge patch that sets the addresses, or with None removes them.

        With the uid, the server refuses it for another object of the same name.
        """
        addresses = None if entries is None else list(entries)
        return {"metadata": {"uid": uid}, "status": {"loadBalancer": {"ingress": addresses}}}

    def replacement(self, obj: dict[str, Any], entries: Entries | None) -> dict[str, Any]:
        """Build the object for a PUT; its resourceVersion stays, so that the server refuses it after another write."""
        balancer = {} if entries is None else {"ingress": list(entries)}
        return {**obj, "status": {**(obj.get("status") or {}), "loadBalancer": balancer}}
