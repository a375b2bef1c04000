"""The metrics of a named queue, and a scrape of them."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from ctrlhost import _core
from ctrlhost.host.queue_metrics import _FAMILIES, QueueCollector
from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import WorkQueue
from tests.support.workqueue_threads import Background

behaviour = pytest.mark.behaviour


def scrape(name: str) -> dict[str, Any]:
    """Return all samples of the queues named `name`: by sample, for histograms and depth also by label."""
    samples = {}
    for family in QueueCollector(lambda row: row["name"] == name).collect():
        for sample in family.samples:
            assert (sample.labels["name"], sample.labels["controller"]) == (name, name)
            labels = [value for label, value in sample.labels.items() if label not in {"name", "controller"}]
            samples[" ".join([sample.name, *labels])] = sample.value
    return samples


def named(clock: ManualClock, request: pytest.FixtureRequest) -> WorkQueue:
    return WorkQueue(request.node.name, clock=clock)


@behaviour("workqueue/M2")
@behaviour("workqueue/M3")
@behaviour("workqueue/M4")
@behaviour("workqueue/M5")
@behaviour("workqueue/M6")
@behaviour("workqueue/M7")
@behaviour("workqueue/M8")
def test_the_metrics_of_the_life_of_a_key(clock: ManualClock, request: pytest.FixtureRequest) -> None:
    work_queue = named(clock, request)

    def numbers(*names: str) -> list[float]:
        samples = scrape(work_queue.name)
        return [samples[name] for name in names]

    counts = ("workqueue_adds_total", "workqueue_depth 0")
    queued = ("workqueue_queue_duration_seconds_sum", "workqueue_queue_duration_seconds_count")
    worked = ("workqueue_work_duration_seconds_sum", "workqueue_work_duration_seconds_count")
    work_queue.add("foo")
    assert numbers(*counts) == [1, 1]
    clock.advance(50e-6)
    assert work_queue.get() == "foo"
    assert numbers(*queued) == [50e-6, 1]
    for _ in range(5):
        work_queue.add("foo")
    assert numbers(*counts) == [2, 1]
    clock.advance(25e-6)
    work_queue.done("foo")
    assert numbers(*worked, "workqueue_depth 0") == [25e-6, 1, 1]
    assert work_queue.get() == "foo"
    assert numbers(*queued) == [75e-6, 2]
    clock.advance(0.001)
    running = ("workqueue_unfinished_work_seconds", "workqueue_longest_running_processor_seconds")
    assert numbers(*running) == [0.001, 0.001]
    work_queue.done("foo")
    assert numbers(*worked) == [0.001025, 2]
    assert numbers(*running) == [0, 0]


@behaviour("workqueue/M1")
def test_running_work_is_computed_at_scrape_time(clock: ManualClock, request: pytest.FixtureRequest) -> None:
    # As decided: there is no ticker, so nothing freezes at shutdown.
    work_queue = named(clock, request)
    work_queue.add_many(["a", "b"])
    work_queue.get()
    clock.advance(1)
    work_queue.get()
    work_queue.shut_down()
    clock.advance(2)
    samples = scrape(work_queue.name)
    assert samples["workqueue_unfinished_work_seconds"] == 5
    assert samples["workqueue_longest_running_processor_seconds"] == 3


@behaviour("workqueue/P30")
def test_every_depth_sample_has_a_priority(clock: ManualClock, request: pytest.FixtureRequest) -> None:
    work_queue = named(clock, request)
    assert [name for name in scrape(work_queue.name) if name.startswith("workqueue_depth")] == []
    work_queue.add("a")
    work_queue.add("b", priority=-100)
    depths = {name: value for name, value in scrape(work_queue.name).items() if name.startswith("workqueue_depth")}
    assert depths == {"workqueue_depth 0": 1, "workqueue_depth -100": 1}


@behaviour("workqueue/P31")
@behaviour("workqueue/P32")
@behaviour("workqueue/X17")
@pytest.mark.parametrize(("distinct", "series", "beyond"), [(10, 10, None), (25, 25, None), (26, 26, 1), (30, 26, 5)])
def test_at_most_25_priorities_have_a_series(distinct: int, series: int, beyond: int | None) -> None:
    work_queue = WorkQueue(f"priorities-{distinct}")
    threads = [
        Background(lambda priority=priority: work_queue.add(priority, priority=priority))
        for priority in range(distinct)
    ]
    for thread in threads:
        thread.result()
    depths = {name: value for name, value in scrape(work_queue.name).items() if name.startswith("workqueue_depth")}
    assert len(depths) == series
    assert depths.get("workqueue_depth exceeded_cardinality_limit") == beyond
    assert sum(depths.values()) == distinct
    work_queue.get_batch(100)
    assert {scrape(work_queue.name)[name] for name in depths} == {0}


def test_the_exposition_has_upstream_names_labels_and_bounds(clock: ManualClock) -> None:
    work_queue = WorkQueue("exposed", clock=clock)
    work_queue.add("foo")
    clock.advance(0.5)
    work_queue.get()
    work_queue.add_after("bar", 60)
    registry = CollectorRegistry()
    registry.register(QueueCollector(lambda row: row["name"] == "exposed"))
    lines = generate_latest(registry).decode().splitlines()
    text = [line for line in lines if not line.startswith("#")]
    labels = 'controller="exposed",name="exposed"'
    for line in [
        f'workqueue_depth{{{labels},priority="0"}} 0.0',
        f"workqueue_adds_total{{{labels}}} 1.0",
        f"workqueue_retries_total{{{labels}}} 1.0",
        'workqueue_queue_duration_seconds_bucket{controller="exposed",le="0.1",name="exposed"} 0.0',
        f"workqueue_queue_duration_seconds_count{{{labels}}} 1.0",
        f"workqueue_queue_duration_seconds_sum{{{labels}}} 0.5",
        f"workqueue_unfinished_work_seconds{{{labels}}} 0.0",
        f"workqueue_longest_running_processor_seconds{{{labels}}} 0.0",
        f"ctrlhost_workqueue_delayed_items{{{labels}}} 1.0",
        f"ctrlhost_workqueue_oldest_item_seconds{{{labels}}} 0.0",
        f"ctrlhost_workqueue_dropped_total{{{labels}}} 0.0",
        f"ctrlhost_workqueue_spurious_done_total{{{labels}}} 0.0",
    ]:
        assert line in text
    bounds = [
        line.split('le="')[1].split('"')[0] for line in text if line.startswith("workqueue_queue_duration_seconds_b")
    ]
    small = ["1e-08", "1e-07", "1e-06", "9.999999999999999e-06", "9.999999999999999e-05", "0.001", "0.01", "0.1"]
    assert bounds == [*small, "1", "10", "100", "1000", "+Inf"]
    # No key of this queue is done, so there are no buckets of zeros.
    assert not [line for line in text if line.startswith("workqueue_work_duration_seconds")]
    kinds = {line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE")}
    assert kinds["workqueue_depth"] == "gauge"
    assert kinds["workqueue_adds_total"] == "counter"
    assert kinds["workqueue_work_duration_seconds"] == "histogram"


def test_every_count_of_a_queue_has_a_family(clock: ManualClock, request: pytest.FixtureRequest) -> None:
    work_queue = named(clock, request)
    [row] = [row for row in _core.queue_metrics() if row["name"] == work_queue.name]
    assert row.keys() == {"name", "id", *_FAMILIES} - {"standby"}


def test_spurious_and_dropped_keys_are_counted(clock: ManualClock, request: pytest.FixtureRequest) -> None:
    work_queue = named(clock, request)
    work_queue.done("unknown")
    work_queue.add_after("later", 60)
    clock.advance(1)
    assert scrape(work_queue.name)["ctrlhost_workqueue_delayed_items"] == 1
    work_queue.shut_down()
    samples = scrape(work_queue.name)
    assert samples["ctrlhost_workqueue_spurious_done_total"] == 1
    assert samples["ctrlhost_workqueue_dropped_total"] == 1
    assert samples["ctrlhost_workqueue_delayed_items"] == 0


def test_dropping_a_queue_removes_its_series(clock: ManualClock) -> None:
    work_queue = WorkQueue("dropped", clock=clock)
    work_queue.add("foo")
    assert scrape("dropped")["workqueue_adds_total"] == 1
    del work_queue
    gc.collect()
    assert scrape("dropped") == {}


def test_queues_with_one_name_share_a_series(clock: ManualClock) -> None:
    queues = [WorkQueue("twice", clock=clock) for _ in range(2)]
    for priority, work_queue in enumerate(queues):
        work_queue.add("foo", priority=priority)
        work_queue.add("bar", priority=0)
    clock.advance(2)
    for work_queue in queues:
        work_queue.get()
    samples = scrape("twice")
    assert samples["workqueue_adds_total"] == 4
    assert samples["workqueue_depth 0"] == 2
    assert samples["workqueue_depth 1"] == 0
    assert samples["workqueue_queue_duration_seconds_count"] == 2
    assert samples["ctrlhost_workqueue_oldest_item_seconds"] == 2


def test_a_queue_without_a_name_has_no_metrics() -> None:
    work_queue = WorkQueue()
    work_queue.add("foo")
    assert scrape("") == {}


def test_a_scrape_queues_due_keys(clock: ManualClock, request: pytest.FixtureRequest) -> None:
    work_queue = named(clock, request)
    work_queue.add_after("foo", 1)
    clock.advance(3)
    samples = scrape(work_queue.name)
    assert samples["workqueue_depth 0"] == 1
    assert samples["ctrlhost_workqueue_oldest_item_seconds"] == 2
    work_queue.get()
    assert scrape(work_queue.name)["workqueue_queue_duration_seconds_sum"] == 2


def test_a_raise_moves_the_depth_of_a_key_in_process_too(clock: ManualClock, request: pytest.FixtureRequest) -> None:
    work_queue = named(clock, request)
    work_queue.add("foo")
    work_queue.get()
    work_queue.add("foo", priority=1)
    work_queue.add("foo", priority=2)
    samples = scrape(work_queue.name)
    assert [samples[f"workqueue_depth {priority}"] for priority in range(3)] == [0, 0, 1]
    work_queue.done("foo")
    assert work_queue.get_with_priority() == ("foo", 2)
    assert scrape(work_queue.name)["workqueue_depth 2"] == 0
