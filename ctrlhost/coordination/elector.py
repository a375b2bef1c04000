"""Leader election: of all candidates for a Lease, at most one leads at a time.

As in client-go's `leaderelection`. Only this machine's monotonic clock counts, never a wall clock: another replica's
lease has expired when no change of it was observed for its whole duration; this replica's leadership has ended when the
renew deadline has passed since the last renewal was *sent*. `leading` computes that at each call, so a process that was
suspended stops leading at once. What it leads afterwards is a new term, also if no other replica held the lease.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import TYPE_CHECKING

from ctrlhost.config.settings import JITTER_FACTOR, LeaderElectionConfig
from ctrlhost.coordination.lease import LeaderElectionRecord
from ctrlhost.coordination.repeats import Repeats
from ctrlhost.coordination.term import Tenure
from ctrlhost.errors import AlreadyExists, Conflict, CtrlhostError, Forbidden, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.clock import Clock
    from ctrlhost.coordination.lease import LeaseLock

log = logging.getLogger("ctrlhost.leader_election")

#: How long this replica's lease may have expired before the health check fails, in seconds.
TOLERANCE = 20.0

#: The right to act on Leases, as a rule of a Role.
_RULE = (
    '{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], '
    '"verbs": ["create", "get", "list", "watch", "update"]}'
)

#: A Lease that does not exist yet: taking it is not a transition.
_NEW = LeaderElectionRecord(lease_transitions=-1)


class LeaderElector:
    """A candidate that acquires and renews one Lease, on its own thread.

    The callbacks run on that thread and must not block: `on_started_leading` and `on_stopped_leading` alternate, and
    `on_new_leader(identity)` is called for each new holder, with "" when the lease was released. `on_renewed` is called
    after each write that begins a term or makes it last longer. After losing the lease the elector is a candidate
    again. One that has withdrawn reads the Lease when it changes, and writes nothing.
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
        on_renewed: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare without a request. ValueError for a lock without an identity."""
        if not lock.identity:
            raise ValueError("Lock identity is empty")
        self.lock = lock
        self.config = config or LeaderElectionConfig()
        #: The number of renewals that had to read the Lease first, because an update of its last known version failed.
        self.slow_paths = 0
        self._clock = clock
        self._on_started_leading = on_started_leading
        self._on_stopped_leading = on_stopped_leading
        self._on_new_leader = on_new_leader
        self._on_renewed = on_renewed
        self._observed: LeaderElectionRecord | None = None
        self._observed_at = 0.0
        self._reported: str | None = None
        #: The terms of this replica.
        self.tenure = Tenure(clock)
        self._now = self.tenure.now
        self._errors = Repeats(self._now)
        #: Guards the beginning of terms against `withdraw`.
        self._lock = threading.Lock()
        self._standing = True
        #: Whether to leave a free lease to other replicas for its duration, and since when it has been free.
        self.yields = False
        self._free_since: float | None = None
        self._led = False
        #: Whether the Lease may name this replica, also after a write without an answer.
        self._may_hold = False
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._release = False
        self._thread: threading.Thread | None = None

    @property
    def leading(self) -> bool:
        """Whether this replica leads right now; cheap, and exact on every thread."""
        return self.tenure.term is not None

    @property
    def leader(self) -> str:
        """The last observed holder of the lease; empty if there was none."""
        return self._observed.holder_identity if self._observed else ""

    @property
    def other_leader(self) -> str:
        """The replica that holds the lease; empty if this one does, or none."""
        held = self.leader != self.lock.identity and self._seconds_left(self._now()) > 0
        return self.leader if held else ""

    @property
    def observed_age(self) -> float | None:
        """The seconds since the last renewal that this replica made or saw; None before the first look."""
        return None if self._observed is None else max(0.0, self._now() - self._observed_at)

    def check(self, tolerance: float = TOLERANCE) -> None:
        """Raise RuntimeError if this replica holds the lease and it expired more than `tolerance` seconds ago."""
        mine = self.leader == self.lock.identity
        if self._standing and mine and self._now() > self._observed_at + self.config.lease_duration + tolerance:
            raise RuntimeError(f"failed election to renew leadership on lease {self.lock.name}")

    def wake(self) -> None:
        """Read the Lease now, for example after an event of it."""
        self._wake.set()

    def withdraw(self) -> None:
        """Stop leading now, and no longer try to; the lease expires unless `release_soon` follows."""
        with self._lock:
            self._standing = False
            self.tenure.end()
        self._wake.set()

    def stand(self) -> None:
        """Be a candidate, again after `withdraw`."""
        with self._lock:
            self._standing, self._release = True, False
        self._wake.set()

    def release_soon(self) -> None:
        """Release the lease on the elector's thread, after `withdraw`; pass it on only when the work has ended."""
        self._release = True
        self._wake.set()

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name=f"leader election {self.lock.name}", daemon=True)
        self._thread.start()

    def stop(self, timeout: float, *, release: bool) -> bool:
        """Stop the thread and return whether it ended within `timeout` real seconds.

        With `release` the lease is released, so that another replica can lead at once; pass it only after all of the
        leader's work has ended.
        """
        self.withdraw()
        self._release = release
        self._stop.set()
        self._wake.set()
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            pause = self.attempt() if self._standing else self._stand_aside()
            self._clock.wait(self._wake, pause)
            self._wake.clear()
        self._lose()
        if self._release:
            self.release()

    def _stand_aside(self) -> float | None:
        """Release the lease if that is wanted, else observe who holds it; return None: only `wake` calls this again."""
        self._lose()
        if self._release:
            self._release = False
            self.release()
            return None
        try:
            record = self.lock.get(timeout=self.config.request_timeout)
        except CtrlhostError as error:
            log.debug("lease %s: %s", self.lock, error)
            return None
        if record is not None:
            self._observe(record, self._now())
        return None

    def attempt(self) -> float:
        """Try once to acquire or renew the lease, on the thread; return the seconds until the next attempt."""
        until = None
        try:
            until = self._try_acquire_or_renew()
        except (AlreadyExists, Conflict) as error:
            log.debug("lease %s: another replica wrote it first: %s", self.lock, error)
        except CtrlhostError as error:
            self._warn(error)
        except Exception:
            log.exception("lease %s", self.lock)
        else:
            self._errors.end()
        if until is not None and self._lead(until):
            return self.config.retry_period
        left = self.tenure.current.until - self._now()
        if left > 0 and (self._observed is None or self.leader == self.lock.identity):
            return min(self.config.retry_period, left)
        self._lose()
        pause = self.config.retry_period * random.uniform(1, 1 + JITTER_FACTOR)  # noqa: S311 - spreads candidates only
        left = self._seconds_left(self._now())
        return min(pause, left) if left > 0 else pause

    def _warn(self, error: CtrlhostError) -> None:
        """Log an error, and the right that is missing; the same one again only after a while."""
        text = str(error)
        if not self._errors.is_new(text):
            return
        right = f"; add {_RULE} to a Role in namespace {self.lock.namespace}" if isinstance(error, Forbidden) else ""
        log.warning("lease %s: %s%s", self.lock, text, right)

    def _lead(self, until: float) -> bool:
        """Lead until then, in the current term or in a new one; return False if that is over or not wanted."""
        if not self.leading:
            # A term that has lapsed does not continue.
            self._lose()
        with self._lock:
            if not self._standing or self._now() >= until:
                return False
            begins = not self._led
            if begins:
                self.tenure.begin(until)
            else:
                self.tenure.extend(until)
            self._led = True
        if begins:
            log.info("%s became leader of lease %s", self.lock.identity, self.lock)
            self._call(self._on_started_leading)
        self._call(self._on_renewed)
        return True

    def _lose(self) -> None:
        self.tenure.end()
        if self._led:
            self._led = False
            log.info("%s stopped leading by lease %s", self.lock.identity, self.lock)
            self._call(self._on_stopped_leading)

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception:
            log.exception("lease %s: a callback failed", self.lock)

    def _try_acquire_or_renew(self) -> float | None:
        """Write this replica as the holder; return until when it may lead, None if another one holds the lease."""
        observed, sent = self._observed, self._now()
        mine = self.leader == self.lock.identity
        if observed is not None and mine and self._seconds_left(sent) > 0 and not self._is_assigned(observed):
            try:
                return self._write(observed)
            except (Conflict, NotFound) as error:
                log.debug("lease %s: %s", self.lock, error)
            except CtrlhostError as error:
                log.warning("lease %s: cannot update its last known version: %s", self.lock, error)
            self.slow_paths += 1
        record = self.lock.get(timeout=self.config.request_timeout)
        if record is None:
            # Another holder may not have noticed the deletion yet.
            held = self.leader and not mine and self._seconds_left(self._now()) > 0
            return None if held or self._left_to_others() else self._write(None)
        self._observe(record, self._now())
        holder = record.holder_identity
        if holder != self.lock.identity:
            self._may_hold = False
            self._lose()
            if record.strategy is not None:
                return None
            if holder and self._seconds_left(self._now()) > 0:
                self._free_since = None
                return None
            if self._left_to_others():
                return None
        elif self._is_assigned(record):
            return None
        return self._write(record)

    def _left_to_others(self) -> bool:
        """Return whether a replica that can run more plugins may still take the free lease."""
        now = self._now()
        if self._free_since is None:
            self._free_since = now
        return self.yields and now < self._free_since + self.config.lease_duration

    def _write(self, before: LeaderElectionRecord | None) -> float:
        """Write this replica as the holder, over the record `before`, or in a new Lease."""
        timeout, sent = self.config.request_timeout, self._now()
        record = (before or _NEW).renewed(self.lock.identity, self.config.lease_duration, self._clock.time())
        if before is None:
            # Another replica may have led since the Lease was deleted, so this is a new term.
            self._lose()
        self._may_hold = True
        if before is None:
            self.lock.create(record, timeout=timeout)
        else:
            self.lock.update(record, timeout=timeout)
        self._observe(record, sent, wrote=True)
        self._free_since = None
        # From before the request: no replica can have observed the renewal earlier.
        return sent + self.config.renew_deadline

    def _is_assigned(self, record: LeaderElectionRecord) -> bool:
        """Return whether the control plane wants another holder."""
        return record.preferred_holder not in (None, "", self.lock.identity)

    def _observe(self, record: LeaderElectionRecord, at: float, *, wrote: bool = False) -> None:
        """Keep the record, and the time if it has changed or this replica `wrote` it: a read renews nothing."""
        if wrote or record != self._observed:
            self._observed, self._observed_at = record, at
        if record.holder_identity != self._reported:
            self._reported = record.holder_identity
            self._call(lambda: self._on_new_leader(record.holder_identity))

    def _seconds_left(self, now: float) -> float:
        """Return how long the observed lease is still valid, by the duration that its holder set."""
        return self._observed_at + self._observed.lease_duration - now if self._observed is not None else 0.0

    def release(self) -> None:
        """Release the lease if this replica holds it; after a failure, which is logged, it expires by itself."""
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
                log.warning("cannot release lease %s, which will expire: %s", self.lock, error)
                return
            self._may_hold = False
            self.tenure.end()
            self._observe(record, self._now())
            log.info("released lease %s", self.lock)
