"""Priorities: the order of keys, and changes of it."""

from __future__ import annotations

import queue
import random
import threading
from collections import defaultdict
from typing import Any

import pytest

from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import ShutDown, WorkQueue
from tests.support.workqueue_threads import Background
from tests.unit.core.counted_queues import counted, run

behaviour = pytest.mark.behaviour
EXPECTED_ORDER = [10, 5, 0, -5, -10]


@behaviour("workqueue/P1")
def test_one_key(work_queue: WorkQueue) -> None:
    work_queue.add("foo")
    assert work_queue.get() == "foo"
    assert counted(work_queue) == {"depth": {0: 0}, "adds": 1, "retries": 0}


@behaviour("workqueue/P2")
def test_keys_of_one_priority_are_handed_out_in_order(work_queue: WorkQueue) -> None:
    work_queue.add_many(["foo", "bar"])
    assert [work_queue.get(), work_queue.get()] == ["foo", "bar"]
    assert counted(work_queue) == {"depth": {0: 0}, "adds": 2, "retries": 0}


@behaviour("workqueue/P3")
def test_a_key_in_process_is_not_handed_out(work_queue: WorkQueue) -> None:
    work_queue.add("foo")
    assert work_queue.get() == "foo"
    work_queue.add("foo")
    work_queue.add("bar")
    assert work_queue.get() == "bar"
    assert counted(work_queue) == {"depth": {0: 1}, "adds": 3, "retries": 0}


@behaviour("workqueue/P5")
def test_a_key_added_twice_is_queued_once(work_queue: WorkQueue) -> None:
    work_queue.add("foo")
    work_queue.add("foo")
    assert len(work_queue) == 1
    assert work_queue.snapshot().processing == []
    assert counted(work_queue) == {"depth": {0: 1}, "adds": 1, "retries": 0}


@pytest.mark.parametrize(
    ("priorities", "depth"),
    [
        pytest.param((1, 2), {1: 0, 2: 0}, marks=behaviour("workqueue/P7")),
        pytest.param((2, 1), {2: 0}, marks=behaviour("workqueue/P8")),
    ],
)
def test_the_higher_of_two_priorities_of_a_key_stays(
    work_queue: WorkQueue, priorities: tuple[int, int], depth: dict[int, int]
) -> None:
    for priority in priorities:
        work_queue.add("foo", priority=priority)
    assert work_queue.get_with_priority() == ("foo", 2)
    assert len(work_queue) == 0
    assert counted(work_queue) == {"depth": depth, "adds": 1, "retries": 0}


@behaviour("workqueue/P9")
def test_a_raised_key_overtakes_the_lower_ones(work_queue: WorkQueue) -> None:
    work_queue.add_many(["foo", "bar", "baz"])
    work_queue.add("baz", priority=1)
    assert work_queue.get_with_priority() == ("baz", 1)
    assert len(work_queue) == 2
    assert counted(work_queue) == {"depth": {0: 2, 1: 0}, "adds": 3, "retries": 0}


@behaviour("workqueue/P10")
def test_a_delayed_add_does_not_delay_a_queued_key(clock: ManualClock, work_queue: WorkQueue) -> None:
    # As decided: the delayed add stays, and is a separate run in an hour.
    work_queue.add_after("foo", 0)
    work_queue.add_after("foo", 3600)
    assert work_queue.get_with_priority() == ("foo", 0)
    work_queue.done("foo")
    assert len(work_queue) == 0
    assert counted(work_queue) == {"depth": {0: 0}, "adds": 1, "retries": 2}
    clock.advance(3600)
    assert run(work_queue) == [("foo", 0)]


@behaviour("workqueue/P11")
def test_delayed_keys_do_not_count_as_queued(work_queue: WorkQueue) -> None:
    work_queue.add_after("foo", 60)
    work_queue.add_after("bar", 60)
    work_queue.add_many(["baz", "bal"])
    assert len(work_queue) == 2
    assert counted(work_queue)["depth"] == {0: 2}


@behaviour("workqueue/P13")
def test_a_hundred_getters_empty_a_queue_of_all_priorities_and_delays() -> None:
    random_ = random.Random(13)
    for _ in range(20):
        work_queue = WorkQueue()
        for number in range(1000):
            if number % 10 == 0:
                work_queue.add_after(number, random_.randrange(10) / 1000)
            else:
                work_queue.add(number, priority=random_.randrange(100))

        def take_ten(work_queue: WorkQueue = work_queue) -> list[Any]:
            return [work_queue.get(timeout=30) for _ in range(10)]

        getters = [Background(take_ten) for _ in range(100)]
        assert sorted(key for getter in getters for key in getter.result()) == list(range(1000))


@pytest.mark.parametrize(
    ("delayed_priority", "priority"),
    [
        pytest.param(None, None, marks=behaviour("workqueue/P14")),
        pytest.param(0, 1, marks=behaviour("workqueue/P15")),
    ],
)
def test_an_immediate_add_of_a_delayed_key_queues_it(
    work_queue: WorkQueue, delayed_priority: int | None, priority: int | None
) -> None:
    work_queue.add_after("foo", 3600, priority=delayed_priority)
    assert len(work_queue) == 0
    assert counted(work_queue)["depth"] == {}
    work_queue.add("foo", priority=priority)
    assert len(work_queue) == 1
    assert counted(work_queue)["depth"] == {priority or 0: 1}
    assert work_queue.get_with_priority() == ("foo", priority or 0)
    assert len(work_queue) == 0
    assert counted(work_queue)["depth"] == {priority or 0: 0}


