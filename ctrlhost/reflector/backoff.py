"""Delays before the next attempt: client-go's numbers for reflectors, on a clock that tests can step."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from ctrlhost.clock import doubling

if TYPE_CHECKING:
    from ctrlhost.clock import Clock
    from ctrlhost.reflector.options import BackoffOptions


class Backoff:
    """Delays that double up to a cap, each extended by a random part of itself. For use by one thread.

    They restart from the first delay once `reset_after` seconds have passed since the last restart.
    """

    def __init__(self, clock: Clock, options: BackoffOptions) -> None:
        """Start with the first delay; a delay d becomes one between d and d x (1 + jitter)."""
        self._clock = clock
        self._options = options
        self.reset()

    def next(self) -> float:
        """Return the seconds to wait before the next attempt."""
        if self._clock.now() - self._since > self._options.reset_after:
            self.reset()
        return next(self._delays) * (1 + random.random() * self._options.jitter)  # noqa: S311 - spreads load, protects nothing

    def reset(self) -> None:
        """Start over with the first delay."""
        self._delays = doubling(self._options.base, self._options.cap)
        self._since = self._clock.now()


_QUIET = 60.0
"""Seconds without a failure after which the next one opens a new window."""


class RetryWindow:
    """The time after a first failure in which an immediate retry is worthwhile. For use by one thread."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        """Allow retries for `seconds` after a failure, 0 for none; a minute without failures opens a new window."""
        self._clock = clock
        self._seconds = seconds
        self._first: float | None = None
        self._last = 0.0

    def failed(self) -> bool:
        """Record a failure; return whether to retry at once. The end of the window closes it."""
        if self._seconds <= 0:
            return False
        now = self._clock.now()
        if self._first is None or now - self._last >= _QUIET:
            self._first = now
        self._last = now
        if now - self._first <= self._seconds:
            return True
        self._first = None
        return False
