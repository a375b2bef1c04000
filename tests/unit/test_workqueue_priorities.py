"""Priorities: which key is handed out first, and what moves it."""

from __future__ import annotations

import queue
import random
import threading
from collections import defaultdict
from typing import Any

import pytest

from ctrlhost.queue_metrics import QueueCollector
from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import ShutDown, WorkQueue
from tests.unit.workqueue_threads import Background, asleep

behaviour = pytest.mark.behaviour
EXPECTED_ORDER = [10, 5, 0, -5, -10]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def work_queue(clock: ManualClock, request: pytest.FixtureRequest) -> WorkQueue:
    return WorkQueue(request.node.name, clock=clock)


def counted(work_queue: WorkQueue) -> dict[str, Any]:
    """Depth by priority, adds and retries of a queue, as a scrape gives them."""
    depth: dict[int, int] = {}
    numbers: dict[str, Any] = {"depth": depth}
    for family in QueueCollector(lambda name: name == work_queue.name).collect():
        for sample in family.samples:
            if sample.name == "workqueue_depth":
                depth[int(sample.labels["priority"])] = int(sample.value)
            elif sample.name in {"workqueue_adds_total", "workqueue_retries_total"}:
                numbers[sample.name.split("_")[1]] = int(sample.value)
    return numbers


def run(work_queue: WorkQueue) -> list[tuple[Any, int]]:
    """Process all that is queued."""
    taken = []
    while len(work_queue):
        taken.append(work_queue.get_with_priority())
        work_queue.done(taken[-1][0])
    return taken


@behaviour("workqueue/P1")
def test_one_key(work_queue: WorkQueue) -> None:
    work_queue.add("foo")
    assert work_queue.get() == "foo"
    assert counted(work_queue) == {"depth": {0: 0}, "adds": 1, "retries": 0}


@behaviour("workqueue/P2")
def test_keys_of_one_priority_come_in_the_order_of_adding(work_queue: WorkQueue) -> None:
    work_queue.add_many(["foo", "bar"])
    assert [work_queue.get(), work_queue.get()] == ["foo", "bar"]
    assert counted(work_queue) == {"depth": {0: 0}, "adds": 2, "retries": 0}


