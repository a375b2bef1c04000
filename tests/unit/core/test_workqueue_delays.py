"""Adds after a delay, and after the delay of a rate limiter."""

from __future__ import annotations

import math
import queue
import random
import threading

import pytest

from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import BucketRateLimiter, ItemExponentialFailureRateLimiter, ShutDown, WorkQueue
from tests.support.workqueue_threads import Background, wait_for_sleepers
from tests.unit.core.counted_queues import counted

behaviour = pytest.mark.behaviour


def run(work_queue: WorkQueue) -> list[object]:
    """Process all queued keys."""
    keys = []
    while len(work_queue):
        keys.append(work_queue.get_nowait())
        work_queue.done(keys[-1])
    return keys


@behaviour("workqueue/DL8")
def test_many_delayed_keys_are_handed_out_in_order(clock: ManualClock, work_queue: WorkQueue) -> None:
    random_ = random.Random(8)
    delays = {number: random_.uniform(0.001, 600) for number in range(2000)}
    for number, delay in delays.items():
        work_queue.add_after(number, delay)
    clock.advance(660)
    assert run(work_queue) == sorted(delays, key=lambda number: round(delays[number] * 1e9))


@behaviour("workqueue/X9")
def test_a_steady_stream_of_delayed_adds_does_not_block_due_keys(clock: ManualClock, work_queue: WorkQueue) -> None:
    work_queue.add_after("due", 0.5)
    for number in range(2000):
        work_queue.add_after(number, 60)
        clock.advance(0.001)
    assert run(work_queue) == ["due"]


@behaviour("workqueue/X7")
def test_a_drain_drops_delayed_keys_and_keeps_due_ones(clock: ManualClock, work_queue: WorkQueue) -> None:
    work_queue.add_after("due", 1)
    work_queue.add_after("later", 60)
    getter = Background(work_queue.get)
    wait_for_sleepers(clock)
    clock.advance(1)
    assert getter.result() == "due"
    drain = Background(work_queue.shut_down_with_drain)
    wait_for_sleepers(clock)
    work_queue.done("due")
    assert drain.result() is True
    assert work_queue.snapshot() == ([], [], [])
    clock.advance(60)
    with pytest.raises(ShutDown):
        work_queue.get()


@pytest.mark.parametrize("delay", [0, -1, -0.0, -math.inf])
def test_a_delay_of_zero_enqueues_at_once(work_queue: WorkQueue, delay: float) -> None:
    work_queue.add_after("foo", delay)
    assert run(work_queue) == ["foo"]


@pytest.mark.parametrize("delay", [math.inf, 1e300])
def test_an_infinite_delay_is_dropped(clock: ManualClock, work_queue: WorkQueue, delay: float) -> None:
    work_queue.add_after("foo", delay)
    assert work_queue.snapshot() == ([], [], [])
    clock.advance(1e9)
    assert len(work_queue) == 0


def test_a_delay_of_many_years_is_kept(clock: ManualClock, work_queue: WorkQueue) -> None:
    work_queue.add_after("foo", 10**9)
    clock.advance(10**9 - 1)
    assert len(work_queue) == 0
    clock.advance(1)
    assert run(work_queue) == ["foo"]


@pytest.mark.parametrize(("delay", "error"), [(math.nan, ValueError), ("1", ValueError), (True, TypeError)])
def test_an_invalid_delay_is_refused(work_queue: WorkQueue, delay: object, error: type) -> None:
    with pytest.raises(error):
        work_queue.add_after("foo", delay)  # type: ignore[arg-type]
    assert work_queue.snapshot() == ([], [], [])


@pytest.mark.parametrize("timeout", [math.nan, -1, -0.001])
def test_an_invalid_timeout_is_refused(work_queue: WorkQueue, timeout: float) -> None:
    for wait in (work_queue.get, work_queue.get_with_priority, work_queue.shut_down_with_drain):
        with pytest.raises(ValueError, match="timeout must not be negative or NaN"):
            wait(timeout)
    assert not work_queue.shutting_down


def exponential(clock: ManualClock, base: float = 0.001, highest: float = 1.0) -> WorkQueue:
    return WorkQueue(clock=clock, rate_limiter=ItemExponentialFailureRateLimiter(base, highest))


