"""Snapshots: every key by state, or the first ones with the numbers of all."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

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
