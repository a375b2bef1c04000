"""Resignation: this replica gives its Leases to others, and is a candidate again after a while."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.clock import Clock
    from ctrlhost.coordination.elector import LeaderElector

log = logging.getLogger("ctrlhost.leader_election")

#: For how many durations of the Lease other replicas have it to themselves.
DURATIONS = 2
#: Real seconds between two looks at what still runs.
_POLL = 0.1


class Resignations:
    """The Leases for which this replica is no candidate for now. Callable from any thread."""

    def __init__(self, clock: Clock) -> None:
        """Start without any."""
        self._clock = clock
        self._lock = threading.Lock()
        self._leases: set[str] = set()
        self._stopping = threading.Event()

    def __contains__(self, lease: str) -> bool:
        """Return whether this replica has resigned from a Lease."""
        return lease in self._leases

    def begin(self, lease: str, elector: LeaderElector, runs: Callable[[], bool], stand: Callable[[], None]) -> bool:
        """Stop leading now, and release the Lease as soon as `runs` is False; return False if this replica leads not.

        After twice the duration of the Lease, call `stand`. Both are called on a thread of their own.
        """
        with self._lock:
            if lease in self._leases or not elector.leading:
                return False
            self._leases.add(lease)
        elector.withdraw()
        threading.Thread(
            target=self._run, args=(lease, elector, runs, stand), name=f"resign {lease}", daemon=True
        ).start()
        return True

    def _run(self, lease: str, elector: LeaderElector, runs: Callable[[], bool], stand: Callable[[], None]) -> None:
        began, duration = self._clock.now(), elector.config.lease_duration
        while runs():
            if self._clock.now() >= began + duration:
                log.warning("lease %s: not released but expired: work of this replica still runs", elector.lock)
                break
            if self._stopping.wait(_POLL):
                return
        else:
            elector.release_soon()
        if self._clock.wait_until(self._stopping, began + DURATIONS * duration):
            return
        with self._lock:
            self._leases.discard(lease)
        log.info("lease %s: this replica is a candidate again", elector.lock)
        stand()

    def stop(self) -> None:
        """End the waits; nobody stands again."""
        self._stopping.set()
