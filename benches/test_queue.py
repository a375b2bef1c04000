"""The work queue across the border, against client-go, controller-runtime and plain Python."""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from benches.plain_queue import PlainQueue
from ctrlhost import Request
from ctrlhost.host.queue_metrics import QueueCollector
from ctrlhost.workqueue import WorkQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

    from benches.ratios import Ratios

ROUNDS = 5
CYCLES = 100_000
KEYS = 1_000
BURST = 100_000
BATCH = 256
MEMORY_KEYS = 500_000

_names = itertools.count()


def keys(count: int) -> list[str]:
    return [f"namespace-{number % 20:02d}/deployment-{number:06d}" for number in range(count)]


def requests(count: int) -> list[Request]:
    return [Request(f"deployment-{number:06d}", f"namespace-{number % 20:02d}") for number in range(count)]


def cycle(queue: Any, all_keys: list[Any]) -> None:
    add, get, forget, done = queue.add, queue.get, queue.forget, queue.done
    for key in all_keys * (CYCLES // KEYS):
        add(key)
        got = get()
        forget(got)
        done(got)


def burst(queue: WorkQueue, all_keys: list[str]) -> None:
    queue.add_many(all_keys)
    queue.add_many(all_keys)
    while len(queue):
        queue.done_many(queue.get_batch(BATCH))


def seconds(
    benchmark: BenchmarkFixture, job: Callable[[Any, Any], None], make: Callable[[], Any], all_keys: Any
) -> float:
    """Time the job on a new queue each round and return the median in seconds."""
    benchmark.pedantic(job, setup=lambda: ((make(), all_keys), {}), rounds=ROUNDS, warmup_rounds=1)
    median: float = benchmark.stats.stats.median
    return median


def named() -> WorkQueue:
    return WorkQueue(f"bench-{next(_names)}")


@pytest.fixture(scope="module")
def plain_cycle() -> float:
    taken = []
    for _ in range(ROUNDS):
        queue, all_keys, start = PlainQueue(), keys(KEYS), time.perf_counter()
        cycle(queue, all_keys)
        taken.append((time.perf_counter() - start) / CYCLES)
    return sorted(taken)[ROUNDS // 2]


@pytest.mark.headline
@pytest.mark.behaviour("faster/FA15")
@pytest.mark.parametrize(
    ("name", "make", "all_keys", "peer"),
    [
        pytest.param("cycle, str keys, with metrics", named, keys(KEYS), "cycle_metrics", id="named"),
        pytest.param("cycle, Request keys, with metrics", named, requests(KEYS), "cycle_metrics", id="requests"),
        pytest.param("cycle, str keys, without metrics", WorkQueue, keys(KEYS), "cycle", id="nameless"),
    ],
)
def test_cycle(
    benchmark: BenchmarkFixture,
    ratios: Ratios,
    go_queue: Callable[[str], float],
    plain_cycle: float,
    name: str,
    make: Callable[[], WorkQueue],
    all_keys: list[Any],
    peer: str,
) -> None:
    taken = seconds(benchmark, cycle, make, all_keys) / CYCLES
    ratios.add("queue", name, "s", taken, client_go=go_queue(peer), plain_python=plain_cycle)


def test_add_beside_many_keys(benchmark: BenchmarkFixture, ratios: Ratios) -> None:
    """Add to a queue with 1,000,000 queued and 1,000 processed keys, against an empty one (workqueue/P34)."""

    def loaded() -> WorkQueue:
        queue = WorkQueue()
        queue.add_many(range(1_001_000))
        queue.get_batch(1_000)
        return queue

    def add(queue: WorkQueue, all_keys: list[str]) -> None:
        for key in all_keys:
            queue.add(key)

    taken = []
    for _ in range(ROUNDS):
        queue, start = WorkQueue(), time.perf_counter()
        add(queue, keys(CYCLES))
        taken.append(time.perf_counter() - start)
    beside = seconds(benchmark, add, loaded, keys(CYCLES))
    ratios.add("queue", "add beside 1,000,000 keys", "s", beside / CYCLES, empty_queue=sorted(taken)[2] / CYCLES)


def test_floor_of_a_cycle(benchmark: BenchmarkFixture, ratios: Ratios) -> None:
    """Make four calls across the border that find nothing to do: the lower limit of a cycle."""

    def job(queue: WorkQueue, all_keys: list[str]) -> None:
        forget = queue.forget
        for key in all_keys * (CYCLES // KEYS):
            forget(key)
            forget(key)
            forget(key)
            forget(key)

    taken = seconds(benchmark, job, WorkQueue, keys(KEYS)) / CYCLES
    ratios.add("queue", "floor of a cycle: four calls with nothing to do", "s", taken)


def median_burst(make: Callable[[], WorkQueue], all_keys: list[str]) -> float:
    """Return the median of the seconds per key of a burst, on the queue that `make` returns each time."""
    taken = []
    for _ in range(ROUNDS):
        work_queue, start = make(), time.perf_counter()
        burst(work_queue, all_keys)
        taken.append((time.perf_counter() - start) / len(all_keys))
    return statistics.median(taken)


def paired(ours: Callable[[], float], peers: dict[str, Callable[[], float]]) -> tuple[float, dict[str, float]]:
    """Measure by turns, since the speed of a machine drifts, and return the turn with the median ratio to the first."""
    turns = [(ours(), {name: peer() for name, peer in peers.items()}) for _ in range(ROUNDS)]
    first = next(iter(peers))
    return sorted(turns, key=lambda turn: turn[0] / (turn[1][first] or 1.0))[ROUNDS // 2]


def test_burst(ratios: Ratios, go_queue: Callable[[str], float]) -> None:
    all_keys = keys(BURST)
    peers = {"client_go": lambda: go_queue("burst_metrics"), "client_go_without_metrics": lambda: go_queue("burst")}
    taken, others = paired(lambda: median_burst(named, all_keys), peers)
    ratios.add("queue", "burst in batches, per key, with metrics", "s", taken, **others)


@pytest.mark.headline
def test_burst_without_metrics(ratios: Ratios, go_queue: Callable[[str], float]) -> None:
    """Measure on new queues, and once more on one that had a burst; each against the same of client-go."""
    all_keys = keys(BURST)
    # Its bursts reuse the memory of those before, unless each has a process of its own.
    peers = {"client_go": lambda: go_queue("burst"), "client_go_in_a_new_process": lambda: go_queue("burst_first")}
    taken, others = paired(lambda: median_burst(WorkQueue, all_keys), peers)
    ratios.add("queue", "burst in batches, per key", "s", taken, **others)

    def second() -> float:
        # Another queue each time: how fast memory is depends on where it is.
        work_queue = WorkQueue()
        burst(work_queue, all_keys)
        return median_burst(lambda: work_queue, all_keys)

    taken, others = paired(second, {"client_go": lambda: go_queue("burst_again")})
    ratios.add("queue", "second burst in batches, per key", "s", taken, **others)


@pytest.mark.headline
def test_burst_with_priorities(benchmark: BenchmarkFixture, ratios: Ratios, go_queue: Callable[[str], float]) -> None:
    by_priority = [keys(BURST)[which::4] for which in range(4)]

    def job(queue: WorkQueue, groups: list[list[str]]) -> None:
        for _ in range(2):
            for which, group in enumerate(groups):
                queue.add_many(group, priority=which * 10)
        while len(queue):
            queue.done_many(queue.get_batch(BATCH))

    taken = seconds(benchmark, job, WorkQueue, by_priority) / BURST
    peer = go_queue("priority_burst")
    ratios.add("queue", "burst with four priorities, per key", "s", taken, controller_runtime=peer)


@pytest.mark.headline
@pytest.mark.parametrize("kind", ["str", "Request"])
def test_memory_of_queued_keys(ratios: Ratios, kind: str) -> None:
    """Measure the memory of a queued key in a queue with metrics, beyond the Python objects."""
    command = [sys.executable, "-m", "benches.queue_memory", kind, str(MEMORY_KEYS)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=120)
    ratios.add("queue", f"memory of a queued {kind} key", "B", json.loads(done.stdout)["bytes_per_key"])


def test_scrape_of_a_hundred_queues(benchmark: BenchmarkFixture, ratios: Ratios) -> None:
    """Collect the metrics of 100 used queues in the text format of the metrics library."""
    collector, used = QueueCollector(), [named() for _ in range(100)]
    for work_queue in used:
        work_queue.add_many(keys(10))
        work_queue.done_many(work_queue.get_batch(10))
    benchmark.pedantic(lambda: list(collector.collect()), rounds=ROUNDS, warmup_rounds=1)
    ratios.add("queue", "metrics of 100 queues collected", "s", benchmark.stats.stats.median)
