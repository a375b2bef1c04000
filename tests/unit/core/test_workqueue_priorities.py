"""Priorities: the order of keys, and changes of it."""

from __future__ import annotations

import queue
import random
import threading
from collections import defaultdict
from typing import Any

import pytest

from ctrlhost.workqueue import ShutDown, WorkQueue
from tests.support.workqueue_threads import Background
from tests.unit.core.counted_queues import counted

behaviour = pytest.mark.behaviour


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
