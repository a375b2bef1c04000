"""Metrics of reconciles."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from ctrlhost.controller.metrics import BUCKETS, ReconcileMetrics


def test_every_series_but_the_histogram_exists_before_the_first_run() -> None:
    metrics, registry = ReconcileMetrics(), CollectorRegistry()
    registry.register(metrics)
    metrics.controller("demo/pods", 4)
    assert registry.get_sample_value("controller_runtime_max_concurrent_reconciles", {"controller": "demo/pods"}) == 4
    for result in ("success", "error", "requeue", "requeue_after"):
        labels = {"controller": "demo/pods", "result": result}
        assert registry.get_sample_value("controller_runtime_reconcile_total", labels) == 0
    for name in ("reconcile_errors", "terminal_reconcile_errors", "reconcile_panics", "reconcile_timeouts"):
        assert registry.get_sample_value(f"controller_runtime_{name}_total", {"controller": "demo/pods"}) == 0
    assert registry.get_sample_value("controller_runtime_active_workers", {"controller": "demo/pods"}) == 0
    assert "reconcile_time_seconds_bucket" not in generate_latest(registry).decode()


def test_whether_a_controller_works_is_asked_at_each_scrape() -> None:
    metrics, registry = ReconcileMetrics(), CollectorRegistry()
    registry.register(metrics)
    counts = metrics.controller("demo/pods", 4)
    for works in (False, True, False):
        counts.working = lambda works=works: works
        assert registry.get_sample_value("ctrlhost_controller_working", {"controller": "demo/pods"}) == works


def test_the_buckets_are_those_of_controller_runtime() -> None:
    assert len(BUCKETS) == 40
    assert BUCKETS[:6] == (0.005, 0.01, 0.025, 0.05, 0.1, 0.15)
    assert BUCKETS[-7:] == (15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0)
    assert list(BUCKETS) == sorted(BUCKETS)


def test_the_counts_of_workers_are_summed() -> None:
    metrics, registry = ReconcileMetrics(), CollectorRegistry()
    registry.register(metrics)
    counts = metrics.controller("demo/pods", 2)
    first, second = counts.worker(), counts.worker()
    first.observe(0.004)
    second.observe(0.3)
    second.observe(100.0)
    first.successes = second.successes = second.errors = 1
    labels = {"controller": "demo/pods"}
    name = "controller_runtime_reconcile_time_seconds"
    assert registry.get_sample_value(f"{name}_count", labels) == 3
    assert registry.get_sample_value(f"{name}_bucket", {**labels, "le": "0.005"}) == 1
    assert registry.get_sample_value(f"{name}_bucket", {**labels, "le": "0.3"}) == 2
    assert registry.get_sample_value(f"{name}_bucket", {**labels, "le": "60.0"}) == 2
    assert registry.get_sample_value(f"{name}_bucket", {**labels, "le": "+Inf"}) == 3
    assert registry.get_sample_value("controller_runtime_reconcile_total", {**labels, "result": "success"}) == 2
    assert registry.get_sample_value("controller_runtime_reconcile_total", {**labels, "result": "error"}) == 1


def test_a_removed_controller_leaves_no_series() -> None:
    metrics, registry = ReconcileMetrics(), CollectorRegistry()
    registry.register(metrics)
    metrics.remove(metrics.controller("demo/pods", 1))
    assert b"demo/pods" not in generate_latest(registry)
