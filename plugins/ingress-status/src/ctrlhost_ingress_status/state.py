"""The current address: what was observed, and what is in force since when."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ctrlhost_ingress_status.addresses import Entries, fingerprint, same


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


class AddressState:
    """Holds changes off until they settle. Not thread-safe; times are the clock's seconds.

    A change comes into force `quiet` seconds after the last one, and at most `longest` seconds after the first one.
    The first address after an election comes into force at once.
    """

    def __init__(self, quiet: float, longest: float) -> None:
        """Start without an address."""
        self._quiet, self._longest = quiet, longest
        self._pending: Entries | None = None
        self._first = self._last = 0.0
        self._at_once = True
        self.known: Known | None = None

    def elected(self) -> None:
        """Use the first address of this term at once, even if it is held off."""
        self._at_once = self._pending is not None or self.known is None or not self.known.entries

    def observe(self, entries: Entries, now: float) -> None:
        """Record the addresses of the source; another order of the same list is ignored."""
        if self.known is not None and same(entries, self.known.entries):
            self._pending = None
        elif self._pending is None:
            self._pending, self._first, self._last = entries, now, now
        elif not same(entries, self._pending):
            self._pending, self._last = entries, now

    def due(self) -> float:
        """Return when the address that is held off comes into force; infinity if there is none."""
        if self._pending is None:
            return math.inf
        if self.known is None or (self._at_once and self._pending):
            return self._first
        return min(self._last + self._quiet, self._first + self._longest)

    def settle(self, source: str, now: float) -> bool:
        """Put the address in force that is due, and return whether there was one."""
        if self._pending is None or now < self.due():
            return False
        number = self.known.number + 1 if self.known else 1
        self.known = Known(self._pending, source, now, number, fingerprint(self._pending))
        self._at_once = self._at_once and not self._pending
        self._pending = None
        return True


class Clearing:
    """Decides when statuses are cleared, `grace` seconds after the last address; None for never."""

    def __init__(self, grace: float | None) -> None:
        """Start with nothing published, and so with nothing to clear."""
        self._grace = grace
        #: The mark of the list that this process published last; empty for none.
        self.published = ""

    def note(self, known: Known) -> None:
        """Record the address that is being published."""
        if known.entries:
            self.published = known.mark

    def due(self, known: Known | None) -> float:
        """Return when clearing starts; infinity for never."""
        if self._grace is None or known is None or known.entries or not self.published:
            return math.inf
        return known.since + self._grace
