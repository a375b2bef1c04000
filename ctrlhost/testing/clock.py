"""A clock that a test steps by hand, so that no test sleeps, and one that runs faster than the machine's."""

from __future__ import annotations

import threading
from typing import Any

from ctrlhost import _core
from ctrlhost.clock import SystemClock

__all__ = ["HurriedClock", "ManualClock"]


class HurriedClock(SystemClock):
    """The machine's clock, but faster: for back-off under many faults, which would take hours otherwise.

    Reflectors and tasks keep it. Queues that are given it count real seconds, since the compiled part asks no clock
    that is written in Python.
    """

    def __new__(cls, speed: float = 1000.0) -> HurriedClock:  # noqa: ARG004, PYI034
        """Make one; the compiled part takes no argument."""
        return super().__new__(cls)

    def __init__(self, speed: float = 1000.0) -> None:
        """Run `speed` times as fast as the machine's clock."""
        self._speed = speed

    def now(self) -> float:
        """Give hurried seconds; only differences mean anything."""
        return super().now() * self._speed

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        """Wait until `event` is set or `timeout` hurried seconds passed; tell whether the event is set."""
        return event.wait(None if timeout is None else timeout / self._speed)


class ManualClock(_core.ManualClock):
    """A clock that stands still until `advance`; its zero is 2026-01-01T00:00:00Z.

    Queues, limiters and every wait that was given this clock run on it. Safe to use from any thread.
    """

    def __init__(self, start: float = 0.0) -> None:  # noqa: ARG002
        """Stand at `start` seconds, which the compiled part has taken already."""
        self._lock = threading.Lock()
        self._waiting: list[threading.Event] = []

    def advance(self, seconds: float) -> None:
        """Step the clock; what became due in queues is queued when this returns, and its waiters are awake."""
        super().advance(seconds)
        with self._lock:
            waiting = list(self._waiting)
        for event in waiting:
            condition = _condition(event)
            with condition:
                condition.notify_all()

    def waiters(self) -> int:
        """Count the threads that sleep on this clock, with a timeout or without."""
        with self._lock:
            return super().waiters() + len(self._waiting)

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        """Wait until `event` is set or the clock was stepped `timeout` seconds ahead; tell whether it is set."""
        deadline = None if timeout is None else self.now() + timeout
        condition = _condition(event)
        with condition:
            with self._lock:
                self._waiting.append(event)
            try:
                while not event.is_set() and (deadline is None or self.now() < deadline):
                    condition.wait()
                return event.is_set()
            finally:
                with self._lock:
                    self._waiting.remove(event)


def _condition(event: threading.Event) -> Any:
    # The one thing that both `event.set()` and a step of the clock can notify. It has had this name since Python 3.3,
    # and a test of ours would notice a change; asking in intervals would cost every sleeping thread a wake-up each.
    return event._cond  # type: ignore[attr-defined]  # noqa: SLF001
