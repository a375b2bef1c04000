"""The kind whose status is written: its class and its addresses, how to set them, and what they should be."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
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


@dataclass(frozen=True, slots=True)
class Known:
    """The addresses in force since `since`, in the clock's seconds; they may be none."""

    entries: Entries
    source: str
    since: float
    #: Counts the addresses that came into force; a new one is a reason to retry what was refused.
    number: int = 0
    #: The fingerprint of the entries.
    mark: str = ""


class Verdict(Enum):
    """The action for one Ingress."""

    #: It is not ours, or no address is known.
    LEAVE = auto()
    #: It has the right addresses.
    RIGHT = auto()
    WRITE = auto()
    CLEAR = auto()


class Desired:
    """The current state. Each attribute is replaced as a whole, so that any thread may read it."""

    def __init__(self, ours: frozenset[str]) -> None:
        """Start with the classes and no address."""
        self.ours = ours
        self.known: Known | None = None
        #: While statuses are cleared, the mark of the list to remove; empty otherwise.
        self.clearing = ""
        #: Between the hooks for election and deposition, with shards from the start on; otherwise workers and
        #: predicates do nothing.
        self.elected = False

    def verdict(self, class_name: str, mark: str, known: Known | None) -> Verdict:
        """Judge an Ingress by its class and the mark of its addresses, against the known address.

        `known` is an argument, so that the caller acts on the same address.
        """
        if known is None or class_name not in self.ours:
            return Verdict.LEAVE
        if known.entries:
            return Verdict.RIGHT if mark == known.mark else Verdict.WRITE
        return Verdict.CLEAR if self.clearing and mark == self.clearing else Verdict.LEAVE
