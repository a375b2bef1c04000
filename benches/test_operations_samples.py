"""What it costs to watch a host with 50 controllers and 20 informers: samples, snapshots, an exposition of `/metrics`.

None may depend on the number of objects or on the length of queues. The rows are operations/OP66 and OP68.
"""

from __future__ import annotations

import statistics
import time
import tracemalloc
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from benches.many_controllers import CONTROLLERS, INFORMERS, fill, many_controllers
from benches.test_stalls import longest_pause
from ctrlhost.controller.metrics import ControllerCounts
from ctrlhost.host.switch_interval import switching_after
from ctrlhost.status.samples import PERIOD, SAMPLES, Samples
from ctrlhost.workqueue import WorkQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.ratios import Ratios
    from ctrlhost.testing.host import HostUnderTest

KEYS = 100_000
SIZE = f"{CONTROLLERS} controllers and {INFORMERS} informers"
#: Of a few samples each: what a sample does to other threads is in every round, what the system does is not.
ROUNDS, CALLS = 40, 10


@pytest.mark.behaviour("operations/OP66")
def test_a_host_with_many_controllers_while_its_caches_and_queues_grow(ratios: Ratios) -> None:
    objects, rounds = 1_000_000, 300
    large = f"{objects:,} objects, {KEYS:,} queued keys"
    with many_controllers() as host:
        empty = {what: processor_times(work, rounds) for what, work in works(host).items()}
        fill(host, objects, KEYS)
        full = {what: processor_times(work, rounds) for what, work in works(host).items()}
        for what, seconds in full.items():
            ratios.add("status", f"{what} of {SIZE}", "s", statistics.median(empty[what]))
            # The machine may have been busier in one half: what it adds is not in the least.
            ratios.add("status", f"{what} of {SIZE}, {large}", "s", min(seconds), empty=min(empty[what]))
        ratios.add("status", "part of a core for samples, nobody looks", "", statistics.median(full["sample"]) / PERIOD)
        sample = works(host)["sample"]
        with switching_after(host.host.settings.switch_interval):
            pauses = [longest_pause(lambda: [sample() for _ in range(CALLS)]) for _ in range(ROUNDS)]
        ratios.add("status", "pause of another thread while a sample is taken", "s", min(pauses))


def works(host: HostUnderTest) -> dict[str, Callable[[], object]]:
    """Return what is measured: a sample of the ring, the snapshot that pages and commands show, and an exposition."""
    inspection = host.host.inspection
    samples, slot = inspection.reports.reader.samples, int(time.monotonic() / PERIOD)

    def sample() -> None:
        nonlocal slot
        slot += 1
        samples.sample(slot * PERIOD, slot)

    return {
        "sample": sample,
        "snapshot": inspection.reports.status_json,
        "exposition": lambda: inspection.exposition(""),
    }


def processor_times(work: Callable[[], object], rounds: int) -> list[float]:
    """Return the processor time of this thread for each of some calls, in seconds."""
    taken = []
    for _ in range(rounds):
        began = time.thread_time()
        work()
        taken.append(time.thread_time() - began)
    return taken


@pytest.mark.behaviour("operations/OP68")
def test_the_memory_of_the_samples(ratios: Ratios) -> None:
    """A ring that is full stays as it is, for a day."""
    more = 23 * SAMPLES
    now = [0.0]
    controllers = [busy_controller(number) for number in range(CONTROLLERS)]
    tracemalloc.start()
    try:
        samples = Samples(lambda: controllers, lambda: {"requests": now[0]}, lambda: now[0])
        take(samples, SAMPLES, now)
        after_an_hour = tracemalloc.get_traced_memory()[0]
        take(samples, more, now)
        at_last = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    ratios.add(
        "status", f"memory of the samples of {CONTROLLERS} controllers", "B", at_last, after_an_hour=after_an_hour
    )


def take(samples: Samples, count: int, now: list[float]) -> None:
    for _ in range(count):
        now[0] += PERIOD
        samples.check()


def busy_controller(number: int) -> Any:
    name = f"memory/c{number}"
    counts, queue = ControllerCounts(name, 4), WorkQueue(name)
    counts.worker().observe(0.01)
    return SimpleNamespace(name=name, counts=counts, queue=queue)
