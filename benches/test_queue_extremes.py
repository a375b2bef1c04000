"""The work queue with very many priorities, keys that were chosen to collide, and a look at very many keys.

All times are those of this process on a processor: another process does not change them.
"""

from __future__ import annotations

import gc
import random
import statistics
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from ctrlhost.workqueue import WorkQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.ratios import Ratios

ROUNDS = 5
PRIORITIES = 80_000
KEYS = 100_000
BATCH = 256
#: Keys of the page of a queue.
SHOWN = 100


def median(job: Callable[..., None], argument: Any) -> float:
    """Return the median of the processor seconds that the job takes with a new queue."""
    taken = []
    for _ in range(ROUNDS + 1):
        work_queue, start = WorkQueue(), time.process_time()
        job(work_queue, argument)
        taken.append(time.process_time() - start)
    return statistics.median(taken[1:])


@pytest.mark.behaviour("findings/FQ6")
def test_a_priority_of_its_own_for_each_key(ratios: Ratios) -> None:
    keys = [f"namespace/name-{number:06}" for number in range(PRIORITIES)]

    def add_and_drain(work_queue: WorkQueue, priorities: list[int]) -> None:
        for key, priority in zip(keys, priorities, strict=True):
            work_queue.add(key, priority=priority)
        while len(work_queue):
            work_queue.done_many(work_queue.get_batch(BATCH))

    own = random.Random(6).sample(range(PRIORITIES), PRIORITIES)
    taken = median(add_and_drain, own) / PRIORITIES
    five = median(add_and_drain, [priority % 5 for priority in own]) / PRIORITIES
    name = "80,000 keys with a priority each, added and drained, per key"
    ratios.add("queue", name, "s", taken, five_priorities=five)


@pytest.mark.behaviour("findings/FQ20")
def test_keys_that_collide_under_a_known_seed(ratios: Ratios) -> None:
    """Add keys that had one hash while the seed was the same in every process; `key_hash.rs` checks that they had."""

    def add(work_queue: WorkQueue, keys: list[str]) -> None:
        for key in keys:
            work_queue.add(key)

    name = "100,000 adds of keys that collide under a known seed, per key"
    chosen = [f"adxl-keybgru-key`sKZsf2dCVybemxC{number:08}aaaaaaaabbbbbbbb" for number in range(KEYS)]
    others = [f"namespace-of-the-other-keys/name{number:08}aaaaaaaabbbbbbbb" for number in range(KEYS)]
    taken, usual = median(add, chosen) / KEYS, median(add, others) / KEYS
    ratios.add("queue", name, "s", taken, other_keys=usual)


def stall(call: Callable[[], object]) -> float:
    """Return the longest processor time of `call` during which another thread did not run; the median of a few."""
    longest_waits = []
    for _ in range(ROUNDS):
        longest, over, runs = [0.0], threading.Event(), threading.Event()

        def watch(longest: list[float] = longest, over: threading.Event = over, runs: threading.Event = runs) -> None:
            last = time.process_time()
            while not over.is_set():
                runs.set()
                now = time.process_time()
                longest[0] = max(longest[0], now - last)
                last = now

        thread = threading.Thread(target=watch)
        thread.start()
        runs.wait()
        longest[0] = 0.0
        call()
        over.set()
        thread.join()
        longest_waits.append(longest[0])
    return statistics.median(longest_waits)


@pytest.mark.behaviour("findings/FQ18")
def test_a_look_at_100_000_keys(ratios: Ratios) -> None:
    """Take a snapshot of all keys, and what the page shows, beside a thread that runs Python all the time."""
    work_queue = WorkQueue()
    work_queue.add_many(f"namespace/name-{number:06}" for number in range(KEYS))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)
    # The objects of the test runner are many, and a pass of the garbage collector over them is no part of a snapshot.
    gc.collect()
    gc.freeze()
    try:
        ratios.add("queue", "snapshot of 100,000 keys: stall of another thread", "s", stall(work_queue.snapshot))
        page = stall(lambda: work_queue.summary(SHOWN))
        ratios.add("queue", "page of 100,000 keys: stall of another thread", "s", page)
    finally:
        gc.unfreeze()
        sys.setswitchinterval(interval)
    ratios.add("queue", "snapshot of 100,000 keys", "s", median(lambda *_: work_queue.snapshot() and None, None))
