"""Terms of leadership: each time this replica begins to lead a lease is a term of its own, with a number that grows.

It is not the lease's `leaseTransitions`, which stays when a holder lets its own lease lapse and renews it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ctrlhost import _core
from ctrlhost.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

_OVER = float("-inf")


class Term(NamedTuple):
    """One term: its number, from 1, and until when it lasts unless the lease is renewed."""

    number: int
    #: By the clock of its tenure, in seconds; minus infinity for a term that has ended.
    until: float


class Tenure(_core.Tenure):
    """The current or last term of this replica with one lease. One thread writes it; all others read.

    The numbers are the core's, so that the transport compares them without the interpreter. `Tenure(clock)` starts
    before the first term; the system's clock also counts while the machine is suspended, if available.
    """

    __slots__ = ()

    @classmethod
    def endless(cls) -> Tenure:
        """Return a tenure in its first term, which lasts until `end`: that of a host without leader election."""
        tenure = cls(SystemClock())
        tenure.begin(float("inf"))
        return tenure

    @property
    def current(self) -> Term:
        """The current or last term."""
        return Term(*self.snapshot())

    def lost(self) -> bool:
        """Return whether the last term was ended, or none began; False if it only passed its deadline."""
        return self.until == _OVER


def _nothing(**_: Any) -> None:
    return


def _ignored(_: bool) -> None:
    return


@dataclass(frozen=True, slots=True)
class Candidacy:
    """What one plugin has to do with leadership. Callable from any thread; the default leads until `tenure.end()`."""

    tenure: Tenure
    #: Whether leadership may change while the host runs.
    elects: bool = False
    #: Returns the identity of the leading replica; empty if it is unknown.
    leader: Callable[[], str] = str
    #: Called when the plugin has synced: from now on this replica tries for the plugin's own lease.
    join: Callable[[], None] = _nothing
    #: Called with `failed=` when the plugin has failed for a while (False) or for good (True): this replica no longer
    #: tries for the plugin's own lease, nor for a shared one whose plugins have all failed for good.
    leave: Callable[..., None] = _nothing
    #: Called with whether the plugin waits for a kind or a right: then other replicas come first.
    waits: Callable[[bool], None] = _ignored
    #: Called when nothing of a plugin that left runs any more: the lease is released.
    release: Callable[[], None] = _nothing

    @property
    def term(self) -> int | None:
        """The number of the current term; None while this replica does not lead."""
        return self.tenure.term

    @property
    def leading(self) -> bool:
        """Whether this replica leads now; exact on every thread."""
        return self.tenure.term is not None
