"""Reconciles that hang or take long: reported while they run, replaced, and bounded."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import ctrlhost
from ctrlhost import For, Request
from tests.support.misbehaviour import Good, Hang, metric, reason_of, state_of
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour
MINE = For("v1", "ConfigMap", namespaces=["default"], label_selector="mine")
SLOW = {"bad/c": {"slow_after": 0.5}}


def mine(name: str) -> dict[str, Any]:
    return config_map(name, labels={"mine": "1"})


class Bad:
    """Hangs in the runs of some keys; notes all runs, and those that run at the same time."""

    def __init__(self, hang: Hang, *names: str) -> None:
        self.hang = hang
        self.names = set(names)
        self.runs: list[str] = []
        self.ended: list[str] = []
        self.twice: list[str] = []
        self._running: list[str] = []
        self.error: Exception | None = None

    def reconcile(self, _ctx: ctrlhost.Context, request: Request) -> None:
        if request.name in self._running:
            self.twice.append(request.name)
        self._running.append(request.name)
        self.runs.append(request.name)
        if request.name in self.names:
            self.hang()
        self._running.remove(request.name)
        self.ended.append(request.name)
        if self.error is not None and request.name in self.names:
            error, self.error = self.error, None
            raise error

    def module(self, **options: Any) -> Any:
        return plugin_of(lambda plugin: plugin.add_controller("c", self.reconcile, MINE, **options), "bad")


def reports(caplog: pytest.LogCaptureFixture, text: str) -> list[Any]:
    return [record for record in caplog.records if text in record.getMessage()]


@behaviour("supervision/EN11")
@behaviour("supervision/EN12")
def test_a_reconcile_that_hangs_is_named_and_another_worker_starts(start, good: Good, hang: Hang, caplog) -> None:
    bad = Bad(hang, "first")
    host = start(bad.module(), controllers=SLOW)
    host.client.create(mine("first"))
    eventually(lambda: reports(caplog, "runs for"))
    (report,) = reports(caplog, "runs for")
    key = Request("first", "default")
    assert report.getMessage().startswith(f"plugin bad: reconcile of {key} runs for ")
    assert report.getMessage().endswith("(deadline 0.5 s)")
    assert report.levelname == "WARNING"
    assert (report.plugin, report.entry, report.controller) == ("bad", "reconcile", "bad/c")
    assert report.key == str(key)
    assert report.seconds >= 0.5
    assert any(line.endswith(" reconcile") and "test_slow_reconciles.py" in line for line in report.stack)
    assert metric(host, "ctrlhost_entry_overdue", plugin="bad", entry="reconcile") == 1
    assert metric(host, "ctrlhost_entry_overruns_total", plugin="bad", entry="reconcile") == 1
    assert metric(host, "controller_runtime_reconcile_timeouts_total", controller="bad/c") == 1
    assert metric(host, "ctrlhost_plugin_degraded", plugin="bad", reason="slow") == 1
    assert metric(host, "ctrlhost_plugin_stuck_threads", plugin="bad") == 1
    longest = metric(host, "ctrlhost_reconcile_longest_running_seconds", controller="bad/c")
    assert longest is not None
    eventually(lambda: metric(host, "ctrlhost_reconcile_longest_running_seconds", controller="bad/c") > longest)
    assert state_of(host, "bad") == "running"
    # EN12: one worker, and the second key runs at once.
    host.client.create(mine("second"))
    eventually(lambda: "second" in bad.runs)
    assert bad.runs == ["first", "second"]
    host.client.apply(mine("first") | {"data": {"a": "1"}}, field_manager="test", force=True)
    good.goes_on(host)
    hang.release()
    eventually(lambda: metric(host, "ctrlhost_plugin_stuck_threads", plugin="bad") == 0)
    assert bad.twice == []
    assert len(reports(caplog, "runs for")) == 1


@behaviour("supervision/EN13")
@pytest.mark.parametrize("error", [None, RuntimeError("late")])
def test_a_late_result_is_used(start, hang: Hang, caplog, error: Exception | None) -> None:
    bad = Bad(hang, "first")
    bad.error = error
    host = start(bad.module(), controllers=SLOW)
    host.client.create(mine("first"))
    eventually(lambda: metric(host, "ctrlhost_entry_overdue", plugin="bad", entry="reconcile") == 1)
    # Events meanwhile: one further run.
    for number in range(3):
        host.client.apply(mine("first") | {"data": {"a": str(number)}}, field_manager="test", force=True)
    (controller,) = host.host.plugins[0].controllers
    newest = host.client.get("v1", "ConfigMap", "first", "default")["metadata"]["resourceVersion"]
    (informer,) = controller.informers
    eventually(lambda: int(informer.last_resource_version) >= int(newest) and not informer.pending)
    hang.release()
    eventually(lambda: reports(caplog, "returned after"))
    (line,) = reports(caplog, "returned after")
    assert line.getMessage().endswith("result used")
    host.run_until_idle()
    eventually(lambda: len(bad.ended) >= 2)
    host.run_until_idle()
    assert metric(host, "ctrlhost_entry_overdue", plugin="bad", entry="reconcile") == 0
    assert host.host.plugins[0].entries.degraded == {}
    assert metric(host, "controller_runtime_reconcile_errors_total", controller="bad/c") == (error is not None)
    # The events meanwhile gave one further run; the error a retry, which may be the same run.
    assert len(bad.runs) in ((2,) if error is None else (2, 3))
    assert controller.queue.num_requeues(Request("first", "default")) == 0
    assert bad.twice == []


@behaviour("supervision/EN15")
def test_an_async_run_is_cancelled_once_at_its_timeout(start, good: Good) -> None:
    cancelled: list[str] = []
    again = threading.Event()

    async def reconcile(_ctx: ctrlhost.Context, request: Request) -> None:
        if cancelled:
            again.set()
            return
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            cancelled.append(request.name)
            raise

    host = start(plugin_of(lambda plugin: plugin.add_controller("c", reconcile, MINE, timeout=0.5), "bad"))
    host.client.create(mine("first"))
    assert again.wait(30)
    assert cancelled == ["first"]
    assert metric(host, "controller_runtime_reconcile_errors_total", controller="bad/c") == 1
    assert metric(host, "controller_runtime_reconcile_timeouts_total", controller="bad/c") == 1
    (controller,) = host.host.plugins[0].controllers
    assert controller.status().last_error == "TimeoutError: the reconcile was cancelled at its timeout of 0.5 s"


@behaviour("supervision/EN16")
def test_a_run_that_ignores_its_cancellation_gets_a_replacement(start, good: Good, caplog) -> None:
    runs: list[str] = []
    release = threading.Event()

    async def reconcile(_ctx: ctrlhost.Context, request: Request) -> None:
        runs.append(request.name)
        while request.name == "first" and not release.is_set():
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                continue

    host = start(plugin_of(lambda plugin: plugin.add_controller("c", reconcile, MINE, timeout=0.2), "bad"))
    host.client.create(mine("first"))
    eventually(lambda: reports(caplog, "runs for"))
    (report,) = reports(caplog, "runs for")
    assert (report.entry, report.controller) == ("reconcile", "bad/c")
    assert any("reconcile" in line for line in report.stack)
    host.client.create(mine("second"))
    eventually(lambda: "second" in runs)
    release.set()
    eventually(lambda: reports(caplog, "returned after"))


@behaviour("supervision/EN18")
def test_stuck_threads_are_bounded(start, good: Good, hang: Hang) -> None:
    bad = Bad(hang, *(f"key-{number}" for number in range(20)))
    for number in range(20):
        bad.names.add(f"key-{number}")
    host = start(
        bad.module(),
        controllers=SLOW,
        supervision={"stuck_limit": 2, "restart_delay": 0.1, "deadlines": {"hook": 10}},
    )
    for number in range(20):
        host.client.create(mine(f"key-{number}"))
    most = 0
    states: set[str] = set()

    def failed() -> bool:
        nonlocal most
        states.add(state_of(host, "bad"))
        workers = [thread for thread in threading.enumerate() if thread.name.startswith("bad/c worker")]
        most = max(most, len(workers))
        return state_of(host, "bad") == "failed"

    eventually(failed, 60)
    assert "failing" in states
    assert "8 threads of all its attempts hang" in reason_of(host, "bad")
    assert 'process = "own"' in reason_of(host, "bad")
    assert most <= 8 + 1
    assert metric(host, "ctrlhost_plugin_stuck_threads", plugin="bad") == 8
    good.goes_on(host)
    hang.release()
    eventually(lambda: metric(host, "ctrlhost_plugin_stuck_threads", plugin="bad") == 0)
    hang.release()
    eventually(lambda: metric(host, "ctrlhost_plugin_stuck_threads", plugin="bad") == 0)
