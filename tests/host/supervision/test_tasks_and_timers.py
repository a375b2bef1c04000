"""Tasks, timers, rate limiters and panics of a plugin."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import ctrlhost
from ctrlhost import Every, For, Request
from ctrlhost.plugin import task as tasks
from ctrlhost.testing import ManualClock
from tests.host.supervision.test_probes import SERVED, Collects, fetch
from tests.support.misbehaviour import Good, Hang, metric, reason_of, state_of
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour
MINE = For("v1", "ConfigMap", label_selector="mine")


def mine(name: str) -> dict[str, Any]:
    return config_map(name, labels={"mine": "1"})


@behaviour("supervision/EN19")
def test_a_task_that_hangs_is_not_started_twice(start, good: Good, hang: Hang, caplog, monkeypatch) -> None:
    monkeypatch.setattr(tasks, "_LEAST_DEADLINE", 0.2)
    stubborn: list[int] = []
    every: list[int] = []
    other: list[int] = []
    attempts: list[int] = []
    hangs_often = Hang()

    def setup(plugin: ctrlhost.PluginContext) -> None:
        attempts.append(1)
        number = len(attempts)

        def run(_stop: threading.Event) -> None:
            stubborn.append(number)
            if number == 1:
                hang()

        def often(_stop: threading.Event) -> None:
            every.append(number)
            if number == 1:
                hangs_often()

        plugin.add_task("stubborn", run)
        plugin.add_task("often", often, every=0.05)
        plugin.add_task("other", lambda stop: other.append(number))

    host = start(plugin_of(setup, "bad"), supervision={"restart_delay": 0.1})
    (bad, _) = host.host.plugins
    eventually(lambda: stubborn and every and other)
    # Only the task with a period has a deadline.
    eventually(lambda: metric(host, "ctrlhost_entry_overdue", plugin="bad", entry="task") == 1)
    assert [line.partition(" runs for ")[0] for line in caplog.messages if " runs for " in line] == [
        "plugin bad: task of bad/often"
    ]
    bad.entries.fail("on purpose")
    eventually(lambda: other == [1, 2])
    lines = [line for line in caplog.messages if "does not start again" in line]
    assert sorted(lines) == [
        "task bad/often does not start again: its call from before the restart still runs",
        "task bad/stubborn does not start again: its call from before the restart still runs",
    ]
    assert (stubborn, every) == ([1], [1])
    eventually(lambda: state_of(host, "bad") == "running")
    hangs_often.release()
    eventually(lambda: 2 in every)
    assert stubborn == [1]
    hang.release()
    eventually(lambda: stubborn == [1, 2])
    assert metric(host, "ctrlhost_entry_overruns_total", plugin="bad", entry="task") == 1
    good.goes_on(host)


@behaviour("supervision/EN20")
def test_requests_of_a_timer_that_hang_or_exit(ctrlhost_host, good: Good, hang: Hang, caplog) -> None:
    clock = ManualClock()
    hanging: list[float] = []
    exiting: list[float] = []
    fine: list[float] = []

    def hangs() -> list[Request]:
        hanging.append(clock.now())
        if len(hanging) == 1:
            hang()
        return []

    def exits() -> list[Request]:
        exiting.append(clock.now())
        raise SystemExit(3)

    def note() -> list[Request]:
        fine.append(clock.now())
        return []

    def timer(requests: Callable[[], list[Request]]) -> tuple[Any, ...]:
        return (lambda ctx, request: None, MINE, Every(10, requests=requests))

    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("hangs", *timer(hangs))
        plugin.add_controller("exits", *timer(exits))

    host = ctrlhost_host(
        plugin_of(setup, "bad"),
        plugin_of(lambda plugin: plugin.add_controller("c", *timer(note)), "fine"),
        good.module,
        clock=clock,
        supervision={"bad": {"deadlines": {"callback": 0.5}}},
    )
    for count in range(1, 4):
        clock.advance(10)
        eventually(lambda count=count: hanging and len(fine) == len(exiting) == count)
        # They have the moment of their next round; a later one skips those that it missed.
        eventually(lambda: not any(host.controllers[name].busy() for name in ("bad/exits", "fine/c")))
    eventually(lambda: metric(host, "ctrlhost_entry_overdue", plugin="bad", entry="requests") == 1)
    assert any(line.startswith("plugin bad: requests runs for ") for line in caplog.messages)
    assert hanging == [10]
    assert fine == exiting == [10, 20, 30]
    assert state_of(host, "bad") == "running"
    hang.release()
    eventually(lambda: metric(host, "ctrlhost_entry_overdue", plugin="bad", entry="requests") == 0)

    def ticked() -> bool:
        clock.advance(10)
        return len(hanging) > 1

    eventually(ticked, pause=0.05)
    good.goes_on(host)


@behaviour("supervision/EN21")
def test_a_rate_limiter_that_hangs_is_reported(start, good: Good, hang: Hang, caplog) -> None:
    class Limiter:
        def when(self, _key: Any) -> float:
            hang()
            return 0.01

        def forget(self, _key: Any) -> None:
            pass

        def num_requeues(self, _key: Any) -> int:
            return 0

    runs: list[str] = []

    def reconcile(_ctx: Any, request: Request) -> None:
        runs.append(request.name)
        if len(runs) == 1:
            raise RuntimeError("once")

    module = plugin_of(
        lambda plugin: plugin.add_controller("c", reconcile, MINE, rate_limiter=Limiter(), workers=2), "bad"
    )
    host = start(module, controllers={"bad/c": {"slow_after": 1.0}})
    host.client.create(mine("first"))
    eventually(lambda: metric(host, "ctrlhost_entry_overdue", plugin="bad", entry="limiter") == 1)
    eventually(lambda: metric(host, "ctrlhost_entry_overdue", plugin="bad", entry="reconcile") == 1)
    key = Request("first", "default")
    for entry in ("limiter", "reconcile"):
        assert any(line.startswith(f"plugin bad: {entry} of {key} runs for ") for line in caplog.messages)
    # One thread hangs, although two entries are overdue.
    assert metric(host, "ctrlhost_plugin_stuck_threads", plugin="bad") == 1
    good.goes_on(host)
    host.client.create(mine("second"))
    eventually(lambda: "second" in runs)
    hang.release()
    eventually(lambda: runs.count("first") == 2)


class PanicException(BaseException):
    """As pyo3 raises for a panic in Rust: no Exception."""


@behaviour("supervision/EN5")
@pytest.mark.parametrize("hook", ["setup", "synced"])
def test_a_panic_in_a_hook_fails_its_plugin(start, good: Good, hook: str) -> None:
    def panics(*_: Any) -> None:
        raise PanicException("index out of bounds")

    module = plugin_of(panics, "bad") if hook == "setup" else plugin_of(lambda plugin: None, "bad", synced=panics)
    host = start(module)
    eventually(lambda: state_of(host, "bad") == "failing")
    assert f"ctrlhost_{hook}: PanicException: index out of bounds" in reason_of(host, "bad")
    good.goes_on(host)


@behaviour("supervision/EN5")
def test_a_panic_elsewhere_is_contained(start, good: Good, caplog) -> None:
    def panics(*_: Any) -> Any:
        raise PanicException("index out of bounds")

    async def page(*_: Any) -> None:
        panics()

    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("reconcile", panics, MINE)
        plugin.add_controller("map", lambda ctx, request: None, MINE, ctrlhost.Watches("v1", "Secret", map=panics))
        plugin.add_task("task", panics)
        plugin.add_page("/page", page)
        plugin.add_health_check("check", panics)
        plugin.metrics.register(Collects(panics))

    host = start(plugin_of(setup, "bad"), **SERVED)
    host.client.create(mine("first"))
    host.client.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mapped", "namespace": "default"}})
    (bad, _) = host.host.plugins
    eventually(lambda: "PanicException" in (host.controllers["bad/reconcile"].status().last_error or ""))
    eventually(lambda: [record for record in caplog.records if "a map function failed" in record.getMessage()])
    (failed,) = [record for record in caplog.records if "a map function failed" in record.getMessage()]
    assert failed.exc_info[0] is PanicException
    eventually(lambda: "PanicException" in (bad.context.tasks[0].error or ""))
    assert fetch(host, "/bad/page")[0] == 500
    assert any("page" in line and "PanicException" in line for line in caplog.messages)
    eventually(lambda: "bad/check failed: PanicException" in fetch(host, "/healthz")[1])
    assert fetch(host, "/metrics")[0] == 200
    eventually(lambda: (metric(host, "ctrlhost_metrics_collector_errors_total", plugin="bad", reason="error") or 0) > 0)
    assert any("skipped metrics of plugin bad: PanicException" in line for line in caplog.messages)
    eventually(lambda: state_of(host, "bad") == "running")
    good.goes_on(host)
