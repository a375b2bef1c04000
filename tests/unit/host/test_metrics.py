from __future__ import annotations

import logging
import typing

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary
from prometheus_client.parser import text_string_to_metric_families

from ctrlhost.clock import SystemClock
from ctrlhost.host.metrics import HostMetrics, PluginCollector
from ctrlhost.plugin.metrics import REASONS, PluginMetrics
from ctrlhost.supervisor.runtime import PluginRuntime, State


def collected(plugins: dict[str, CollectorRegistry]) -> list[PluginMetrics]:
    """Return the metrics of plugins after a collection."""
    collectors = [PluginMetrics(name, registry) for name, registry in plugins.items()]
    for collector in collectors:
        collector.start("").result(30)
    return collectors


def scrape(metrics: HostMetrics, plugins: dict[str, CollectorRegistry] | None = None) -> dict[str, list]:
    body, content_type = metrics.exposition(collected(plugins or {}))
    assert content_type.startswith("text/plain")
    families = list(text_string_to_metric_families(body.decode()))
    assert len({family.name for family in families}) == len(families)
    return {family.name: family.samples for family in families}


def counter(name: str, value: float, registry: CollectorRegistry | None = None) -> CollectorRegistry:
    registry = registry or CollectorRegistry()
    Counter(name, "A counter", registry=registry).inc(value)
    return registry


def test_the_process_metrics_are_served():
    names = scrape(HostMetrics())
    assert {"process_cpu_seconds", "process_resident_memory_bytes", "process_open_fds", "python_info"} <= set(names)


def test_registries_of_plugins_are_merged_with_the_hosts():
    families = scrape(HostMetrics(), {"one": counter("one", 1), "two": counter("two", 2)})
    assert families["one"][0].value == 1
    assert families["two"][0].value == 2


def test_a_series_of_two_plugins_is_served_once_and_reported_once(caplog):
    metrics = HostMetrics()
    plugins = collected({"one": counter("same", 1), "two": counter("same", 2)})
    with caplog.at_level(logging.WARNING, "ctrlhost.metrics"):
        for _ in range(2):
            body = metrics.exposition(plugins)[0].decode()
            assert [line for line in body.splitlines() if line.startswith("same_total")] == ["same_total 1.0"]
    assert [record.getMessage() for record in caplog.records if "same" in record.getMessage()] == [
        "skipped metrics of plugin two: same: another plugin has the same series"
    ]


def test_a_metric_name_with_two_types_keeps_the_first():
    other = CollectorRegistry()
    Gauge("same", "A gauge", registry=other).set(5)
    samples = scrape(HostMetrics(), {"one": counter("same", 1), "two": other})["same"]
    assert [(sample.name, sample.value) for sample in samples] == [("same_total", 1)]


def test_a_collector_that_raises_affects_only_its_plugin(caplog):
    class Broken:
        def collect(self):
            raise RuntimeError("bug in a collector")

    registry = CollectorRegistry()
    registry._collector_to_names[Broken()] = []
    families = scrape(HostMetrics(), {"bad": registry, "good": counter("good", 1)})
    assert families["good"][0].value == 1
    assert "bug in a collector" in caplog.text


def test_openmetrics_is_served_on_request():
    body, content_type = HostMetrics().exposition(
        collected({"one": counter("one", 1)}), "application/openmetrics-text; version=1.0.0"
    )
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text; version=1.0.0"])
def test_times_of_creation_are_left_out_and_metrics_of_such_names_are_not(accept):
    registry = CollectorRegistry()
    counts = Counter("made", "A counter", ["kind"], registry=registry)
    for kind in ("a", "b"):
        counts.labels(kind).inc()
    Histogram("took", "A histogram", registry=registry).observe(1)
    Summary("size", "A summary", registry=registry).observe(1)
    Gauge("pods_created", "A gauge", registry=registry).set(7)
    body = HostMetrics().exposition(collected({"one": registry}), accept)[0].decode()
    assert [line for line in body.splitlines() if "_created" in line and not line.startswith("#")] == [
        "pods_created 7.0"
    ]
    assert 'made_total{kind="b"} 1.0' in body


def test_each_reason_for_what_is_missing_is_there_from_the_start():
    samples = scrape(HostMetrics(), {"one": counter("one", 1)})["ctrlhost_metrics_collector_errors"]
    assert {sample.labels["reason"]: sample.value for sample in samples} == dict.fromkeys(REASONS, 0)


def test_series_beyond_the_limit_are_counted_without_times_of_creation(monkeypatch):
    monkeypatch.setattr("ctrlhost.plugin.metrics.MAX_SERIES", 4)
    registry = CollectorRegistry()
    counts = Counter("made", "A counter", ["kind"], registry=registry)
    for kind in "abcd":
        counts.labels(kind).inc()
    (plugin,) = collected({"one": registry})
    assert [sample.name for family in plugin.families for sample in family.metric.samples] == ["made_total"] * 4
    assert plugin.errors["series"] == 0
    counts.labels("e").inc()
    plugin.start("").result(30)
    assert plugin.errors["series"] == 1


def test_two_hosts_share_no_metrics():
    first, second = HostMetrics(), HostMetrics()
    counter("mine", 1, first.registry)
    assert "mine" in scrape(first)
    assert "mine" not in scrape(second)


def test_the_state_of_each_plugin_is_a_metric():
    plugin = PluginRuntime("naming", SystemClock(), lambda: None, lambda: None)
    plugin.fail("no such module")
    metrics = HostMetrics()
    metrics.register(PluginCollector([plugin]))
    families = scrape(metrics)
    states = {sample.labels["state"]: sample.value for sample in families["ctrlhost_plugin_state"]}
    assert {state for state, value in states.items() if value} == {"failed"}
    assert set(states) == set(typing.get_args(State))
    assert families["ctrlhost_build_info"][0].labels["version"]
