"""Leader election: of all replicas that ask for a Lease, at most one leads at a time.

A lease is judged by this machine's steady clock and by nobody's wall clock: somebody else's is over when it has not
been seen to change for its whole duration, one's own leadership when the renew deadline has passed since the last
renewal was *sent*. `leading` reckons that anew whenever it is asked, so a process that was asleep knows at once that
it leads no more.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import TYPE_CHECKING

from ctrlhost.clock import SystemClock
from ctrlhost.config.leader_election import JITTER_FACTOR, LeaderElectionConfig
from ctrlhost.coordination.lease import LeaderElectionRecord
from ctrlhost.errors import AlreadyExists, Conflict, CtrlhostError, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.clock import Clock
    from ctrlhost.coordination.lease import LeaseLock

log = logging.getLogger("ctrlhost.leader_election")

#: How long past its end a lease of one's own may be before the health check fails, in seconds.
TOLERANCE = 20.0

#: A Lease that is new: taking it is no transition.
_NOBODYS = LeaderElectionRecord(lease_transitions=-1)


class LeaderElector:
    """Tries to get and to keep one Lease, on a thread of its own.

    The callbacks run on that thread and must not block: `on_started_leading` and `on_stopped_leading` in turns, and
    `on_new_leader(identity)` whenever another holder is seen, with an empty text when the lease was released. After a
    loss the elector is a candidate again.
    """

    def __init__(
        self,
        lock: LeaseLock,
        clock: Clock,
        config: LeaderElectionConfig | None = None,
        *,
        on_started_leading: Callable[[], None] = lambda: None,
        on_stopped_leading: Callable[[], None] = lambda: None,
        on_new_leader: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Prepare; nothing is sent before `start`. ValueError for a lock without an identity."""
        if not lock.identity:
            raise ValueError("Lock identity is empty")
        self.lock = lock
        self.config = config or LeaderElectionConfig()
        #: How often a renewal had to read the Lease first, because writing over what was remembered failed.
        self.slow_paths = 0
        self._clock = clock
        self._now = _steady(clock)
        self._on_started_leading = on_started_leading
        self._on_stopped_leading = on_stopped_leading
        self._on_new_leader = on_new_leader
        self._observed: LeaderElectionRecord | None = None
        self._observed_at = 0.0
        self._reported: str | None = None
        self._led = False
        self._leads_until = float("-inf")
        #: Whether the server may hold this replica for the holder: also after a write whose answer never came.
        self._may_hold = False
        self._yielded = False
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._release = False
        self._thread: threading.Thread | None = None

    # For everybody.

    @property
    def leading(self) -> bool:
        """Whether this replica leads at this very moment; cheap, and exact on every thread."""
        return self._led and not self._yielded and self._now() < self._leads_until

    @property
    def leader(self) -> str:
        """Who held the lease when it was last looked at; empty for nobody."""
        return self._observed.holder_identity if self._observed else ""

    def check(self, tolerance: float = TOLERANCE) -> None:
        """Raise RuntimeError if the lease is this replica's and has not been renewed for longer than it lasts."""
        observed, at = self._observed, self._observed_at
        mine = observed is not None and observed.holder_identity == self.lock.identity
        if mine and self._now() > at + self.config.lease_duration + tolerance:
            raise RuntimeError(f"failed election to renew leadership on lease {self.lock.name}")

    def poke(self) -> None:
        """Look at the Lease now, as when somebody heard that it has changed."""
        self._wake.set()

    # Life.

    def start(self) -> None:
        """Begin to try, on a new thread."""
        self._thread = threading.Thread(target=self._run, name=f"leader election {self.lock.name}", daemon=True)
        self._thread.start()

    def stop(self, timeout: float, *, release: bool) -> bool:
        """End, and say whether that was done within `timeout` real seconds.

        With `release` the lease is given up, so that another replica may lead at once: only for who has made sure that
        nothing of the leader's work goes on.
        """
        self._yielded = True
        self._release = release
        self._stop.set()
        self._wake.set()
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            pause = self.attempt()
            self._clock.wait(self._wake, pause)
            self._wake.clear()
        self._lose()
        if self._release:
            self.release()

    def attempt(self) -> float:
        """Try once to get or keep the lease, and give the seconds after which to try again; the body of the thread."""
        try:
            renewed = self._try_acquire_or_renew()
        except (AlreadyExists, Conflict) as error:
            renewed = False
            log.debug("lease %s: somebody was faster: %s", self.lock, error)
        except CtrlhostError as error:
            renewed = False
            log.warning("lease %s: %s", self.lock, error)
        except Exception:
            renewed = False
            log.exception("lease %s", self.lock)
        now = self._now()
        if renewed and now < self._leads_until:
            self._lead()
            return self.config.retry_period
        if self._led and not self._is_elsewhere() and now < self._leads_until:
            return min(self.config.retry_period, self._leads_until - now)
        self._lose()
        pause = self.config.retry_period * random.uniform(1, 1 + JITTER_FACTOR)  # noqa: S311 - spreads candidates only
        left = self._seconds_left(self._now())
        return min(pause, left) if left > 0 else pause

    def _lead(self) -> None:
        if not self._led:
            self._led = True
            log.info("%s became leader of lease %s", self.lock.identity, self.lock)
            self._call(self._on_started_leading)

    def _lose(self) -> None:
        if self._led:
            self._led = False
            log.info("%s stopped leading by lease %s", self.lock.identity, self.lock)
            self._call(self._on_stopped_leading)

    def _is_elsewhere(self) -> bool:
        return self._observed is not None and self._observed.holder_identity != self.lock.identity

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception:
            log.exception("lease %s: a callback failed", self.lock)

    # The protocol.

    def _try_acquire_or_renew(self) -> bool:
        observed, sent = self._observed, self._now()
        mine = observed is not None and observed.holder_identity == self.lock.identity
        if observed is not None and mine and self._seconds_left(sent) > 0 and not self._is_wanted_elsewhere(observed):
            try:
                return self._write(observed)
            except (Conflict, NotFound) as error:
                log.debug("lease %s: %s", self.lock, error)
            except CtrlhostError as error:
                log.warning("lease %s: could not be renewed as remembered: %s", self.lock, error)
            self.slow_paths += 1
        record = self.lock.get(timeout=self.config.request_timeout)
        if record is None:
            # Who was seen to hold it a moment ago may not know yet that somebody deleted it.
            led_elsewhere = observed is not None and not mine and observed.holder_identity
            return False if led_elsewhere and self._seconds_left(self._now()) > 0 else self._write(None)
        self._observe(record, self._now())
        holder = record.holder_identity
        if holder != self.lock.identity:
            self._may_hold = False
            self._leads_until = float("-inf")
            if record.strategy is not None or (holder and self._seconds_left(self._now()) > 0):
                return False
        elif self._is_wanted_elsewhere(record):
            return False
        return self._write(record)

    def _write(self, before: LeaderElectionRecord | None) -> bool:
        """Write that the lease is this replica's, over what it said `before`, or as a new Lease."""
        timeout, sent = self.config.request_timeout, self._now()
        record = (before or _NOBODYS).renewed(self.lock.identity, self.config.lease_duration, self._clock.time())
        if before is None or before.holder_identity != self.lock.identity:
            # Whoever had it in between may have led, so this is another term.
            self._lose()
        self._may_hold = True
        if before is None:
            self.lock.create(record, timeout=timeout)
        else:
            self.lock.update(record, timeout=timeout)
        # From before the request: who saw it carried out can not have seen it earlier than that.
        self._leads_until = sent + self.config.renew_deadline
        self._observe(record, sent)
        return True

    def _is_wanted_elsewhere(self, record: LeaderElectionRecord) -> bool:
        return record.preferred_holder not in (None, "", self.lock.identity)

    def _observe(self, record: LeaderElectionRecord, at: float) -> None:
        """Note what the Lease says, and since when if that is news."""
        if record != self._observed or record.holder_identity == self.lock.identity:
            self._observed, self._observed_at = record, at
        if record.holder_identity != self._reported:
            self._reported = record.holder_identity
            self._call(lambda: self._on_new_leader(record.holder_identity))

    def _seconds_left(self, now: float) -> float:
        """Give how long the lease as observed is still held; whoever holds it chose the duration."""
        return self._observed_at + self._observed.lease_duration - now if self._observed is not None else 0.0

    def release(self) -> None:
        """Give the lease up if it is this replica's; a failure is logged, and the lease runs out by itself."""
        deadline = time.monotonic() + self.config.renew_deadline
        while self._may_hold and time.monotonic() < deadline:
            try:
                record = self.lock.get(timeout=self.config.request_timeout)
                if record is None or record.holder_identity != self.lock.identity:
                    self._may_hold = False
                    return
                record = record.released(self._clock.time())
                self.lock.update(record, timeout=self.config.request_timeout)
            except Conflict:
                continue
            except CtrlhostError as error:
                log.warning("lease %s could not be released and will run out: %s", self.lock, error)
                return
            self._may_hold = False
            self._leads_until = float("-inf")
            self._observe(record, self._now())
            log.info("released lease %s", self.lock)


def _steady(clock: Clock) -> Callable[[], float]:
    """Give the clock that also counts while the machine sleeps, where there is one and `clock` is the machine's."""
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)
    if boot_time is None or not isinstance(clock, SystemClock):
        return clock.now
    return lambda: time.clock_gettime(boot_time)
