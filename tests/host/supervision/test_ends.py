"""The ends of hosts and of attempts: what a late thread, a second call or a mistake of one plugin must not touch."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import pytest

import ctrlhost
from ctrlhost import For
from ctrlhost.entries import Entries
from ctrlhost.supervisor.deadlines import Deadlines
from ctrlhost.supervisor.restart import Restarts
from tests.support.misbehaviour import Good, Hang, metric, reason_of, state_of
from tests.support.plugin_modules import plugin_of
from tests.support.waiting import eventually

MAPS = For("v1", "ConfigMap")
SOON = {"restart_delay": 0.05}


def test_a_plugin_whose_registration_hung_is_registered_again(start, good: Good, hang: Hang) -> None:
    class Bad:
        calls = 0

        def __dir__(self) -> Iterable[str]:
            Bad.calls += 1
            if Bad.calls == 1:
                hang()
            return super().__dir__()

        @ctrlhost.hookimpl
        def ctrlhost_setup(self, plugin: ctrlhost.PluginContext) -> None:
            plugin.add_controller("all", lambda _ctx, _request: None, MAPS)

    host = start(Bad(), supervision=SOON)
    eventually(lambda: state_of(host, "bad") in ("running", "failed"))
    assert (state_of(host, "bad"), reason_of(host, "bad")) == ("running", "")
    hang.release()
    good.goes_on(host)
    assert state_of(host, "bad") == "running"


def test_the_late_end_of_a_set_up_keeps_the_series_of_the_next_attempt(start, good: Good, hang: Hang) -> None:
    threads: list[threading.Thread] = []

    def setup(plugin: ctrlhost.PluginContext) -> None:
        threads.append(threading.current_thread())
        plugin.add_controller("all", lambda _ctx, _request: None, MAPS)
        if len(threads) == 1:
            hang()

    host = start(plugin_of(setup, "bad"), supervision=SOON)
    eventually(lambda: state_of(host, "bad") == "running")
    good.goes_on(host)
    name, labels = "controller_runtime_reconcile_total", {"controller": "bad/all", "result": "success"}
    eventually(lambda: metric(host, name, **labels))
    hang.release()
    threads[0].join()
    assert metric(host, name, **labels)


def test_a_source_that_cannot_be_declared_fails_only_its_plugin(start, good: Good) -> None:
    class Undeclared(For):
        def declare(self, *_: Any) -> None:
            raise RuntimeError("no reads")

    host = start(
        plugin_of(lambda plugin: plugin.add_controller("all", print, Undeclared("v1", "ConfigMap")), "bad"),
        supervision={"restart_limit": 0},
    )
    eventually(lambda: state_of(host, "bad") == "failed")
    assert "RuntimeError: no reads" in reason_of(host, "bad")
    good.goes_on(host)


def test_a_restart_shows_nothing_of_the_failed_attempt(start) -> None:
    contexts: list[Any] = []
    seen: list[Any] = []

    def setup(plugin: ctrlhost.PluginContext) -> None:
        contexts.append(plugin)
        plugin.add_controller("all", lambda _ctx, _request: None, MAPS)

    def synced() -> None:
        if len(contexts) == 1:
            raise RuntimeError("first")

    host = start(plugin_of(setup, "bad", synced=synced), begin=False, supervision=SOON)
    (bad, _) = host.host.plugins
    changed = bad._changed

    def note() -> None:
        if bad.state == "starting" and contexts:
            seen.append(bad.context)
        changed()

    bad._changed = note
    host.start()
    eventually(lambda: state_of(host, "bad") == "running" and len(contexts) == 2)
    assert seen
    assert contexts[0] not in seen
    assert bad.error is None


@pytest.mark.parametrize("stopped", [False, True])
def test_a_host_starts_only_once(start, good: Good, stopped: bool) -> None:
    host = start(plugin_of(lambda plugin: plugin.add_controller("all", print, MAPS), "bad"), begin=not stopped)
    if stopped:
        host.host.stop(0)
    with pytest.raises(RuntimeError, match="starts only once"):
        host.host.start()
    if not stopped:
        good.goes_on(host)


def test_deadlines_outlive_a_check_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    checked = threading.Event()
    bad, good = Entries("bad"), Entries("good")

    def raises(_excused: float) -> None:
        raise RuntimeError("check")

    bad.watch(raises, 0.01)
    good.watch(lambda _excused: checked.set(), 0.01)
    deadlines = Deadlines(lambda: [bad, good])
    deadlines.start()
    try:
        for _ in range(2):
            checked.clear()
            assert checked.wait(30)
    finally:
        deadlines.stop()
    assert "plugin bad" in caplog.text


def test_the_pauses_of_very_many_restarts_are_bounded() -> None:
    restarts = Restarts(limit=2000, delay=0.1)
    pauses = [restarts.next_pause(None) for _ in range(2000)]
    assert all(pause is not None and pause <= 360 for pause in pauses)
    assert restarts.next_pause(None) is None
