"""Rates and quantiles of the status beside the metrics of the same host."""

from __future__ import annotations

from typing import Any

import pytest

import ctrlhost
from ctrlhost import Request
from ctrlhost.status.samples import quantile
from tests.support.plugin_modules import plugin_of
from tests.support.status import get, status_of


def counts(host: Any) -> tuple[float, float, list[float]]:
    """Return the runs, the errors and the cumulative buckets of durations of demo/c, of `/metrics`."""
    runs = errors = 0.0
    buckets: dict[float, float] = {}
    for family in host.host.state.metrics.registry.collect():
        for sample in family.samples:
            if sample.labels.get("controller") != "demo/c":
                continue
            if sample.name == "controller_runtime_reconcile_total":
                runs += sample.value
            elif sample.name == "controller_runtime_reconcile_errors_total":
                errors = sample.value
            elif sample.name == "controller_runtime_reconcile_time_seconds_bucket":
                buckets[float(sample.labels["le"])] = sample.value
    return runs, errors, [buckets[bound] for bound in sorted(buckets)]


@pytest.mark.behaviour("operations/OP70")
def test_rates_are_the_differences_of_the_metrics(ctrlhost_host: Any) -> None:
    handles: list[Any] = []

    def reconcile(_ctx: ctrlhost.Context, request: Request) -> None:
        if request.name.startswith("bad"):
            raise ctrlhost.TerminalError("no")

    plugin = plugin_of(lambda plugin: handles.append(plugin.add_controller("c", reconcile)))
    host = ctrlhost_host(plugin, listen="127.0.0.1:0")
    controller = host.controllers["demo/c"]
    handles[0].enqueue(Request("first"))
    host.wait_for(lambda: controller.status().runs == 1)
    # Sampled by the test from here on, with a clock of its own.
    host.host._review.stop()
    host.host._review._thread.join()
    samples, now = host.host.inspection.reports.reader.samples, [1000.0]
    samples.__init__(host.host.inspection.reports.reader.controllers, dict, lambda: now[0])
    samples.check()
    runs, errors, buckets = counts(host)
    for number in range(40):
        handles[0].enqueue(Request(f"{'bad' if number % 4 == 0 else 'good'}-{number}"))
    host.wait_for(lambda: controller.status().runs == 41)
    now[0] += 30
    (row,) = status_of(host)["controllers"]
    later_runs, later_errors, later_buckets = counts(host)
    assert later_runs - runs == 40
    assert row["per_second"] == pytest.approx((later_runs - runs) / 30, rel=0.05)
    assert row["errors_per_second"] == pytest.approx((later_errors - errors) / 30, rel=0.05)
    assert row["errors_per_second"] == pytest.approx(10 / 30)
    sums = [later - other for later, other in zip(later_buckets, buckets, strict=True)]
    single = [int(upper - other) for upper, other in zip(sums, [0.0, *sums], strict=False)]
    assert (row["p50"], row["p99"]) == (quantile(0.5, single), quantile(0.99, single))
    samples.check()
    code, series = get(host, "/series/demo/c")
    assert (code, series["period_seconds"], len(series["rate"])) == (200, 5, 720)
    assert series["depth"][-7] == series["depth"][-1] == 0
