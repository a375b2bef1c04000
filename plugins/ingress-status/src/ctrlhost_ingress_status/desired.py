"""The status that every Ingress of ours should have, shared by the parts of the plugin."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost_ingress_status.state import Known


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
        #: Between the hooks for election and deposition; otherwise workers and predicates do nothing.
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
