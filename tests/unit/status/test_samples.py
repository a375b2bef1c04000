"""Samples of the last hour, and the rates of the last minute."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from ctrlhost.controller.metrics import BUCKETS, ControllerCounts
from ctrlhost.status.samples import PERIOD, SAMPLES, SERIES, SPARKS, Ring, Samples, quantile
from ctrlhost.workqueue import WorkQueue

behaviour = pytest.mark.behaviour


class Rig:
    """One controller whose counts the test changes, and a clock that it moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.counts = ControllerCounts("demo/c", 1)
        self.worker = self.counts.worker()
        self.queue = WorkQueue("demo/c")
        self.requests = 0.0
        self.controllers: list[Any] = [SimpleNamespace(name="demo/c", counts=self.counts, queue=self.queue)]
        self.samples = Samples(lambda: self.controllers, lambda: {"requests": self.requests}, lambda: self.now)

    def run(self, *seconds: float, errors: int = 0) -> None:
        for second in seconds:
            self.worker.observe(second)
        self.worker.errors += errors

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.samples.check()

    def series(self, name: str) -> list[float | None]:
        series = self.samples.series("demo/c")
        assert series is not None
        return series[name]


@behaviour("operations/OP68")
def test_the_ring_is_empty_on_the_left_after_a_start_and_holds_an_hour() -> None:
    rig = Rig()
    rig.samples.check()
    for _ in range(3):
        rig.run(0.02, 0.02, errors=1)
        rig.queue.add("a")
        rig.advance(PERIOD)
    rates = rig.series("rate")
    assert len(rates) == SAMPLES
    assert rates[:-3] == [None] * (SAMPLES - 3)
    assert rates[-3:] == pytest.approx([0.4, 0.4, 0.4])
    assert rig.series("errors")[-3:] == pytest.approx([0.2, 0.2, 0.2])
    assert rig.series("depth")[-4:] == [0, 1, 1, 1]
    for _ in range(SAMPLES + 5):
        rig.advance(PERIOD)
    assert None not in rig.series("rate")
    assert rig.series("rate")[0] == 0
    assert SAMPLES * PERIOD == 3600


@behaviour("operations/OP68")
def test_gaps_are_not_joined_and_a_clock_that_goes_back_changes_nothing() -> None:
    rig = Rig()
    rig.samples.check()
    rig.run(0.1)
    rig.advance(PERIOD)
    rig.run(0.1)
    rig.advance(4 * PERIOD)
    rig.run(0.1)
    rig.advance(PERIOD)
    rates = rig.series("rate")
    # The sample after the gap does not know when its runs were.
    assert rates[-6:] == [pytest.approx(0.2), None, None, None, None, pytest.approx(0.2)]
    depths = rig.series("depth")
    assert depths[-6:] == [0, None, None, None, 0, 0]
    before = rig.series("depth")
    rig.advance(-10 * PERIOD)
    rig.now += 10 * PERIOD
    rig.samples.check()
    assert rig.series("depth")[-6:] == before[-6:]


@behaviour("operations/OP68")
def test_the_last_hour_in_steps_of_two_minutes_has_means_and_gaps() -> None:
    rig = Rig()
    # Steps begin at a multiple of two minutes of the clock.
    rig.now = 120 * 100
    rig.samples.check()
    assert rig.samples.recent("demo/c") == [None] * SPARKS
    for _ in range(23):
        rig.run(0.1, 0.1)
        rig.advance(PERIOD)
    assert rig.samples.recent("demo/c") == [*[None] * (SPARKS - 1), pytest.approx(2 / PERIOD)]
    rig.run(0.1)
    rig.advance(PERIOD)
    assert rig.samples.recent("demo/c")[-2:] == [pytest.approx(2 / PERIOD), pytest.approx(1 / PERIOD)]
    # A gap of ten minutes, and then the mean of what is there.
    rig.advance(600)
    rig.run(0.1, 0.1, 0.1)
    rig.advance(PERIOD)
    recent = rig.samples.recent("demo/c")
    assert recent[-6:-1] == [0.2, None, None, None, None] or recent[-5:-1] == [None] * 4
    assert recent[-1] == pytest.approx(3 / PERIOD)
    for _ in range(SAMPLES):
        rig.advance(PERIOD)
    assert set(rig.samples.recent("demo/c")) == {0.0}
    assert rig.samples.recent("demo/none") == [None] * SPARKS


@behaviour("operations/OP68")
def test_fifty_controllers_take_less_than_two_megabytes() -> None:
    size = sum(values.itemsize * len(values) for values in Ring()._values.values())
    assert 50 * size < 2 << 20
    assert len(SERIES) == 5


@behaviour("operations/OP70")
def test_rates_and_quantiles_are_those_of_the_differences_of_the_metrics() -> None:
    rig = Rig()
    rig.run(*[0.5] * 100)
    rig.samples.check()
    assert rig.samples.rates(rig.controllers[0]) == (None, None, None, None)
    for _ in range(20):
        rig.run(*[0.02] * 9, 0.7, errors=2)
        rig.requests += 30
        rig.advance(PERIOD)
    rates = rig.samples.rates(rig.controllers[0])
    assert rates.per_second == pytest.approx(10 / PERIOD)
    assert rates.errors_per_second == pytest.approx(2 / PERIOD)
    # Those of the first hundred runs are over a minute old: 0.01 < 0.02 <= 0.025 and 0.6 < 0.7 <= 0.7.
    assert rates.p50 == pytest.approx(0.01 + 0.015 * 5 / 9)
    assert rates.p99 == pytest.approx(0.6 + 0.1 * 0.9)
    assert rig.samples.per_second("requests", rig.requests) == pytest.approx(30 / PERIOD)


@behaviour("operations/OP70")
@pytest.mark.parametrize("part", [0.5, 0.9, 0.99])
def test_a_quantile_is_interpolated_as_prometheus_does(part: float) -> None:
    counts = [(at * 7) % 5 for at in range(len(BUCKETS) + 1)]
    counts[-1] = 0
    rank, below, expected = part * sum(counts), 0, math.nan
    for at, count in enumerate(counts):
        if below + count >= rank:
            start = BUCKETS[at - 1] if at else 0.0
            expected = start + (BUCKETS[at] - start) * (rank - below) / count
            break
        below += count
    assert quantile(part, counts) == pytest.approx(expected)


def test_a_quantile_beyond_the_last_bound_is_that_bound_and_there_is_none_without_runs() -> None:
    assert quantile(0.5, [0] * len(BUCKETS) + [3]) == BUCKETS[-1]
    assert quantile(0.5, [0] * (len(BUCKETS) + 1)) is None


def test_the_counts_of_a_restarted_plugin_begin_anew() -> None:
    rig = Rig()
    rig.samples.check()
    rig.run(0.1, 0.1)
    rig.advance(PERIOD)
    counts = ControllerCounts("demo/c", 1)
    rig.controllers[0] = SimpleNamespace(name="demo/c", counts=counts, queue=rig.queue)
    assert rig.samples.rates(rig.controllers[0]).per_second is None
    rig.advance(PERIOD)
    counts.worker().observe(0.1)
    rig.advance(PERIOD)
    assert rig.samples.rates(rig.controllers[0]).per_second == pytest.approx(1 / PERIOD)
    assert rig.series("rate")[-3:] == [pytest.approx(0.4), None, pytest.approx(0.2)]
