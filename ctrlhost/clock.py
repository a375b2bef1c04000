"""Time as an argument: the machine's clock in production, a clock that is stepped by hand in tests.

The manual clock is `ctrlhost.testing.ManualClock`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ctrlhost import _core

if TYPE_CHECKING:
    import threading

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """What tells the time and waits for it. All methods may be called from any thread."""

    def now(self) -> float:
        """Give monotonic seconds; only differences mean anything."""
        ...

    def time(self) -> float:
        """Give seconds since the epoch, for timestamps in objects."""
        ...

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        """Wait until `event` is set or `timeout` seconds passed on this clock; tell whether the event is set."""
        ...


class SystemClock(_core.SystemClock):
    """The machine's clock: monotonic for `now` and `wait`, so that setting the wall clock moves no deadline."""

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        """Wait until `event` is set or `timeout` seconds passed; tell whether the event is set."""
        return event.wait(timeout)
