"""How long to wait before the next attempt: client-go's numbers for reflectors, on a clock that tests can step."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost.clock import Clock


class Backoff:
    """Delays that double up to a cap, each stretched by a random part of itself. For use by one thread.

    The delays start over once `reset_after` seconds passed since they last did: a server that fails once in a while is
    not punished for last week.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        base: float = 0.8,
        factor: float = 2.0,
        cap: float = 30.0,
        jitter: float = 1.0,
        reset_after: float = 120.0,
        rng: random.Random | None = None,
    ) -> None:
        """Start with `base` seconds; a delay d becomes one between d and d x (1 + jitter)."""
        self._clock = clock
        self._base, self._factor, self._cap, self._jitter = base, factor, cap, jitter
        self._reset_after = reset_after
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._delay = base
        self._since = clock.now()

    def next(self) -> float:
        """Give the seconds to wait before the next attempt."""
        now = self._clock.now()
        if now - self._since > self._reset_after:
            self.reset()
        delay = self._delay
        self._delay = min(delay * self._factor, self._cap)
        return delay * (1 + self._rng.random() * self._jitter)

    def reset(self) -> None:
        """Start over with the first delay."""
        self._delay = min(self._base, self._cap)
        self._since = self._clock.now()


class RetryWindow:
    """For how long after a first failure it is worth trying the same again at once. For use by one thread."""

    def __init__(self, clock: Clock, seconds: float, *, forget_after: float = 60.0) -> None:
        """Allow retries for `seconds` after a failure, none where that is 0; a quiet minute opens a new window."""
        self._clock = clock
        self._seconds = seconds
        self._forget_after = forget_after
        self._first: float | None = None
        self._last = 0.0

    def failed(self) -> bool:
        """Note a failure; True if the same may be tried again, False once the window is over, which closes it."""
        if self._seconds <= 0:
            return False
        now = self._clock.now()
        if self._first is None or now - self._last >= self._forget_after:
            self._first = now
        self._last = now
        if now - self._first <= self._seconds:
            return True
        self._first = None
        return False
