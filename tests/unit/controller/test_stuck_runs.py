"""Runs that are stuck: what a report, a replacement or the end of the drain does beside their return."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ctrlhost import Request
from ctrlhost.clock import SystemClock
from ctrlhost.config.settings import ControllerOverrides
from ctrlhost.controller.controller import Controller
from ctrlhost.testing import ManualClock
from tests.support.controllers import DB, WEB, Bench, idle
from tests.support.waiting import eventually

SLOW = {"demo/pods": ControllerOverrides(slow_after=1.0)}


@pytest.fixture
def release() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def slow(manual_clock: ManualClock) -> Iterator[Bench]:
    """A bench on whose clock reconciles are stuck after a second."""
    bench = Bench(manual_clock)
    bench.overrides = SLOW
    yield bench
    bench.close()


def check(controller: Controller) -> None:
    """Do what the thread of the host does, which checks deadlines."""
    controller._plugin.entries.check(0.0)


def threads(text: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(text)]


class AtReport(logging.Handler):
    """Calls a function while the line about an overdue run is written."""

    def __init__(self, function: Callable[[], None]) -> None:
        super().__init__()
        self.function = function

    def createLock(self) -> None:  # noqa: N802 - the name of the overridden method
        """Wait while other threads log."""
        self.lock = None

    def handle(self, record: logging.LogRecord) -> bool:
        """Do without the lock, which Python 3.13 takes for granted."""
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        if "runs for" in record.getMessage():
            self.function()


def test_a_run_that_returns_while_it_is_reported_loses_no_key(
    slow: Bench, manual_clock: ManualClock, release: threading.Event
) -> None:
    seen: list[str] = []

    def reconcile(_ctx: Any, request: Request) -> None:
        if request == WEB:
            release.wait(30)
        seen.append(request.name)

    controller = slow.controller(reconcile)
    controller.queue.add(WEB)
    eventually(lambda: controller.status().active == 1)
    manual_clock.advance(2)

    def returns() -> None:
        release.set()
        eventually(lambda: idle(controller))

    handler = AtReport(returns)
    logging.getLogger("ctrlhost.host").addHandler(handler)
    try:
        check(controller)
    finally:
        logging.getLogger("ctrlhost.host").removeHandler(handler)
    for number in range(5):
        controller.queue.add(Request(f"later-{number}"))
        eventually(lambda number=number: f"later-{number}" in seen)
    eventually(lambda: idle(controller))
    assert slow.sample("reconcile_timeouts_total") == 1
    assert len(threads("demo/pods worker")) == 1


class Preempted(SystemClock):
    """A clock whose caller is preempted at one call: another thread's check happens later, but before the return."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.preempt: Callable[[], None] | None = None

    def now(self) -> float:
        seconds, preempt, self.preempt = self.seconds, self.preempt, None
        if preempt is not None:
            self.seconds += 1.0
            preempt()
        return seconds


def test_a_run_that_is_reported_just_after_its_return_is_not_stuck_for_ever() -> None:
    clock = Preempted()
    bench = Bench(clock)
    bench.overrides = SLOW

    def reconcile(_ctx: Any, _request: Request) -> None:
        clock.seconds += 0.5
        clock.preempt = lambda: check(controller)

    controller = bench.controller(reconcile)
    try:
        controller.queue.add(WEB)
        eventually(lambda: controller.status().runs == 1 and idle(controller))
        entries = controller._plugin.entries
        assert entries.overruns == {"reconcile": 1}
        check(controller)
        assert (entries.overdue(), entries.stuck(), entries.degraded) == ({}, 0, {})
        assert bench.sample("reconcile_timeouts_total") == 1
    finally:
        bench.close()


def test_a_controller_that_got_no_replacement_continues_and_drains(
    slow: Bench, manual_clock: ManualClock, release: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    runs: list[Request] = []

    def reconcile(_ctx: Any, request: Request) -> None:
        runs.append(request)
        release.wait(30)

    controller = slow.controller(reconcile)
    controller.queue.add(WEB)
    eventually(lambda: runs == [WEB])
    manual_clock.advance(2)
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            check(controller)
    release.set()
    # Its only worker continues.
    controller.queue.add(DB)
    eventually(lambda: runs == [WEB, DB])
    assert controller.drain(10)
    assert slow.sample("reconcile_timeouts_total") == 1


@pytest.mark.parametrize("asynchronous", [False, True], ids=["def", "async def"])
def test_an_abandoned_controller_begins_no_further_run(
    slow: Bench, release: threading.Event, asynchronous: bool
) -> None:
    runs: list[Request] = []

    def reconcile(_ctx: Any, request: Request) -> None:
        runs.append(request)
        release.wait(30)

    async def reconcile_async(ctx: Any, request: Request) -> None:
        reconcile(ctx, request)

    controller = slow.controller(reconcile_async if asynchronous else reconcile)
    controller.queue.add(WEB)
    eventually(lambda: runs == [WEB])
    controller.queue.add(DB)
    assert not controller.drain(0)
    if asynchronous:
        controller._plugin.close(0)
    release.set()
    names = ("demo/pods worker", "demo/pods feeder", "demo event loop")
    eventually(lambda: not any(threads(name) for name in names))
    assert runs == [WEB]


def test_a_drain_waits_for_async_runs_that_were_replaced(slow: Bench, manual_clock: ManualClock) -> None:
    end = asyncio.Event()
    runs: list[Request] = []

    async def reconcile(_ctx: Any, request: Request) -> None:
        runs.append(request)
        if request == WEB:
            await end.wait()

    controller = slow.controller(reconcile)
    controller.queue.add(WEB)
    eventually(lambda: runs == [WEB])
    manual_clock.advance(2)
    check(controller)
    controller.queue.add(DB)
    eventually(lambda: runs == [WEB, DB])
    assert not controller.drain(0.1)


def test_replacements_leave_nothing_behind(slow: Bench, manual_clock: ManualClock) -> None:
    ends: dict[str, threading.Event] = {}
    ids: list[str] = []

    def reconcile(ctx: Any, request: Request) -> None:
        ids.append(ctx.reconcile_id)
        ends[request.name].wait(30)

    controller = slow.controller(reconcile)
    for number in range(10):
        name = str(number)
        ends[name] = threading.Event()
        controller.queue.add(Request(name))
        eventually(lambda number=number: len(ids) == number + 1)
        manual_clock.advance(2)
        check(controller)
        ends[name].set()
        eventually(lambda: idle(controller) and len(threads("demo/pods worker")) == 1)
    assert len(set(ids)) == 10
    assert controller.status().runs == 10
    assert controller._counts is not None
    assert len(controller._counts._counts) <= 2


def test_nothing_starts_after_a_stop(slow: Bench) -> None:
    controller = slow.controller(lambda _ctx, _request: None, start=False)
    controller.drain(0)
    controller.start_workers()
    assert not threads("demo/pods")
    assert not controller._plugin.entries.active
    assert slow.sample("max_concurrent_reconciles") is None


def test_the_end_of_a_controller_keeps_the_series_of_its_successor(slow: Bench) -> None:
    first, second = (slow.controller(lambda _ctx, _request: None) for _ in range(2))
    first.drain(5)
    first.remove_metrics()
    second.queue.add(WEB)
    eventually(lambda: slow.results() == {"success": 1})
    second.drain(5)
    second.remove_metrics()
    assert slow.sample("max_concurrent_reconciles") is None
