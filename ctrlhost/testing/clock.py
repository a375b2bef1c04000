"""Clocks for tests: one that the test advances, and one that runs faster than the machine's."""

from __future__ import annotations

import threading
from typing import Any

from ctrlhost import _core
from ctrlhost.clock import SystemClock
from ctrlhost.duration import DurationLike, in_seconds

__all__ = ["HurriedClock", "ManualClock"]


class HurriedClock(SystemClock):
    """The machine's clock, accelerated: for back-off under many faults, which would otherwise take hours.

    Reflectors and tasks follow it. Queues with this clock count real seconds, since the compiled core calls no clock
    written in Python. All methods may be called from any thread.
    """

    def __new__(cls, speed: float = 1000.0) -> HurriedClock:  # noqa: ARG004, PYI034
        """Create the clock; the compiled base class takes no argument."""
        return super().__new__(cls)

    def __init__(self, speed: float = 1000.0) -> None:
        """Run `speed` times as fast as the machine's clock."""
        self._speed = speed

    def now(self) -> float:
        """Return accelerated seconds; only differences are meaningful."""
        return super().now() * self._speed

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        """Wait until `event` is set or `timeout` accelerated seconds have passed; return whether it is set."""
        return event.wait(None if timeout is None else timeout / self._speed)


class ManualClock(_core.ManualClock):
    """A clock that only `advance` moves; its zero is 2026-01-01T00:00:00Z.

    Queues, limiters and waits that use this clock follow it. All methods may be called from any thread.
    """

    def __init__(self, start: float = 0.0) -> None:  # noqa: ARG002
        """Start at `start` seconds, which the compiled base class has processed."""
        self._lock = threading.Lock()
        #: The events that threads wait for, with the names of these threads and the ends of their timeouts.
        self._waiting: list[tuple[threading.Event, str, float | None]] = []

    def advance(self, seconds: DurationLike) -> None:
        """Advance the clock by seconds or a duration such as `"1h"`; on return, due keys are queued, waiters awake."""
        super().advance(in_seconds(seconds))
        with self._lock:
            waiting = list(self._waiting)
        for event, _, _ in waiting:
            condition = _condition(event)
            with condition:
                condition.notify_all()

    def waiters(self) -> int:
        """Return the number of threads that wait on this clock, with a timeout or without."""
        with self._lock:
            return super().waiters() + len(self._waiting)

    def deadlines(self) -> list[tuple[str, float]]:
        """Return the names of the threads that wait for a time of this clock, each with that time."""
        with self._lock:
            return [(name, deadline) for _, name, deadline in self._waiting if deadline is not None]

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        """Wait until `event` is set or the clock has advanced by `timeout` seconds; return whether it is set."""
        return self._wait(event, None if timeout is None else self.now() + timeout)

    def wait_until(self, event: threading.Event, moment: float) -> bool:
        """Wait until `event` is set or `now` is `moment`; return whether the event is set."""
        return self._wait(event, moment)

    def _wait(self, event: threading.Event, deadline: float | None) -> bool:
        condition, waiter = _condition(event), (event, threading.current_thread().name, deadline)
        with condition:
            with self._lock:
                self._waiting.append(waiter)
            try:
                while not event.is_set() and (deadline is None or self.now() < deadline):
                    condition.wait()
                return event.is_set()
            finally:
                with self._lock:
                    self._waiting.remove(waiter)


def _condition(event: threading.Event) -> Any:
    # The one object that both `event.set()` and `advance` can notify. It has had this name since Python 3.3, and a test
    # would notice a change; polling would wake every waiting thread at each interval.
    return event._cond  # type: ignore[attr-defined]  # noqa: SLF001