def back_off(work_queue: WorkQueue, clock: ManualClock, key: str) -> float:
    """Fail once, wait out the back-off, process the key, and return the back-off."""
    work_queue.add_rate_limited(key)
    (delayed,) = work_queue.snapshot().delayed
    assert (delayed.key, delayed.back_off) == (key, True)
    clock.advance(delayed.due_in)
    assert run(work_queue) == [key]
    return delayed.due_in


@behaviour("workqueue/X10")
def test_a_merged_failure_takes_no_token(clock: ManualClock) -> None:
    limiter = BucketRateLimiter(1, 2)
    work_queue = WorkQueue(clock=clock, rate_limiter=limiter)
    work_queue.add_rate_limited("a")
    assert run(work_queue) == ["a"]
    work_queue.add_rate_limited("b")
    assert run(work_queue) == ["b"]
    for _ in range(10):
        work_queue.add_rate_limited("c")
    assert limiter.when("d") == 2.0


@behaviour("workqueue/X11")
def test_after_shutdown_no_failure_is_counted(clock: ManualClock) -> None:
    limiter = BucketRateLimiter(1, 1, clock)
    for rate_limiter in (limiter, ItemExponentialFailureRateLimiter(0.001, 1)):
        work_queue = WorkQueue(clock=clock, rate_limiter=rate_limiter)
        work_queue.shut_down()
        work_queue.add_rate_limited("foo")
        assert work_queue.num_requeues("foo") == 0
    assert limiter.when("bar") == 0.0


@behaviour("workqueue/P27")
def test_a_key_that_failed_before_waits_longer_than_a_new_one(clock: ManualClock) -> None:
    work_queue = WorkQueue("P27", clock=clock)
    for _ in range(7):
        back_off(work_queue, clock, "bar")
    before = counted(work_queue)
    work_queue.add_rate_limited("foo")
    work_queue.add_rate_limited("bar")
    assert len(work_queue) == 0
    assert [delayed.due_in for delayed in work_queue.snapshot().delayed] == [0.005, 0.64]
    clock.advance(0.005)
    assert run(work_queue) == ["foo"]
    clock.advance(0.635)
    assert run(work_queue) == ["bar"]
    after = counted(work_queue)
    assert {name: after[name] - before[name] for name in ("adds", "retries")} == {"adds": 2, "retries": 2}


def test_blocked_getters_are_served_as_keys_become_due(clock: ManualClock, work_queue: WorkQueue) -> None:
    getters = [Background(work_queue.get) for _ in range(3)]
    wait_for_sleepers(clock, 3)
    for number in range(3):
        work_queue.add_after(number, 3 - number)
    results = []
    for _ in range(3):
        clock.advance(1)
        pause = threading.Event()
        while (ended := [getter for getter in getters if not getter.waits]) == []:
            pause.wait(0.001)
        for getter in ended:
            getters.remove(getter)
            results.append(getter.result())
    assert results == [2, 1, 0]


def test_delays_work_with_the_system_clock() -> None:
    work_queue = WorkQueue()
    work_queue.add_after("second", 0.02)
    work_queue.add_after("first", 0.01)
    assert [work_queue.get(timeout=20), work_queue.get(timeout=20)] == ["first", "second"]
    with pytest.raises(queue.Empty):
        work_queue.get(timeout=0.01)


def test_another_getter_takes_over_when_the_timing_getter_leaves() -> None:
    work_queue = WorkQueue()
    impatient = [Background(work_queue.get, 0.01) for _ in range(2)]
    work_queue.add_after("foo", 0.5)
    getters = [*impatient, Background(work_queue.get)]
    results = []
    for getter in getters:
        try:
            results.append(getter.result())
        except queue.Empty:
            results.append(None)
        else:
            # A late getter that takes this key leaves another one for the next getter.
            work_queue.add("again")
    assert results[-1] is not None


def test_a_new_earlier_deadline_wakes_the_timing_getter() -> None:
    work_queue = WorkQueue()
    work_queue.add_after("late", 3600)
    getters = [Background(work_queue.get) for _ in range(2)]
    work_queue.add_after("soon", 0.02)
    work_queue.add_after("sooner", 0.01)
    assert {getter.result() for getter in getters} == {"soon", "sooner"}
