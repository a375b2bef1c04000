"""The system clock and the manual clock."""

from __future__ import annotations

import math
import threading

import pytest

from ctrlhost.clock import Clock, SystemClock
from ctrlhost.testing import ManualClock


def test_a_manual_clock_moves_only_when_stepped() -> None:
    clock = ManualClock(start=5.0)
    assert (clock.now(), clock.now()) == (5.0, 5.0)
    clock.advance(0.1)
    clock.advance(0.2)
    assert clock.now() == 5.3


def test_a_manual_clock_starts_in_2026() -> None:
    assert ManualClock().time() == 1767225600.0
    assert ManualClock(1.5).time() == 1767225601.5


@pytest.mark.parametrize("seconds", [-1.0, math.nan])
def test_a_clock_cannot_be_stepped_backwards(seconds: float) -> None:
    clock = ManualClock(3.0)
    with pytest.raises(ValueError, match="seconds must not be negative or NaN"):
        clock.advance(seconds)
    assert clock.now() == 3.0


def test_the_system_clock_runs_and_returns_the_unix_time() -> None:
    clock: Clock = SystemClock()
    earlier = clock.now()
    assert clock.now() >= earlier
    assert clock.time() > 1.7e9
    event = threading.Event()
    assert clock.wait(event, 0) is False
    assert clock.wait_until(event, earlier) is False
    event.set()
    assert clock.wait(event) is True
    assert clock.wait_until(event, float("inf")) is True


def _waiter(clock: ManualClock, event: threading.Event, timeout: float | None) -> tuple[threading.Thread, list[bool]]:
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(clock.wait(event, timeout)))
    before = clock.waiters()
    thread.start()
    while clock.waiters() == before:
        pass
    return thread, results


def test_a_step_wakes_the_waiter_that_is_due() -> None:
    clock = ManualClock()
    thread, results = _waiter(clock, threading.Event(), 10)
    clock.advance(9)
    assert thread.is_alive()
    assert clock.waiters() == 1
    clock.advance(1)
    thread.join()
    assert results == [False]
    assert clock.waiters() == 0


def test_a_step_before_the_wait_is_part_of_the_time_until_a_moment() -> None:
    clock, event = ManualClock(), threading.Event()
    moment = clock.now() + 10
    clock.advance(10)
    assert clock.wait_until(event, moment) is False


def test_an_event_wakes_a_waiter_without_a_step() -> None:
    clock, event = ManualClock(), threading.Event()
    thread, results = _waiter(clock, event, None)
    event.set()
    thread.join()
    assert results == [True]
