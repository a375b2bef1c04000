"""Priorities of delayed keys, and of keys for blocked getters."""

from __future__ import annotations

import queue
import random
import threading

import pytest

from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import ItemExponentialFailureRateLimiter, ShutDown, WorkQueue
from tests.support.workqueue_threads import Background, wait_for_sleepers
from tests.unit.core.counted_queues import counted

behaviour = pytest.mark.behaviour
EXPECTED_ORDER = [10, 5, 0, -5, -10]


@pytest.mark.parametrize("delay", [-1, 0, 1])
@behaviour("workqueue/P18")
@behaviour("findings3/NC1")
def test_keys_are_ordered_by_priority_and_then_by_insertion(
    clock: ManualClock, work_queue: WorkQueue, delay: float
) -> None:
    for number in range(1000):
        for priority in (0, 10, -10, 5, -5):
            work_queue.add_after((priority, number), delay, priority=priority)
    clock.advance(1)
    taken = work_queue.get_batch(5000)
    assert taken == [(priority, number) for priority in EXPECTED_ORDER for number in range(1000)]
    numbers = counted(work_queue)
    retries = 5000 if delay > 0 else 0
    assert (set(numbers["depth"].values()), numbers["adds"], numbers["retries"]) == ({0}, 5000, retries)


@behaviour("workqueue/P20")
@behaviour("findings3/NC1")
def test_only_an_add_that_waits_is_a_retry(clock: ManualClock) -> None:
    work_queue = WorkQueue("P20", clock=clock, rate_limiter=ItemExponentialFailureRateLimiter(0, 0))
    work_queue.add_after("foo", 1, priority=1)
    for delay in (0, -1, 0.0):
        work_queue.add_after("bar", delay, priority=0)
    # A limiter that wants no delay, too.
    work_queue.add_rate_limited("baz")
    assert counted(work_queue) == {"depth": {0: 2}, "adds": 2, "retries": 1}
    clock.advance(1)
    assert work_queue.get_batch(3) == ["foo", "bar", "baz"]
    assert counted(work_queue)["retries"] == 1


@behaviour("workqueue/P19")
def test_a_blocked_getter_gets_a_key_when_it_is_due(clock: ManualClock, work_queue: WorkQueue) -> None:
    getter = Background(work_queue.get)
    wait_for_sleepers(clock)
    work_queue.add_after("foo", 1)
    wait_for_sleepers(clock)
    assert getter.waits
    # The timer is set to exactly 1 s: a moment before, the getter still sleeps.
    clock.advance(0.9375)
    wait_for_sleepers(clock)
    assert getter.waits
    assert counted(work_queue) == {"depth": {}, "adds": 0, "retries": 1}
    clock.advance(0.0625)
    assert getter.result() == "foo"
    assert counted(work_queue) == {"depth": {0: 0}, "adds": 1, "retries": 1}


@pytest.mark.parametrize(
    "delayed_first",
    [
        pytest.param(False, marks=behaviour("workqueue/P21")),
        pytest.param(True, marks=behaviour("workqueue/P22")),
    ],
)
def test_a_blocked_getter_is_served_at_once(clock: ManualClock, work_queue: WorkQueue, delayed_first: bool) -> None:
    getter = Background(work_queue.get)
    wait_for_sleepers(clock)
    if delayed_first:
        work_queue.add_after("foo", 60)
        wait_for_sleepers(clock)
        assert getter.waits
    work_queue.add("foo")
    assert getter.result() == "foo"
    assert counted(work_queue) == {"depth": {0: 0}, "adds": 1, "retries": int(delayed_first)}


@behaviour("workqueue/P23")
@pytest.mark.parametrize("steps", [[1], [0.125, 0.125]])
def test_a_blocked_getter_gets_the_key_that_is_due_first(
    clock: ManualClock, work_queue: WorkQueue, steps: list[float]
) -> None:
    getter = Background(work_queue.get)
    wait_for_sleepers(clock)
    work_queue.add_after("foo", 1)
    work_queue.add_after("bar", 0.2)
    assert getter.waits
    for seconds in steps:
        wait_for_sleepers(clock)
        clock.advance(seconds)
    assert getter.result() == "bar"
    if steps != [1]:
        # Only the key that is due came; the other one keeps its own time.
        with pytest.raises(queue.Empty):
            work_queue.get_nowait()
        clock.advance(0.8)
    assert work_queue.get() == "foo"
    assert counted(work_queue)["adds"] == 2


@behaviour("workqueue/P24")
def test_shut_down_releases_a_blocked_getter(clock: ManualClock, work_queue: WorkQueue) -> None:
    getters = [Background(work_queue.get_with_priority) for _ in range(3)]
    wait_for_sleepers(clock, 3)
    work_queue.shut_down()
    for getter in getters:
        with pytest.raises(ShutDown):
            getter.result()


@behaviour("workqueue/P28")
def test_shut_down_under_load_stops_all_threads() -> None:
    for seed in range(50):
        work_queue = WorkQueue()
        loaded = threading.Semaphore(0)

        def loop(seed: int, work_queue: WorkQueue = work_queue, loaded: threading.Semaphore = loaded) -> None:
            random_ = random.Random(seed)
            while True:
                try:
                    work_queue.add(random_.randrange(50), priority=random_.randrange(10))
                    work_queue.done(work_queue.get())
                except ShutDown:
                    return
                loaded.release()

        threads = [Background(loop, 20 * seed + number) for number in range(20)]
        for _ in range(20):
            assert loaded.acquire(timeout=20)
        work_queue.shut_down()
        # Each call must return within 20 s.
        for thread in threads:
            thread.result()


@behaviour("workqueue/P33")
def test_metrics_are_exact_under_threads(request: pytest.FixtureRequest) -> None:
    work_queue = WorkQueue(request.node.name)
    threads = [Background(work_queue.add, number) for number in range(200)]
    for thread in threads:
        thread.result()
    assert counted(work_queue) == {"depth": {0: 200}, "adds": 200, "retries": 0}


@behaviour("workqueue/P34")
def test_a_large_queue_with_busy_workers_still_accepts_adds() -> None:
    work_queue = WorkQueue()
    # `benches/test_queue.py` measures it.
    work_queue.add_many(range(1_000_000))
    assert len(work_queue.get_batch(1000)) == 1000
    for number in range(1000):
        work_queue.add(-1 - number, priority=1)
    assert len(work_queue) == 1_000_000
    assert work_queue.get() == -1


@behaviour("workqueue/X13")
def test_a_second_shut_down_is_harmless() -> None:
    work_queue = WorkQueue()
    work_queue.add("foo", priority=3)
    work_queue.shut_down()
    work_queue.shut_down()
    assert work_queue.get_with_priority() == ("foo", 3)
    work_queue.done("foo")
    assert work_queue.shut_down_with_drain() is True
    work_queue.shut_down()
