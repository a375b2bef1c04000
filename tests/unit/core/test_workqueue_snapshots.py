"""Snapshots: every key by state, or the first ones with the numbers of all."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import WorkQueue

behaviour = pytest.mark.behaviour


def busy(clock: ManualClock) -> WorkQueue:
    work_queue = WorkQueue(clock=clock)
    work_queue.add_many(["running", "again"])
    work_queue.get()
    clock.advance(1)
    work_queue.get()
    work_queue.add("again", priority=4)
    work_queue.add_many(["x", "y"])
    clock.advance(1)
    work_queue.add("z", priority=2)
    work_queue.add_after("later", 60, priority=3)
    work_queue.add_rate_limited("failed")
    return work_queue


def test_a_snapshot_lists_every_key_by_state(clock: ManualClock) -> None:
    snapshot = busy(clock).snapshot()
    assert [tuple(key) for key in snapshot.queued] == [("z", 2, 0.0, 0), ("x", 0, 1.0, 0), ("y", 0, 1.0, 0)]
    assert [tuple(key) for key in snapshot.processing] == [("running", 2.0, None, 0), ("again", 1.0, 4, 0)]
    assert [tuple(key) for key in snapshot.delayed] == [("failed", 0.005, None, True, 1), ("later", 60.0, 3, False, 0)]
    assert snapshot.delayed[0].key == "failed"


def test_a_snapshot_of_very_many_keys_is_complete() -> None:
    work_queue = WorkQueue()
    keys = list(range(20_000))
    work_queue.add_many(keys)
    assert [queued.key for queued in work_queue.snapshot().queued] == keys


@behaviour("findings/FQ18")
@pytest.mark.parametrize("limit", [0, 1, 2, 3])
def test_a_summary_counts_all_keys_and_lists_the_first_ones(clock: ManualClock, limit: int) -> None:
    work_queue = busy(clock)
    whole = work_queue.snapshot()
    summary = work_queue.summary(limit)
    assert (summary.queued, summary.processing, summary.delayed) == (3, 2, 2)
    assert summary.first == tuple(part[:limit] for part in whole)


def test_a_summary_lists_a_hundred_keys_by_default() -> None:
    work_queue = WorkQueue()
    for number in range(1000):
        work_queue.add(number, priority=number % 7)
    summary = work_queue.summary()
    assert summary.queued == 1000
    assert summary.first.queued == [
        queued._replace(age=summary.first.queued[place].age)
        for place, queued in enumerate(work_queue.snapshot().queued[:100])
    ]
    with pytest.raises(ValueError, match="limit must not be negative, got -1"):
        work_queue.summary(-1)


@pytest.fixture
def no_switches() -> Iterator[None]:
    """Set a switch interval so long that threads switch only where one releases the interpreter by itself."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(interval)


@behaviour("findings/FQ18")
@pytest.mark.usefixtures("no_switches")
def test_other_threads_run_during_a_snapshot() -> None:
    work_queue = WorkQueue()
    work_queue.add_many(range(20_000))
    inside, seen, over = threading.Event(), threading.Event(), threading.Event()

    def watch() -> None:
        while not over.is_set():
            if inside.is_set():
                seen.set()
            over.wait(0.0001)

    thread = threading.Thread(target=watch)
    thread.start()
    tries = 0
    while not seen.is_set() and tries < 100:
        tries += 1
        inside.set()
        work_queue.snapshot()
        inside.clear()
    over.set()
    thread.join()
    assert seen.is_set()


@pytest.mark.parametrize("part", ["queued", "processing", "delayed"])
def test_the_pages_of_a_part_have_the_keys_of_a_snapshot(clock: ManualClock, part: Literal["queued"]) -> None:
    work_queue = busy(clock)
    whole = getattr(work_queue.snapshot(), part)
    seen, after = [], None
    while True:
        page = work_queue.page(part, 1, after)
        assert page.total == len(whole)
        seen += page.keys
        if (after := page.next) is None:
            break
    assert sorted(seen) == sorted(whole)
    assert len(seen) == len(whole)


def test_a_page_goes_on_where_its_last_key_was_although_that_has_left(clock: ManualClock) -> None:
    work_queue = WorkQueue(clock=clock)
    for number in range(6):
        work_queue.add(number)
        clock.advance(1)
    page = work_queue.page("queued", 2)
    assert [key.key for key in page.keys] == [0, 1]
    for _ in range(3):
        work_queue.get()
    assert [key.key for key in work_queue.page("queued", 2, page.next).keys] == [3, 4]
    assert [key.key for key in work_queue.page("processing", 9).keys] == [0, 1, 2]


def test_the_delayed_keys_of_a_page_are_the_next_ones(clock: ManualClock) -> None:
    work_queue = WorkQueue(clock=clock)
    for number in (5, 3, 8, 1, 9, 2):
        work_queue.add_after(number, number)
    first = work_queue.page("delayed", 4)
    assert [key.key for key in first.keys] == [1, 2, 3, 5]
    assert [key.key for key in work_queue.page("delayed", 4, first.next).keys] == [8, 9]
    assert work_queue.page("delayed", 6).next is None


def test_a_page_has_no_unknown_part_and_no_invalid_cursor() -> None:
    work_queue: Any = WorkQueue()
    with pytest.raises(ValueError, match="part must be queued, processing or delayed, got failing"):
        work_queue.page("failing")
    with pytest.raises(ValueError, match="invalid cursor x-1"):
        work_queue.page("queued", 1, "x-1")


def test_the_state_of_a_key_says_where_it_is(clock: ManualClock) -> None:
    work_queue = busy(clock)
    assert work_queue.look("y") == ((("y", 0, 1.0, 0)), None, None, 2)
    assert work_queue.look("z").ahead == 0
    assert work_queue.look("again").processing == ("again", 1.0, 4, 0)
    assert work_queue.look("failed") == (None, None, ("failed", 0.005, None, True, 1), None)
    assert work_queue.look("unknown") == (None, None, None, None)
    assert [work_queue.waited(key) for key in ("again", "y", "failed", "unknown")] == [0.0] * 4
    work_queue.add("failed")
    assert work_queue.look("failed").queued == ("failed", 0, 0.0, 1)
    fair = WorkQueue(fair_by="namespace")
    fair.add_many(["a/1", "a/2"])
    assert fair.look("a/2").ahead is None


def test_the_place_of_a_key_far_behind_is_not_counted() -> None:
    work_queue = WorkQueue()
    work_queue.add_many(list(range(10_000)))
    assert work_queue.look(4000).ahead == 4000
    assert work_queue.look(9000).ahead is None


def test_how_long_a_key_was_queued_before_it_was_handed_out(clock: ManualClock) -> None:
    work_queue = WorkQueue(clock=clock)
    work_queue.add("a")
    clock.advance(3)
    assert work_queue.waited("a") == 0.0
    work_queue.get()
    clock.advance(5)
    assert work_queue.waited("a") == 3.0
    work_queue.add("a")
    assert work_queue.waited("a") == 0.0
