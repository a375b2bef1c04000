"""The base of the work queue: order, deduplication, adds while processing, shutdown, drain."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from typing import Any

import pytest

from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import ShutDown, WorkQueue
from tests.support.workqueue_threads import Background, wait_for_sleepers

behaviour = pytest.mark.behaviour


def end(work_queue: WorkQueue, how: str) -> None:
    if how == "drain":
        assert work_queue.shut_down_with_drain() is True
    else:
        work_queue.shut_down()


@pytest.mark.parametrize(
    ("how", "again"),
    [
        pytest.param("shut_down", False, marks=behaviour("workqueue/Q1")),
        pytest.param("drain", False, marks=behaviour("workqueue/Q2")),
        pytest.param("shut_down", True, marks=behaviour("workqueue/Q3")),
        pytest.param("drain", True, marks=behaviour("workqueue/Q4")),
    ],
)
def test_many_producers_and_consumers_end_at_shutdown(how: str, again: bool) -> None:
    """With `again`, a consumer adds each key once more."""
    work_queue = WorkQueue()
    seen: Counter[Any] = Counter()
    lock = threading.Lock()

    def produce(number: int) -> None:
        for _ in range(1 if again else 50):
            work_queue.add(number)

    def consume() -> None:
        while True:
            try:
                key = work_queue.get()
            except ShutDown:
                return
            with lock:
                seen[key] += 1
                first = seen[key] == 1
            if again and first:
                work_queue.add(key)
            work_queue.done(key)

    consumers = [Background(consume) for _ in range(10)]
    for producer in [Background(produce, number) for number in range(50)]:
        producer.result()
    end(work_queue, how)
    work_queue.add("sentinel")
    for consumer in consumers:
        consumer.result()
    assert set(seen) == set(range(50))
    assert not again or max(seen.values()) <= 2
    assert len(work_queue) == 0


@behaviour("workqueue/Q8")
def test_a_key_added_again_waits_for_its_run_to_end() -> None:
    clock = ManualClock()
    work_queue = WorkQueue(clock=clock)
    work_queue.add("foo")
    work_queue.get()
    work_queue.add("foo")
    work_queue.add("foo")
    getter = Background(work_queue.get)
    wait_for_sleepers(clock)
    assert getter.waits
    work_queue.done("foo")
    assert getter.result() == "foo"
    work_queue.done("foo")
    assert len(work_queue) == 0


def two_in_process() -> tuple[WorkQueue, ManualClock]:
    clock = ManualClock()
    work_queue = WorkQueue(clock=clock)
    work_queue.add_many(["foo", "bar"])
    assert work_queue.get_batch(2) == ["foo", "bar"]
    return work_queue, clock


@behaviour("workqueue/Q9")
def test_a_drain_waits_for_keys_in_process() -> None:
    work_queue, clock = two_in_process()
    drain = Background(work_queue.shut_down_with_drain)
    wait_for_sleepers(clock)
    with pytest.raises(ShutDown):
        work_queue.get()
    work_queue.done("foo")
    wait_for_sleepers(clock)
    assert drain.waits
    work_queue.done("bar")
    assert drain.result() is True


@behaviour("workqueue/Q10")
def test_shut_down_does_not_wait_for_keys_in_process() -> None:
    work_queue, _ = two_in_process()
    work_queue.shut_down()
    assert work_queue.shutting_down


@behaviour("workqueue/Q11")
@behaviour("workqueue/X6")
def test_shut_down_ends_a_drain_that_would_wait_forever() -> None:
    work_queue, clock = two_in_process()
    work_queue.shut_down()
    drain = Background(work_queue.shut_down_with_drain)
    wait_for_sleepers(clock)
    with pytest.raises(ShutDown):
        work_queue.get()
    work_queue.shut_down()
    assert drain.result() is False


@behaviour("findings3/NC3")
@pytest.mark.parametrize("first", ["shut_down", "shut_down_with_drain"])
def test_a_second_shutdown_ends_getters_that_wait_for_a_stuck_worker(first: str) -> None:
    work_queue, clock = two_in_process()
    work_queue.add("foo")
    ending = Background(getattr(work_queue, first))
    getters = [Background(work_queue.get), Background(work_queue.get_batch, 2)]
    # The drain waits, too.
    wait_for_sleepers(clock, 2 if first == "shut_down" else 3)
    assert all(getter.waits for getter in getters)
    work_queue.shut_down()
    for getter in getters:
        with pytest.raises(ShutDown):
            getter.result()
    assert not ending.result()
    with pytest.raises(ShutDown):
        work_queue.get()
    # The worker returns after all: what was added again is not lost.
    work_queue.done("foo")
    assert work_queue.get() == "foo"


@behaviour("workqueue/Q12")
def test_a_getter_waits_during_a_drain_for_a_key_that_will_be_queued_again() -> None:
    # As decided: upstream's getter times out here, and gets the key only with another call.
    clock = ManualClock()
    work_queue = WorkQueue(clock=clock)
    work_queue.add("foo")
    work_queue.get()
    work_queue.add("foo")
    drain = Background(work_queue.shut_down_with_drain)
    wait_for_sleepers(clock)
    getters = [Background(work_queue.get), Background(work_queue.get)]
    wait_for_sleepers(clock, 3)
    work_queue.done("foo")
    results = []
    for getter in getters:
        try:
            results.append(getter.result())
        except ShutDown:
            results.append("shut down")
    assert sorted(results) == ["foo", "shut down"]
    assert drain.waits
    work_queue.done("foo")
    assert drain.result() is True
    with pytest.raises(ShutDown):
        work_queue.get()


@behaviour("workqueue/X3")
def test_two_drains_both_return() -> None:
    work_queue, clock = two_in_process()
    drains = [Background(work_queue.shut_down_with_drain) for _ in range(2)]
    wait_for_sleepers(clock, 2)
    work_queue.done_many(["foo", "bar"])
    assert [drain.result() for drain in drains] == [True, True]


@behaviour("workqueue/X4")
def test_a_drain_waits_for_keys_not_yet_taken() -> None:
    clock = ManualClock()
    work_queue = WorkQueue(clock=clock)
    work_queue.add_many(["foo", "bar"])
    drain = Background(work_queue.shut_down_with_drain)
    wait_for_sleepers(clock)
    assert work_queue.get() == "foo"
    work_queue.done("foo")
    wait_for_sleepers(clock)
    assert drain.waits
    assert work_queue.get() == "bar"
    work_queue.done("bar")
    assert drain.result() is True


@behaviour("workqueue/X5")
def test_a_drain_ends_at_its_timeout_and_a_snapshot_lists_the_remaining_keys() -> None:
    work_queue, clock = two_in_process()
    work_queue.done("bar")
    drain = Background(work_queue.shut_down_with_drain, 30)
    wait_for_sleepers(clock)
    clock.advance(29)
    wait_for_sleepers(clock)
    assert drain.waits
    clock.advance(1)
    assert drain.result() is False
    assert [held.key for held in work_queue.snapshot().processing] == ["foo"]


@behaviour("workqueue/X16")
def test_a_getter_that_times_out_consumes_neither_a_key_nor_a_wake_up() -> None:
    for _ in range(200):
        clock = ManualClock()
        work_queue = WorkQueue(clock=clock)
        timed, patient = Background(work_queue.get, 1), Background(work_queue.get)
        wait_for_sleepers(clock, 2)
        stepper = Background(clock.advance, 1)
        work_queue.add("foo")
        stepper.result()
        try:
            first = timed.result()
        except queue.Empty:
            first = None
        if first is not None:
            work_queue.add("bar")
        assert patient.result() == ("bar" if first else "foo")


@behaviour("workqueue/X18")
def test_a_reader_gets_five_words_in_order_and_then_shutdown() -> None:
    clock = ManualClock()
    work_queue = WorkQueue(clock=clock)
    words = ["this", "is", "a", "complete", "sentence"]
    read: list[str] = []

    def write() -> None:
        clock.wait(threading.Event(), 1)
        for word in words:
            work_queue.add(word)
        work_queue.shut_down()

    def reader() -> str:
        clock.wait(threading.Event(), 3)
        while True:
            try:
                word = work_queue.get()
            except ShutDown:
                return "shut down"
            read.append(word)
            work_queue.done(word)

    threads = [Background(write), Background(reader)]
    wait_for_sleepers(clock, 2)
    clock.advance(1)
    threads[0].result()
    clock.advance(2)
    assert threads[1].result() == "shut down"
    assert read == words


def test_batches_take_the_available_keys() -> None:
    work_queue = WorkQueue()
    work_queue.add_many(["a", "b", "c", "a"])
    assert work_queue.get_batch(2) == ["a", "b"]
    assert work_queue.get_batch(10) == ["c"]
    with pytest.raises(queue.Empty):
        work_queue.get_batch(1, timeout=0)
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="max_items must be at least 1"):
            work_queue.get_batch(wrong)
    work_queue.done_many(["a", "b", "c"])
    assert work_queue.snapshot().processing == []
    work_queue.shut_down()
    with pytest.raises(ShutDown):
        work_queue.get_batch(1)


def test_a_batch_waits_only_when_the_queue_is_empty() -> None:
    clock = ManualClock()
    work_queue = WorkQueue(clock=clock)
    batch = Background(work_queue.get_batch, 10)
    wait_for_sleepers(clock)
    work_queue.add("a")
    assert batch.result() == ["a"]


def test_timeouts_use_the_clock_of_the_queue() -> None:
    clock = ManualClock()
    work_queue = WorkQueue(clock=clock)
    getter = Background(work_queue.get, 5)
    wait_for_sleepers(clock)
    clock.advance(4.5)
    wait_for_sleepers(clock)
    assert getter.waits
    clock.advance(0.5)
    with pytest.raises(queue.Empty):
        getter.result()
