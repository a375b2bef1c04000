"""The processor time of a status sample, which must depend neither on objects nor on the length of queues.

The row is operations/OP66.
"""

from __future__ import annotations

import statistics
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ctrlhost.controller.metrics import ControllerCounts
from ctrlhost.status.samples import PERIOD, Samples
from ctrlhost.workqueue import WorkQueue

if TYPE_CHECKING:
    from benches.ratios import Ratios

CONTROLLERS, WORKERS = 50, 4
KEYS = 100_000


def test_sample_of_fifty_controllers(ratios: Ratios) -> None:
    """Both kinds of queues take turns, since the speed of a machine drifts."""
    rounds = 60 if ratios.short else 600
    short, long = _controllers(0), _controllers(KEYS)
    now = [0.0]
    samples = [Samples(lambda one=one: one, dict, lambda: now[0]) for one in (short, long)]  # type: ignore[misc]
    times: list[list[float]] = [[], []]
    for _ in range(rounds):
        now[0] += PERIOD
        for one, found in zip(samples, times, strict=True):
            began = time.thread_time()
            one.check()
            found.append(time.thread_time() - began)
    empty, full = map(statistics.median, times)
    ratios.add("status", "sample of 50 controllers, 100,000 queued keys", "s", full, empty_queues=empty)


def _controllers(keys: int) -> list[Any]:
    made = []
    for number in range(CONTROLLERS):
        name = f"bench/c{number}"
        counts, queue = ControllerCounts(name, WORKERS), WorkQueue(name)
        for _ in range(WORKERS):
            counts.worker().observe(0.01)
        queue.add_many(list(range(keys // CONTROLLERS)))
        made.append(SimpleNamespace(name=name, counts=counts, queue=queue))
    return made