@behaviour("workqueue/P3")
def test_a_key_that_is_processed_is_not_handed_out(work_queue: WorkQueue) -> None:
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
def test_of_two_priorities_of_a_key_the_higher_one_stays(
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
def test_a_delayed_add_does_not_hold_back_a_queued_key(clock: ManualClock, work_queue: WorkQueue) -> None:
    # As decided: the delayed add stays, and is a run of its own in an hour.
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
    for _ in range(3):
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
def test_producers_and_consumers_at_random_break_no_promise(request: pytest.FixtureRequest) -> None:
    work_queue = WorkQueue(request.node.name)
    held: set[Any] = set()
    lock = threading.Lock()
    handed_out: dict[Any, int] = defaultdict(int)

    def produce(seed: int) -> None:
        random_ = random.Random(seed)
        for _ in range(1000):
            key, priority = random_.randrange(200), random_.randrange(10)
            delay = random_.choice([0, 0, 0.001, 0.01])
            work_queue.add_after(key, delay, priority=priority)

    def consume() -> None:
        while True:
            try:
                key, priority = work_queue.get_with_priority()
            except ShutDown:
                return
            with lock:
                assert key not in held
                assert 0 <= priority < 10
                held.add(key)
                handed_out[key] += 1
            with lock:
                held.remove(key)
            work_queue.done(key)

    consumers = [Background(consume) for _ in range(100)]
    for producer in [Background(produce, seed) for seed in range(10)]:
        producer.result()
    pause = threading.Event()
    while work_queue.snapshot() != ([], [], []):
        pause.wait(0.002)
    work_queue.shut_down()
    for consumer in consumers:
        consumer.result()
    assert len(handed_out) == 200
    numbers = counted(work_queue)
    assert set(numbers["depth"].values()) == {0}
    assert sum(handed_out.values()) == numbers["adds"] < 10_000


@pytest.mark.parametrize("delay", [-1, 0, 1])
@behaviour("workqueue/P18")
def test_keys_come_by_priority_and_in_order_within_one(clock: ManualClock, work_queue: WorkQueue, delay: float) -> None:
    for number in range(1000):
        for priority in (0, 10, -10, 5, -5):
            work_queue.add_after((priority, number), delay, priority=priority)
    clock.advance(1)
    taken = work_queue.get_batch(5000)
    assert taken == [(priority, number) for priority in EXPECTED_ORDER for number in range(1000)]
    numbers = counted(work_queue)
    # As decided: a retry is counted whatever the delay.
    assert (set(numbers["depth"].values()), numbers["adds"], numbers["retries"]) == ({0}, 5000, 5000)


@behaviour("workqueue/P19")
def test_a_getter_that_waits_gets_a_key_when_it_is_due(clock: ManualClock, work_queue: WorkQueue) -> None:
    getter = Background(work_queue.get)
    asleep(clock)
    work_queue.add_after("foo", 1)
    asleep(clock)
    assert getter.waits
    clock.advance(1)
    assert getter.result() == "foo"
    assert counted(work_queue) == {"depth": {0: 0}, "adds": 1, "retries": 1}


@behaviour("workqueue/P20")
def test_a_key_that_became_due_goes_before_lower_ones_that_were_there(clock: ManualClock) -> None:
    work_queue = WorkQueue("P20", clock=clock)
    work_queue.add("foo", priority=-100)
    work_queue.add_after("prio", 1, priority=0)
    clock.advance(1)
    assert work_queue.get_with_priority() == ("prio", 0)
    assert counted(work_queue) == {"depth": {-100: 1, 0: 0}, "adds": 2, "retries": 1}


@pytest.mark.parametrize(
    "delayed_first",
    [
        pytest.param(False, marks=behaviour("workqueue/P21")),
        pytest.param(True, marks=behaviour("workqueue/P22")),
    ],
)
def test_a_getter_that_waits_is_served_at_once(clock: ManualClock, work_queue: WorkQueue, delayed_first: bool) -> None:
    getter = Background(work_queue.get)
    asleep(clock)
    if delayed_first:
        work_queue.add_after("foo", 60)
        asleep(clock)
        assert getter.waits
    work_queue.add("foo")
    assert getter.result() == "foo"
    assert counted(work_queue)["depth"] == {0: 0}


@behaviour("workqueue/P23")
def test_a_getter_that_waits_gets_the_key_that_is_due_first(clock: ManualClock, work_queue: WorkQueue) -> None:
    getter = Background(work_queue.get)
    asleep(clock)
    work_queue.add_after("foo", 1)
    work_queue.add_after("bar", 0.2)
    clock.advance(1)
    assert getter.result() == "bar"
    assert work_queue.get() == "foo"
    assert counted(work_queue)["adds"] == 2


@behaviour("workqueue/P24")
def test_shut_down_ends_the_wait_of_a_getter(clock: ManualClock, work_queue: WorkQueue) -> None:
    getters = [Background(work_queue.get_with_priority) for _ in range(3)]
    asleep(clock, 3)
    work_queue.shut_down()
    for getter in getters:
        with pytest.raises(ShutDown):
            getter.result()


@behaviour("workqueue/P25")
def test_delayed_and_immediate_keys_add_up_round_after_round(clock: ManualClock, work_queue: WorkQueue) -> None:
    for _ in range(2):
        for key in ["foo", "bar"]:
            work_queue.add_after(key, 0.5)
        work_queue.add_many(["baz", "bal"])
        assert (len(work_queue), counted(work_queue)["depth"]) == (2, {0: 2})
        clock.advance(1)
        assert (len(work_queue), counted(work_queue)["depth"]) == (4, {0: 4})
        assert [key for key, _ in run(work_queue)] == ["baz", "bal", "foo", "bar"]
        assert (len(work_queue), counted(work_queue)["depth"]) == (0, {0: 0})


@behaviour("workqueue/P26")
def test_a_due_key_that_is_added_is_counted_once(clock: ManualClock, work_queue: WorkQueue) -> None:
    work_queue.add_after("foo", 0.05)
    clock.advance(0.05)
    assert (len(work_queue), counted(work_queue)["depth"]) == (1, {0: 1})
    work_queue.add("foo")
    assert (len(work_queue), counted(work_queue)["depth"]) == (1, {0: 1})
    assert work_queue.get() == "foo"
    assert (len(work_queue), counted(work_queue)["depth"]) == (0, {0: 0})


@behaviour("workqueue/P28")
def test_shut_down_in_the_middle_of_everything_stops_everybody() -> None:
    for seed in range(10):
        work_queue = WorkQueue()
        started = threading.Barrier(21)

        def loop(seed: int, work_queue: WorkQueue = work_queue, started: threading.Barrier = started) -> None:
            random_ = random.Random(seed)
            started.wait()
            while True:
                try:
                    work_queue.add(random_.randrange(50), priority=random_.randrange(10))
                    work_queue.done(work_queue.get())
                except ShutDown:
                    return

        threads = [Background(loop, 20 * seed + number) for number in range(20)]
        started.wait()
        work_queue.shut_down()
        for thread in threads:
            thread.result()


@behaviour("workqueue/P33")
def test_numbers_are_exact_under_threads(request: pytest.FixtureRequest) -> None:
    work_queue = WorkQueue(request.node.name)
    threads = [Background(work_queue.add, number) for number in range(200)]
    for thread in threads:
        thread.result()
    assert counted(work_queue) == {"depth": {0: 200}, "adds": 200, "retries": 0}


@behaviour("workqueue/P34")
def test_a_queue_with_very_many_keys_and_busy_workers_still_takes_adds() -> None:
    work_queue = WorkQueue()
    work_queue.add_many(range(100_000))
    assert len(work_queue.get_batch(1000)) == 1000
    for number in range(1000):
        work_queue.add(-1 - number, priority=1)
    assert len(work_queue) == 100_000
    assert work_queue.get() == -1


@behaviour("workqueue/X12")
def test_a_key_that_waited_does_not_overtake_those_that_were_queued(clock: ManualClock) -> None:
    work_queue = WorkQueue(clock=clock)
    work_queue.add_after("foo", 3600)
    work_queue.add_many(["a", "b"])
    work_queue.add("foo")
    assert work_queue.get_batch(3) == ["a", "b", "foo"]


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


def test_no_priority_keeps_what_a_queued_key_has_and_is_0_for_a_new_one() -> None:
    work_queue = WorkQueue()
    work_queue.add("foo", priority=-100)
    work_queue.add("foo")
    assert work_queue.get_with_priority() == ("foo", -100)
    work_queue.add("foo")
    work_queue.done("foo")
    assert work_queue.get_with_priority() == ("foo", 0)


def test_a_key_added_again_while_processed_gets_the_highest_priority_it_was_added_with() -> None:
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


def test_the_extreme_priorities_are_fine() -> None:
    work_queue = WorkQueue()
    for priority in (-(2**31), 0, 2**31 - 1):
        work_queue.add(priority, priority=priority)
    assert work_queue.get_batch(3) == [2**31 - 1, 0, -(2**31)]


def test_any_number_of_priorities_comes_in_order() -> None:
    work_queue = WorkQueue()
    priorities = list(range(2000))
    random.Random(1).shuffle(priorities)
    for priority in priorities:
        work_queue.add(priority, priority=priority)
    assert work_queue.get_batch(2000) == sorted(priorities, reverse=True)
    with pytest.raises(queue.Empty):
        work_queue.get_nowait()
