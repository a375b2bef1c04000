"""Injectable clocks: the system clock in production, `ctrlhost.testing.ManualClock` in tests."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from ctrlhost import _core

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

__all__ = ["Clock", "SystemClock", "doubling", "micro_time"]


class Clock(Protocol):
    """A source of time. All methods may be called from any thread.

    Read `ctx.clock` or `plugin.clock` instead of the module `time`: a test then moves a
    `ctrlhost.testing.ManualClock`, and waits for nothing.
    """

    def now(self) -> float:
        """Return monotonic seconds; only differences are meaningful."""
        ...

    def time(self) -> float:
        """Return seconds since the epoch, for timestamps in objects."""
        ...

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        """Wait for `event`, at most `timeout` seconds of this clock; return whether the event is set."""
        ...

    def wait_until(self, event: threading.Event, moment: float) -> bool:
        """Wait for `event` until `now` is `moment`; return whether the event is set."""
        ...


class SystemClock(_core.SystemClock):
    """The system clock: monotonic for `now` and `wait`, so that setting the wall clock moves no deadline."""

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        """Wait for `event`, at most `timeout` seconds; return whether the event is set."""
        return event.wait(timeout)

    def wait_until(self, event: threading.Event, moment: float) -> bool:
        """Wait for `event` until `now` is `moment`; return whether the event is set."""
        return self.wait(event, max(moment - self.now(), 0.0))


def doubling(first: float, last: float = math.inf) -> Iterator[float]:
    """Yield delays in seconds: the first one, then each time twice the one before, but at most `last`."""
    delay = min(first, last)
    while True:
        yield delay
        delay = min(delay * 2, last)


def micro_time(seconds: float) -> str:
    """Format seconds since the epoch as the API's MicroTime, which has exactly six decimals."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
