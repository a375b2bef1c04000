"""The delays of retries: the controller's rate limiter, a bucket that all its retries share, and jitter."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, cast

from ctrlhost.clock import SystemClock
from ctrlhost.workqueue import BucketRateLimiter, WithMaxWaitRateLimiter, WorkQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.clock import Clock
    from ctrlhost.controller.backoff import Backoff
    from ctrlhost.entries import Entry

#: The burst of the bucket, in seconds of its rate.
_BURST = 5
#: The largest burst of a bucket.
_MAX_BURST = 2**32 - 1


def choose_jitter(clock: Clock) -> Callable[[], float]:
    """Return a function that returns random numbers from 0 to 1; always 0 for a test's clock."""
    return random.random if isinstance(clock, SystemClock) else float


class RetryLimiter:
    """A rate limiter of a queue that delays each retry at least as long as the controller's own limiter.

    Beyond `qps` retries a second and a burst of five times that, retries are delayed further, at most to the back-off's
    longest delay; 0 is no bound. The back-off's jitter is added to each delay. `num_requeues` does not change. May be
    called from any thread.
    """

    def __init__(
        self,
        own: Any,
        qps: float,
        backoff: Backoff,
        clock: Clock,
        jitter: Callable[[], float] | None = None,
        entry: Callable[[], Entry] | None = None,
    ) -> None:
        """Wrap `own`; `jitter` returns a random number from 0 to 1. Without it, a test's clock has no jitter.

        `entry` opens the entry of a call to `own`, if that is a plugin's code.
        """
        self._clock, self._jitter = clock, jitter or choose_jitter(clock)
        burst = int(min(max(1.0, qps * _BURST), _MAX_BURST))
        self._shared: Any = BucketRateLimiter(qps, burst, cast("Any", clock)) if qps else None
        self.change(own, backoff, entry)

    def change(self, own: Any, backoff: Backoff, entry: Callable[[], Entry] | None = None) -> None:
        """Use another limiter and back-off from now on; keys that wait do so as they were told."""
        # A queue gives its clock to a limiter that has none, and does not see this one through the wrapper.
        WorkQueue(rate_limiter=own, clock=cast("Any", self._clock))
        self.own = own
        self._entry = entry
        #: The failures of each key with a plugin's limiter, whose code a thread of the host must not call.
        self._failures: dict[Any, int] = {}
        self._share = backoff.jitter
        self._bucket: Any = None if self._shared is None else WithMaxWaitRateLimiter(self._shared, backoff.max)

    def when(self, key: Any) -> float:
        """Return the seconds until the next run of a key that failed."""
        delay: float = self.own.when(key) if self._entry is None else self._reported(self._entry(), key)
        if self._bucket is not None:
            delay = max(delay, self._bucket.when(key))
        return delay * (1 + self._share * self._jitter())

    def _reported(self, entry: Entry, key: Any) -> float:
        self._failures[key] = self._failures.get(key, 0) + 1
        entry.begin(key)
        try:
            delay: float = self.own.when(key)
        finally:
            entry.end()
            entry.close()
        return delay

    def forget(self, key: Any) -> None:
        """Forget the failures of a key."""
        self._failures.pop(key, None)
        self.own.forget(key)

    def num_requeues(self, key: Any) -> int:
        """Return the failures of a key since it was forgotten."""
        if self._entry is not None:
            return self._failures.get(key, 0)
        requeues: int = self.own.num_requeues(key)
        return requeues
