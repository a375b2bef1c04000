"""Tasks and timers whose threads are slow: between two waits for the clock, their work is known all the same."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import ctrlhost
from ctrlhost import Every, Request
from ctrlhost.entries import Entries
from ctrlhost.testing import ManualClock
from ctrlhost.testing.idle import PendingWork
from tests.support.plugin_modules import plugin_of
from tests.unit.testing.settling import ANN, not_settled, reconciling

#: How often a host is looked at while a thread is between two waits.
_LOOKS = 3


@pytest.fixture(params=["before the call", "before the wait"])
def slow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hold the threads of tasks and timers, before they call or wait, until the host was looked at some times."""
    looked = threading.Semaphore(0)
    look, opened, waited = PendingWork.stamp, Entries.open, ManualClock._wait

    def counted(self: PendingWork) -> Any:
        looked.release()
        return look(self)

    def hold() -> None:
        if threading.current_thread().name.endswith((" task", " timer")):
            for _ in range(_LOOKS):
                # If nobody looks any more, the test fails.
                looked.acquire(timeout=1)

    def slow_open(self: Entries, name: str, **options: Any) -> Any:
        hold()
        return opened(self, name, **options)

    def slow_wait(self: ManualClock, *arguments: Any) -> bool:
        hold()
        return waited(self, *arguments)

    monkeypatch.setattr(PendingWork, "stamp", counted)
    if request.param == "before the call":
        monkeypatch.setattr(Entries, "open", slow_open)
    else:
        monkeypatch.setattr(ManualClock, "_wait", slow_wait)
    yield
    looked.release(1000)


@pytest.mark.usefixtures("slow")
def test_timers_and_tasks_are_due_times(ctrlhost_host, manual_clock: ManualClock) -> None:
    rounds: list[float] = []
    calls: list[float] = []

    def setup(plugin: ctrlhost.PluginContext) -> None:
        every = Every(600, requests=lambda: [Request("all")])
        plugin.add_controller("c", lambda ctx, request: rounds.append(manual_clock.now()), every)
        plugin.add_task("t", lambda stop: calls.append(manual_clock.now()), every=1000, first_after=100)

    host = ctrlhost_host(plugin_of(setup), clock=manual_clock)
    host.settle(through="35m")
    assert calls == [100, 1100, 2100]
    assert len(rounds) == 3


@pytest.mark.usefixtures("slow")
def test_a_task_that_fails_has_not_settled(ctrlhost_host, manual_clock: ManualClock) -> None:
    calls: list[float] = []

    def work(stop: threading.Event) -> None:
        calls.append(manual_clock.now())
        if len(calls) == 1:
            raise OSError("disk full")

    host = ctrlhost_host(plugin_of(lambda plugin: plugin.add_task("t", work, every=60)), clock=manual_clock)
    assert "task demo/t failed, failure 1: OSError: disk full" in not_settled(host)
    host.settle(through="2s")
    assert len(calls) == 2


@pytest.mark.usefixtures("slow")
def test_the_first_call_of_a_task_is_awaited(ctrlhost_host) -> None:
    calls: list[int] = []
    host = ctrlhost_host(plugin_of(lambda plugin: plugin.add_task("t", lambda stop: calls.append(1), every=60)))
    host.settle()
    assert calls == [1]


def test_a_task_without_period_is_awaited_until_it_begins(ctrlhost_host, manual_clock: ManualClock) -> None:
    began = threading.Event()

    def follow(stop: threading.Event) -> None:
        began.set()
        stop.wait()

    plugin = plugin_of(lambda plugin: plugin.add_task("t", follow, first_after=10))
    host = ctrlhost_host(plugin, clock=manual_clock)
    host.settle(through="1m")
    assert manual_clock.now() == 10
    assert began.wait(30)
    host.advance("1h")


def test_a_resync_is_a_due_time(ctrlhost_host, manual_clock: ManualClock) -> None:
    seen: list[float] = []
    plugin = reconciling(lambda ctx, request: seen.append(manual_clock.now()))
    host = ctrlhost_host(plugin, clock=manual_clock, resync=600)
    host.apply(ANN)
    host.settle()
    for count in range(2, 12):
        host.advance(600)
        assert len(seen) == count
    host.settle(through="15m")
    assert manual_clock.now() == pytest.approx(6600, abs=1e-3)
    assert len(seen) == 12


def test_requests_of_a_timer_that_raise_fail_the_test(ctrlhost_host, manual_clock: ManualClock) -> None:
    def broken() -> list[Request]:
        if manual_clock.now() < 15:
            raise ZeroDivisionError("by nothing")
        return []

    host = ctrlhost_host(reconciling(lambda ctx, request: None, Every(10, requests=broken)), clock=manual_clock)
    with pytest.raises(ctrlhost.testing.NotSettled, match="requests of its timer failed: ZeroDivisionError: by"):
        host.advance(10)
    host.advance(10)
