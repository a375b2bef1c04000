"""Probes, metrics and health checks beside a plugin whose code hangs, raises or computes."""

from __future__ import annotations

import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from prometheus_client import Counter, Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as text_metrics
from prometheus_client.registry import Collector

import ctrlhost
from ctrlhost import For
from tests.support.misbehaviour import Good, Hang, metric, state_of
from tests.support.plugin_modules import plugin_of
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour
MAPS = For("v1", "ConfigMap")
SERVED = {"listen": "127.0.0.1:0"}


def fetch(host: Any, path: str, accept: str = "", address: str = "") -> tuple[int, str]:
    """Return status and body of a page of the host's server."""
    request = urllib.request.Request(
        f"http://{address or host.host.address}{path}", headers={"Accept": accept} if accept else {}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def values(body: str, name: str) -> list[float]:
    return [sample.value for family in text_metrics(body) for sample in family.samples if sample.name == name]


def threads(name: str) -> int:
    return sum(thread.name == name for thread in threading.enumerate())


class Collects(Collector):
    """A collector of a plugin that runs a function of the test."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Any]:
        yield from self.function()


def collecting(function: Callable[[], Any], name: str = "bad") -> Any:
    return plugin_of(lambda plugin: plugin.metrics.register(Collects(function)), name)


@behaviour("supervision/PR1")
def test_a_collector_that_hangs_delays_no_scrape(start, good: Good, hang: Hang) -> None:
    host = start(collecting(lambda: [hang()]), **SERVED)
    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(lambda _: fetch(host, "/metrics"), range(50)))
    answers.append(fetch(host, "/metrics"))
    for status, body in answers:
        assert status == 200
        assert values(body, "process_cpu_seconds_total")
        assert 'controller_runtime_active_workers{controller="good/all"}' in body
    assert threads("bad/probe") == 1
    assert hang.begun.is_set()
    # The collector has a thread of its own at most, which does not count as one of those that may hang.
    eventually(lambda: metric(host, "ctrlhost_entry_overdue", plugin="bad", entry="metrics") == 1)
    assert metric(host, "ctrlhost_plugin_stuck_threads", plugin="bad") == 0
    assert threads("bad/probe") == 1
    good.goes_on(host)


@behaviour("supervision/PR2")
def test_last_values_are_shown_with_their_age(start, hang: Hang) -> None:
    hangs, size = threading.Event(), [1.0]

    def collect() -> Any:
        if hangs.is_set():
            hang()
        return [GaugeMetricFamily("size", "Size", value=size[0])]

    host = start(collecting(collect))
    assert eventually(lambda: metric(host, "size")) == 1
    size[0] = 2
    assert eventually(lambda: metric(host, "size") == 2)
    assert eventually(lambda: metric(host, "ctrlhost_metrics_age_seconds", plugin="bad") == 0)
    hangs.set()
    size[0] = 3
    eventually(lambda: (metric(host, "ctrlhost_metrics_age_seconds", plugin="bad") or 0) > 0)
    first = metric(host, "ctrlhost_metrics_age_seconds", plugin="bad")
    assert metric(host, "size") == 2
    assert metric(host, "ctrlhost_metrics_collector_errors_total", plugin="bad", reason="timeout") > 0
    eventually(lambda: metric(host, "ctrlhost_metrics_age_seconds", plugin="bad") > first)
    assert eventually(lambda: metric(host, "ctrlhost_metrics_age_seconds", plugin="good") == 0)
    hangs.clear()
    hang.release()
    eventually(lambda: metric(host, "size") == 3)
    eventually(lambda: metric(host, "ctrlhost_metrics_age_seconds", plugin="bad") == 0)


@behaviour("supervision/PR3")
def test_series_beyond_the_limit_are_left_out(start, caplog) -> None:
    family = GaugeMetricFamily("many", "Many", labels=("number",))
    for number in range(100_000):
        family.add_metric((str(number),), number)
    host = start(collecting(lambda: [family]), **SERVED)

    def body() -> str:
        status, text = fetch(host, "/metrics")
        assert status == 200
        return text

    eventually(lambda: "\nmany{" in body(), 120)
    assert body().count("\nmany{") == 10_000
    assert (metric(host, "ctrlhost_metrics_collector_errors_total", plugin="bad", reason="series") or 0) >= 1
    lines = [line for line in caplog.messages if "10,000 series" in line]
    assert lines == ["skipped metrics of plugin bad: it has more than 10,000 series"]


class Unspeakable(BaseException):
    """Not even an Exception."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def unnamed() -> Metric:
    family = GaugeMetricFamily("fine", "Fine", value=1)
    family.name = "not a name"
    return family


def labelled() -> Metric:
    family = GaugeMetricFamily("long", "Long", labels=["label"])
    family.add_metric(["x" * 10_001], 1)
    return family


@behaviour("supervision/PR4")
@pytest.mark.parametrize(
    ("last", "reason", "text"),
    [
        (Unspeakable, "error", "Unspeakable"),
        (lambda: SystemExit(3), "error", "SystemExit: 3"),
        (lambda: "no metric", "invalid", "a collector gave a str, which is no metric"),
        (unnamed, "invalid", "`not a name` is not the name of a metric"),
        (labelled, "invalid", "long has a label with more than 10,000 characters"),
    ],
)
def test_a_bad_collector_is_counted_and_named_once(start, caplog, last: Any, reason: str, text: str) -> None:
    def collect() -> Iterator[Any]:
        yield GaugeMetricFamily("first", "First", value=7)
        outcome = last()
        if isinstance(outcome, BaseException):
            raise outcome
        yield outcome

    host = start(collecting(collect), **SERVED)
    for count in range(1, 4):
        eventually(
            lambda count=count: (
                fetch(host, "/metrics")[0] == 200
                and (metric(host, "ctrlhost_metrics_collector_errors_total", plugin="bad", reason=reason) or 0) >= count
            )
        )
    status, body = fetch(host, "/metrics")
    assert status == 200
    assert values(body, "first") == [7]
    assert [line for line in caplog.messages if text in line] == [f"skipped metrics of plugin bad: {text}"]
    assert state_of(host, "bad") == "running"


@behaviour("supervision/PR5")
def test_two_plugins_with_one_series_are_served_as_one(ctrlhost_host, hang: Hang) -> None:
    hangs = threading.Event()

    def gauge(value: float) -> Any:
        def collect() -> Any:
            if value == 2 and hangs.is_set():
                hang()
            family = CounterMetricFamily("made", "Made", labels=("kind",))
            family.add_metric(("same",), value)
            family.add_metric((f"of {value}",), value)
            return [family]

        return collect

    host = ctrlhost_host(collecting(gauge(1), "one"), collecting(gauge(2), "two"), **SERVED)
    eventually(lambda: metric(host, "made_total", kind="of 1") and metric(host, "made_total", kind="of 2"))
    hangs.set()
    eventually(lambda: (metric(host, "ctrlhost_metrics_age_seconds", plugin="two") or 0) > 0)
    formats = ["application/openmetrics-text; version=1.0.0", "text/plain"] * 10
    with ThreadPoolExecutor(len(formats)) as pool:
        answers = list(pool.map(lambda accept: fetch(host, "/metrics", accept), formats))
    for accept, (status, body) in zip(formats, answers, strict=True):
        assert status == 200
        parse = open_metrics if "openmetrics" in accept else text_metrics
        families = list(parse(body))
        assert len({family.name for family in families}) == len(families)
        (family,) = [entry for entry in families if entry.name == "made"]
        by_kind = {sample.labels["kind"]: sample.value for sample in family.samples if sample.name == "made_total"}
        assert by_kind == {"same": 1, "of 1": 1, "of 2": 2}
    assert (metric(host, "ctrlhost_metrics_collector_errors_total", plugin="two", reason="duplicate") or 0) >= 1


@behaviour("supervision/PR6")
def test_probes_answer_beside_threads_that_compute(start, good: Good) -> None:
    ends = threading.Event()

    def compute(stop: threading.Event) -> None:
        while not stop.is_set() and not ends.is_set():
            sum(range(1000))

    def setup(plugin: ctrlhost.PluginContext) -> None:
        for number in range(8):
            plugin.add_task(f"compute-{number}", compute)

    host = start(plugin_of(setup, "bad"), **SERVED)
    eventually(lambda: sum(task.running for task in host.host.plugins[0].context.tasks) == 8)
    # The figure is a floor of the benches.
    for endpoint in ("/livez", "/readyz", "/healthz", "/metrics"):
        assert [fetch(host, endpoint)[0] for _ in range(5)] == [200] * 5
    ends.set()
    good.goes_on(host)


@behaviour("supervision/PR7")
def test_health_checks_that_hang_fail_after_their_deadline(start, good: Good, hang: Hang) -> None:
    def setup(plugin: ctrlhost.PluginContext) -> None:
        for number in range(10):
            plugin.add_health_check(f"check-{number}", hang)

    host = start(plugin_of(setup, "bad"), **SERVED)
    status, body = fetch(host, "/healthz?verbose")
    assert status == 200 or "no answer for" in body

    def failed() -> list[str]:
        status, body = fetch(host, "/healthz")
        lines = [line for line in body.splitlines() if line.startswith("[-]") and "no answer for" in line]
        return lines if status == 503 and len(lines) == 10 else []

    lines = eventually(failed)
    assert [line.split(" ")[0] for line in lines] == [f"[-]bad/check-{number}" for number in range(10)]
    assert sum(threads(f"bad/check-{number} check") for number in range(10)) == 10
    # Each check has one thread at most, so these do not end the plugin.
    assert state_of(host, "bad") == "running"
    assert fetch(host, "/healthz/good")[0] == 200
    assert fetch(host, "/readyz")[0] == 200
    good.goes_on(host)


@behaviour("supervision/PR8")
def test_a_check_that_passed_and_hangs_shows_its_age(start, hang: Hang) -> None:
    hangs = threading.Event()
    module = plugin_of(
        lambda plugin: plugin.add_health_check("peers", lambda: hang() if hangs.is_set() else None), "bad"
    )
    host = start(module, supervision={"deadlines": {"probe": 60.0}}, **SERVED)
    eventually(lambda: "[+]bad/peers ok\n" in fetch(host, "/healthz?verbose")[1])
    hangs.set()
    status, body = fetch(host, "/healthz?verbose")
    assert status == 200
    (line,) = [line for line in body.splitlines() if "bad/peers" in line]
    assert line.startswith("[+]bad/peers ok: passed ")
    assert line.endswith(" s ago")


@behaviour("supervision/PR9")
def test_health_of_one_plugin(start, good: Good) -> None:
    def setup(_plugin: ctrlhost.PluginContext) -> None:
        raise RuntimeError("never")

    host = start(plugin_of(setup, "bad"), supervision={"restart_limit": 0}, **SERVED)
    eventually(lambda: state_of(host, "bad") == "failed")
    assert fetch(host, "/healthz/good") == (200, "ok")
    status, body = fetch(host, "/healthz/bad")
    assert status == 503
    assert "[-]plugin/bad failed: failed: ctrlhost_setup: RuntimeError: never" in body
    assert fetch(host, "/healthz/none") == (404, "no plugin none\n")
    assert fetch(host, "/readyz/good") == (200, "ok")
    assert fetch(host, "/readyz/bad")[0] == 503
    assert fetch(host, "/readyz/none")[0] == 404


@behaviour("supervision/PR10")
def test_ready_when_all_or_any(ctrlhost_host, sandbox) -> None:
    fails = threading.Event()

    def raising(_plugin: ctrlhost.PluginContext) -> None:
        raise RuntimeError("never")

    def setup(plugin: ctrlhost.PluginContext) -> None:
        if fails.is_set():
            raise RuntimeError("later")
        plugin.add_controller("all", lambda ctx, request: None, MAPS)

    lines = {}
    for mode, status in (("all", 503), ("any", 200)):
        host = ctrlhost_host(
            plugin_of(raising, "bad"),
            plugin_of(setup, "good"),
            sandbox=sandbox,
            supervision={"restart_delay": 300.0},
            ready_when=mode,
            **SERVED,
        )
        eventually(lambda host=host: state_of(host, "good") == "running" and state_of(host, "bad") == "failing")
        # The state that a probe shows is read on another thread.
        eventually(lambda host=host, status=status: fetch(host, "/readyz")[0] == status)
        body = fetch(host, "/readyz?verbose")[1]
        lines[mode] = [line.partition(" in ")[0] for line in body.splitlines() if "]plugin/" in line]
    assert lines["all"] == lines["any"]
    assert lines["any"][0].startswith("[-]plugin/bad failed: failing: ctrlhost_setup: RuntimeError: never")
    fails.set()
    host.host.plugins[1].entries.fail("on purpose")
    eventually(lambda: fetch(host, "/readyz")[0] == 503)
    assert "[-]plugin/good failed: failing: on purpose" in fetch(host, "/readyz")[1]
    host.host.stopping.set()
    eventually(lambda: "[-]shutdown failed" in fetch(host, "/readyz")[1])


@behaviour("supervision/PR11")
def test_a_degraded_plugin_is_ready(start) -> None:
    host = start(plugin_of(lambda plugin: None, "bad"), **SERVED)
    host.host.plugins[0].entries.degrade("slow", "a call is slow")

    def body() -> str:
        status, text = fetch(host, "/readyz?verbose")
        assert status == 200
        return text

    eventually(lambda: "[+]plugin/bad ok: running, degraded: slow: a call is slow\n" in body())
    assert metric(host, "ctrlhost_plugin_degraded", plugin="bad", reason="slow") == 1


@behaviour("supervision/PR12")
def test_queues_are_shown_in_part_with_totals(start, good: Good, hang: Hang) -> None:
    import json

    module = plugin_of(lambda plugin: plugin.add_controller("c", lambda ctx, request: hang(), MAPS), "bad")
    host = start(module, **SERVED)
    eventually(hang.begun.is_set)
    (controller,) = host.host.plugins[0].controllers
    controller.queue.add_many([ctrlhost.Request(f"key-{number}", "default") for number in range(100_000)])
    for _ in range(20):
        status, body = fetch(host, "/debug/queues")
        assert status == 200
        (page,) = [queue for queue in json.loads(body) if queue["controller"] == "bad/c"]
        assert len(page["queued"]) == 100
        assert page["counts"]["queued"] >= 100_000
    good.goes_on(host)


@behaviour("supervision/PR13")
def test_debug_pages_are_for_this_machine(start) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Nothing is sent: this asks for the address that the machine would use.
        probe.connect(("192.0.2.1", 9))
        own = probe.getsockname()[0]
    assert not own.startswith("127.")
    host = start(plugin_of(lambda plugin: None, "bad"), listen="0.0.0.0:0")
    port = host.host.address.rpartition(":")[2]
    assert fetch(host, "/debug/queues", address=f"{own}:{port}")[0] == 403
    assert fetch(host, "/debug/queues", address=f"127.0.0.1:{port}")[0] == 200
    assert fetch(host, "/livez", address=f"{own}:{port}")[0] == 200


def test_counters_of_a_registry_are_collected(start) -> None:
    def setup(plugin: ctrlhost.PluginContext) -> None:
        Counter("made", "Things made", registry=plugin.metrics).inc(2)
        Gauge("held", "Things held", ["kind"], registry=plugin.metrics).labels("a").set(1)

    host = start(plugin_of(setup, "bad"))
    eventually(lambda: metric(host, "made_total") == 2 and metric(host, "held", kind="a") == 1)
