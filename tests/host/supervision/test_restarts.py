"""Restarts of a plugin: pauses, limits, clean-up, and what the others feel of it."""

from __future__ import annotations

import re
import threading
import urllib.error
import urllib.request
from typing import Any

import pytest
from prometheus_client import Counter
from starlette.responses import PlainTextResponse

import ctrlhost
from ctrlhost import ConfigError, For
from ctrlhost.testing import ManualClock
from tests.support.misbehaviour import Good, Hang, metric, reason_of, state_of
from tests.support.objects import crd
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour
MAPS = For("v1", "ConfigMap")


class Failing:
    """A set-up that raises in its first calls; then it registers a controller."""

    def __init__(self, failures: float = float("inf")) -> None:
        self.calls = 0
        self.failures = failures
        self.runs: list[str] = []

    def __call__(self, plugin: ctrlhost.PluginContext) -> None:
        self.calls += 1
        if self.calls <= self.failures:
            raise RuntimeError(f"failure {self.calls}")
        plugin.add_controller("all", lambda ctx, request: self.runs.append(request.name), MAPS)


def states(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the states of `bad` that the log names, in order."""
    matches = [re.match(r"plugin bad (failing|failed|waiting|running|restarts)\b", line) for line in caplog.messages]
    return [match[1] for match in matches if match]


@behaviour("supervision/LC1")
def test_pauses_grow_and_each_failure_is_one_line(start, good: Good, caplog) -> None:
    caplog.set_level("INFO")
    clock = ManualClock()
    failing = Failing(2)
    host = start(plugin_of(failing, "bad"), clock=clock, supervision={"restart_delay": 1.0})
    (bad, _) = host.host.plugins
    for count, least, most in ((1, 1.0, 1.2), (2, 2.0, 2.4)):
        eventually(lambda count=count: failing.calls == count and state_of(host, "bad") == "failing")
        assert f"restart {count} of 10 in " in bad.checks()[0].detail
        pause = bad.restarts_in()
        assert least <= pause <= most
        clock.advance(pause * 0.99)
        assert state_of(host, "bad") == "failing"
        clock.advance(pause * 0.02)
    # The state comes before its line.
    eventually(lambda: states(caplog) == ["failing", "restarts", "failing", "restarts", "running"])
    assert state_of(host, "bad") == "running"
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [error.getMessage().partition(" (")[0] for error in errors] == [
        "plugin bad failing: ctrlhost_setup: RuntimeError: failure 1",
        "plugin bad failing: ctrlhost_setup: RuntimeError: failure 2",
    ]
    assert metric(host, "ctrlhost_plugin_restarts_total", plugin="bad", reason="error") == 2
    good.goes_on(host)


@behaviour("supervision/LC2")
@pytest.mark.parametrize("limit", [3, 0])
def test_restarts_end_at_the_limit(start, good: Good, caplog, limit: int) -> None:
    failing = Failing()
    host = start(plugin_of(failing, "bad"), supervision={"restart_limit": limit, "restart_delay": 0.01})
    eventually(lambda: state_of(host, "bad") == "failed")
    assert failing.calls == limit + 1
    assert state_of(host, "good") == "running"
    good.goes_on(host)
    assert failing.calls == limit + 1
    assert not [line for line in caplog.messages if line.startswith("plugin good") and "fail" in line]
    assert metric(host, "ctrlhost_plugin_state", plugin="bad", state="failed") == 1


@behaviour("supervision/LC3")
def test_a_failed_import_is_tried_again(start, distributions) -> None:
    distributions.add("bad", "raise RuntimeError('not yet')", module="bad_that_is_repaired")
    host = start("bad", supervision={"restart_delay": 0.5})
    eventually(lambda: state_of(host, "bad") == "failing")
    assert "could not be imported: RuntimeError: not yet" in reason_of(host, "bad")
    source = "import ctrlhost\n\n@ctrlhost.hookimpl\ndef ctrlhost_crds():\n    return []\n"
    (distributions.folder / "bad_that_is_repaired.py").write_text(source)
    eventually(lambda: state_of(host, "bad") == "running", 60)


@behaviour("supervision/LC4")
def test_nothing_is_left_of_a_failed_set_up(start, good: Good) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    clock = ManualClock()
    attempts: list[int] = []
    ticks: list[int] = []
    before = set(threading.enumerate())

    def workers() -> list[str]:
        return sorted(
            thread.name for thread in set(threading.enumerate()) - before if thread.name.startswith("bad/all worker")
        )

    def synced() -> None:
        if len(attempts) == 1:
            raise RuntimeError("first")

    def setup(plugin: ctrlhost.PluginContext) -> None:
        attempts.append(1)
        number = len(attempts)
        plugin.add_controller("all", lambda ctx, request: None, MAPS, workers=2)
        plugin.add_task("tick", lambda stop: ticks.append(number))
        plugin.add_page("/page", PlainTextResponse("page"))
        plugin.add_listener(f"127.0.0.1:{port}", PlainTextResponse("listener"))
        plugin.add_health_check("fine", lambda: None)
        Counter("made", "Things made", registry=plugin.metrics).inc(number)

    host = start(
        plugin_of(setup, "bad", synced=synced), clock=clock, listen="127.0.0.1:0", supervision={"restart_delay": 1.0}
    )
    eventually(lambda: state_of(host, "bad") == "failing")

    def get(address: str) -> int:
        try:
            with urllib.request.urlopen(f"http://{address}", timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    own = host.host.address
    assert get(f"{own}/bad/page") == 404
    eventually(lambda: get(f"127.0.0.1:{port}/") == 0)
    assert metric(host, "made_total") is None
    eventually(lambda: get(f"{own}/readyz") == 503)
    eventually(lambda: get(f"{own}/healthz/bad") == 503)
    assert [check for check in host.host.inspection.checks("healthz") if check.name == "bad/fine"] == []
    clock.advance(1.3)
    eventually(lambda: state_of(host, "bad") == "running")
    eventually(lambda: ticks == [2])
    assert get(f"{own}/bad/page") == 200
    assert get(f"127.0.0.1:{port}/") == 200
    assert metric(host, "made_total") == 2
    eventually(lambda: get(f"{own}/readyz") == 200)
    eventually(lambda: get(f"{own}/healthz/bad") == 200)
    eventually(lambda: workers() == ["bad/all worker 0", "bad/all worker 1"])
    assert [controller.name for controller in host.host.plugins[0].controllers] == ["bad/all"]
    good.goes_on(host)


@behaviour("supervision/LC6")
def test_a_restart_calls_synced_again_with_full_caches(start, good: Good) -> None:
    seen: list[int] = []
    runs: list[str] = []

    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.state = plugin.informer("v1", "ConfigMap")
        plugin.add_controller("all", lambda ctx, request: runs.append(request.name), MAPS)

    def synced(plugin: ctrlhost.PluginContext) -> None:
        seen.append(len(plugin.state.lister.list()))
        if len(seen) == 1:
            raise RuntimeError("once")

    host = start(plugin_of(setup, "bad", synced=synced), begin=False, supervision={"restart_delay": 0.05})
    for name in ("one", "two", "three"):
        host.client.create(config_map(name))
    host.start()
    eventually(lambda: state_of(host, "bad") == "running")
    host.run_until_idle()
    assert len(seen) == 2
    assert seen[0] == seen[1] >= 3
    assert {"one", "two", "three"} <= set(runs)


@behaviour("supervision/LC7")
def test_ten_minutes_without_a_failure_reset_the_count(start) -> None:
    clock = ManualClock()
    host = start(plugin_of(lambda plugin: None, "bad"), clock=clock, supervision={"restart_delay": 1.0})
    (bad, _) = host.host.plugins

    def fail() -> float:
        """Fail the plugin; return the pause before its restart."""
        eventually(lambda: state_of(host, "bad") == "running")
        bad.entries.fail("on purpose")
        return float(bad.restarts_in())

    for least, most in ((1.0, 1.2), (2.0, 2.4)):
        pause = fail()
        assert least <= pause <= most
        clock.advance(pause + 0.01)
    eventually(lambda: state_of(host, "bad") == "running")
    clock.advance(600)
    assert 1.0 <= fail() <= 1.2


@behaviour("supervision/LC8")
def test_a_long_pause_does_not_delay_the_shutdown(start) -> None:
    host = start(plugin_of(Failing(), "bad"), supervision={"restart_delay": 300.0})
    eventually(lambda: state_of(host, "bad") == "failing")
    ended = threading.Event()
    threading.Thread(target=lambda: (host.stop(60), ended.set())).start()
    assert ended.wait(30)
    assert state_of(host, "bad") == "stopped"


@behaviour("supervision/LC10")
def test_a_restart_comes_before_the_wait_for_a_kind(start) -> None:
    failing = Failing(1)

    def setup(plugin: ctrlhost.PluginContext) -> None:
        failing(plugin)
        plugin.add_controller("widgets", lambda ctx, request: None, For("example.com/v1", "Widget"))

    host = start(plugin_of(setup, "bad"), supervision={"restart_delay": 0.5})
    eventually(lambda: state_of(host, "bad") == "failing")
    eventually(lambda: state_of(host, "bad") == "waiting")
    assert "Widget (example.com/v1)" in reason_of(host, "bad")
    host.client.create(crd("example.com", "Widget"))
    eventually(lambda: state_of(host, "bad") == "running", 60)


@behaviour("supervision/LC11")
def test_a_disabled_plugin_is_not_imported(ctrlhost_host, distributions) -> None:
    distributions.add("bad", "raise SystemExit('imported')", module="bad_that_is_disabled")
    good = Good()
    host = ctrlhost_host("bad", good.module, supervision={"bad": {"enabled": False}})
    assert state_of(host, "bad") == "disabled"
    good.goes_on(host)
    checks = host.host.inspection.checks("readyz")
    assert all(check.passed for check in checks)
    assert "[+]plugin/bad ok: disabled" in map(str, checks)
    assert metric(host, "ctrlhost_plugin_state", plugin="bad", state="disabled") == 1
    with pytest.raises(ConfigError, match="every plugin is disabled"):
        ctrlhost_host("bad", supervision={"enabled": False})


@behaviour("supervision/LC15")
def test_a_restart_loses_no_object(start, good: Good) -> None:
    runs: dict[int, list[str]] = {1: [], 2: []}
    twice: list[str] = []
    attempts: list[int] = []
    objects: dict[str, Any] = {}
    slow = threading.Event()

    def setup(plugin: ctrlhost.PluginContext) -> None:
        attempts.append(1)
        number, running = len(attempts), set()

        def reconcile(ctx: ctrlhost.Context, request: ctrlhost.Request) -> Any:
            if request in running:
                twice.append(request.name)
            running.add(request)
            runs[number].append(request.name)
            if number == 1:
                slow.wait(0.002)
            else:
                objects[request.name] = ctx.get(request)
            running.discard(request)
            return ctrlhost.Result(requeue_after=1000) if request.name.endswith("7") else None

        plugin.add_controller("c", reconcile, For("v1", "ConfigMap", label_selector="mine"), workers=4)

    host = start(plugin_of(setup, "bad"), begin=False, supervision={"restart_delay": 0.05})
    names = [f"map-{number}" for number in range(1000)]
    for name in names:
        host.client.create(config_map(name, labels={"mine": "1"}))
    host.start()
    eventually(lambda: len(runs[1]) > 100)
    host.host.plugins[0].entries.fail("on purpose")
    host.client.delete("v1", "ConfigMap", "map-999", "default")
    eventually(lambda: state_of(host, "bad") == "running" and len(attempts) == 2, 60)
    host.run_until_idle()
    assert set(names[:-1]) <= set(runs[2])
    assert twice == []
    assert objects.get("map-999") is None
    assert objects["map-0"] is not None


def test_the_queue_of_a_restarted_plugin_counts_from_zero(start, hang) -> None:
    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("c", lambda ctx, request: hang(), For("v1", "ConfigMap", label_selector="mine"))

    host = start(plugin_of(setup, "bad"), supervision={"restart_delay": 0.05})
    for number in range(3):
        host.client.create(config_map(f"map-{number}", labels={"mine": "1"}))
    eventually(lambda: metric(host, "workqueue_adds_total", name="bad/c") == 3)
    host.client.delete("v1", "ConfigMap", "map-2", "default")
    host.host.plugins[0].entries.fail("on purpose")
    # The old queue still exists, since its worker hangs; it must not be counted.
    eventually(lambda: state_of(host, "bad") == "running" and metric(host, "workqueue_adds_total", name="bad/c") == 2)


@behaviour("supervision/LC16")
def test_a_failure_at_the_shutdown_ends_in_a_final_state(ctrlhost_host, sandbox) -> None:
    for number in range(200):
        host = ctrlhost_host(
            plugin_of(lambda plugin: None, "bad"), sandbox=sandbox, supervision={"bad": {"restart_delay": 0.001}}
        )
        both = threading.Barrier(2)
        (bad,) = host.host.plugins

        def fail(bad: Any = bad, both: threading.Barrier = both) -> None:
            both.wait()
            bad.entries.fail("at the same moment")

        failing = threading.Thread(target=fail)
        failing.start()
        both.wait()
        host.stop(30)
        failing.join()
        eventually(lambda bad=bad: bad.state in ("stopped", "failed"), what=f"round {number}: {bad}")


@behaviour("supervision/LC19")
def test_one_that_hangs_costs_the_others_no_drain(start, good: Good, hang: Hang) -> None:
    begun, ended = threading.Event(), threading.Event()

    def reconcile(_ctx: Any, request: Any) -> None:
        if request.name == "hang":
            hang()

    def finish(_ctx: Any, request: Any) -> None:
        if request.name == "finish":
            begun.set()
            hang.begun.wait(20)
            stopping.wait(20)
            ended.set()

    stopping = threading.Event()
    fine = plugin_of(
        lambda plugin: plugin.add_controller("c", finish, MAPS), "fine", stopping=lambda plugin: stopping.set()
    )
    host = start(plugin_of(lambda plugin: plugin.add_controller("c", reconcile, MAPS), "bad"), begin=False)
    host.host._add(fine)
    host.start()
    host.client.create(config_map("hang"))
    host.client.create(config_map("finish"))
    assert hang.begun.wait(30)
    assert begun.wait(30)
    assert host.stop(3) is False
    assert ended.is_set()
    assert state_of(host, "fine") == "stopped"