@behaviour("workqueue/P16")
def test_a_raised_key_goes_behind_its_new_peers(work_queue: WorkQueue) -> None:
    work_queue.add("foo", priority=0)
    work_queue.add("bar", priority=1)
    work_queue.add("foo", priority=1)
    assert len(work_queue) == 2
    assert work_queue.get_with_priority() == ("bar", 1)
    assert len(work_queue) == 1
    assert work_queue.get_with_priority() == ("foo", 1)
    assert len(work_queue) == 0


@behaviour("workqueue/P17")
def test_random_producers_and_consumers_keep_the_guarantees(request: pytest.FixtureRequest) -> None:
    work_queue = WorkQueue(request.node.name)
    held: set[Any] = set()
    lock = threading.Lock()
    handed_out: dict[Any, int] = defaultdict(int)
    added: dict[Any, set[int]] = {key: set() for key in range(200)}
    # The highest priority that a key was added with, without delay, since it was last handed out.
    highest: dict[Any, int] = {}

    def produce(seed: int) -> None:
        random_ = random.Random(seed)
        for _ in range(1000):
            key, priority = random_.randrange(200), random_.randrange(10)
            delay = random_.choice([0, 0, 0.001, 0.01])
            with lock:
                added[key].add(priority)
                work_queue.add_after(key, delay, priority=priority)
                if delay == 0:
                    highest[key] = max(priority, highest.get(key, 0))

    def take() -> None:
        """Take keys one at a time with the producers, so that the highest priority is known."""
        while True:
            try:
                with lock:
                    key, priority = work_queue.get_with_priority(timeout=0)
                    # A delayed add of a higher priority may be due by now.
                    assert priority >= highest.pop(key, 0)
                    begin(key, priority)
            except queue.Empty:
                pause.wait(0.001)
                continue
            except ShutDown:
                return
            end(key)

    def wait() -> None:
        while True:
            try:
                key, priority = work_queue.get_with_priority()
            except ShutDown:
                return
            with lock:
                # What was added after the key was handed out is lost here, so `take` checks too little, never too much.
                highest.pop(key, None)
                begin(key, priority)
            end(key)

    def begin(key: Any, priority: int) -> None:
        assert key not in held
        assert priority in added[key]
        held.add(key)
        handed_out[key] += 1

    def end(key: Any) -> None:
        # Some work, during which no other consumer may get the key.
        assert sum(range(500)) == 124_750
        with lock:
            held.remove(key)
        work_queue.done(key)

    pause = threading.Event()
    consumers = [Background(consume) for consume in (take, wait) * 50]
    for producer in [Background(produce, seed) for seed in range(10)]:
        producer.result()
    while work_queue.snapshot() != ([], [], []):
        assert min(counted(work_queue)["depth"].values(), default=0) >= 0
        pause.wait(0.002)
    work_queue.shut_down()
    for consumer in consumers:
        consumer.result()
    assert len(handed_out) == 200
    numbers = counted(work_queue)
    assert set(numbers["depth"].values()) == {0}
    assert sum(handed_out.values()) == numbers["adds"] < 10_000


def test_a_missing_priority_keeps_that_of_a_queued_key_and_is_0_for_a_new_one() -> None:
    work_queue = WorkQueue()
    work_queue.add("foo", priority=-100)
    work_queue.add("foo")
    assert work_queue.get_with_priority() == ("foo", -100)
    work_queue.add("foo")
    work_queue.done("foo")
    assert work_queue.get_with_priority() == ("foo", 0)


def test_a_key_added_while_processing_gets_its_highest_priority() -> None:
    work_queue = WorkQueue()
    work_queue.add("foo", priority=50)
    work_queue.get()
    for priority in (-3, 7, 2):
        work_queue.add("foo", priority=priority)
    work_queue.done("foo")
    assert work_queue.get_with_priority() == ("foo", 7)


@pytest.mark.parametrize(
    ("priority", "error"),
    [(2**31, OverflowError), (-(2**31) - 1, OverflowError), (10**40, OverflowError)]
    + [(wrong, TypeError) for wrong in (1.0, "1", True, ())],
)
def test_a_priority_is_an_int_of_32_bits(priority: Any, error: type) -> None:
    work_queue = WorkQueue()
    for add in (work_queue.add, work_queue.add_rate_limited):
        with pytest.raises(error):
            add("foo", priority=priority)
    with pytest.raises(error):
        work_queue.add_after("foo", 1, priority=priority)
    with pytest.raises(error):
        work_queue.add_many(["foo"], priority=priority)
    assert work_queue.snapshot() == ([], [], [])


def test_the_extreme_priorities_are_accepted() -> None:
    work_queue = WorkQueue()
    for priority in (-(2**31), 0, 2**31 - 1):
        work_queue.add(priority, priority=priority)
    assert work_queue.get_batch(3) == [2**31 - 1, 0, -(2**31)]


def test_any_number_of_priorities_is_ordered() -> None:
    work_queue = WorkQueue()
    priorities = list(range(2000))
    random.Random(1).shuffle(priorities)
    for priority in priorities:
        work_queue.add(priority, priority=priority)
    assert work_queue.get_batch(2000) == sorted(priorities, reverse=True)
    with pytest.raises(queue.Empty):
        work_queue.get_nowait()
