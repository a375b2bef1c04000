"""The one current address: what was observed of it, what of that is in force, and since when."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ctrlhost_ingress_status.addresses import Entries, fingerprint, same


@dataclass(frozen=True, slots=True)
class Known:
    """An address that is in force since `since`, in the clock's seconds; no entries is an answer, too."""

    entries: Entries
    source: str
    since: float
    #: Counts the addresses that were put in force; a new one is a new reason to try what was refused.
    number: int = 0
    #: What the last list in force names, however it is written and ordered.
    mark: str = ""


class AddressState:
    """Holds changes off until they have settled. Not for several threads at once; times are the clock's seconds.

    A change is put in force `quiet` seconds after the last one, `longest` seconds after the first one at the latest.
    The first address after an election is put in force at once.
    """

    def __init__(self, quiet: float, longest: float) -> None:
        """Know nothing yet."""
        self._quiet, self._longest = quiet, longest
        self._pending: Entries | None = None
        self._first = self._last = 0.0
        self._at_once = True
        self.known: Known | None = None

    def elected(self) -> None:
        """Take the first address of this term at once, be it the one that is held off."""
        self._at_once = self._pending is not None or self.known is None or not self.known.entries

    def observe(self, entries: Entries, now: float) -> None:
        """Take note of what the source says; the order of a list that says nothing new is not taken over."""
        if self.known is not None and same(entries, self.known.entries):
            self._pending = None
        elif self._pending is None:
            self._pending, self._first, self._last = entries, now, now
        elif not same(entries, self._pending):
            self._pending, self._last = entries, now

    def due(self) -> float:
        """Give when the address that is held off comes into force; infinity when there is none."""
        if self._pending is None:
            return math.inf
        if self.known is None or (self._at_once and self._pending):
            return self._first
        return min(self._last + self._quiet, self._first + self._longest)

    def settle(self, source: str, now: float) -> bool:
        """Put in force what is due, and say whether there was anything."""
        if self._pending is None or now < self.due():
            return False
        number = self.known.number + 1 if self.known else 1
        self.known = Known(self._pending, source, now, number, fingerprint(self._pending))
        self._at_once = self._at_once and not self._pending
        self._pending = None
        return True


class Clearing:
    """Whether statuses are to be cleared, because there has been no address for so long. `grace` None: never."""

    def __init__(self, grace: float | None) -> None:
        """Nothing was published yet, so nothing can be cleared."""
        self._grace = grace
        #: What this process published last, as a mark; empty for nothing.
        self.published = ""

    def note(self, known: Known) -> None:
        """Remember what is being published."""
        if known.entries:
            self.published = known.mark

    def due(self, known: Known | None) -> float:
        """Give when clearing begins; infinity for not at all."""
        if self._grace is None or known is None or known.entries or not self.published:
            return math.inf
        return known.since + self._grace
