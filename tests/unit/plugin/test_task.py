"""Tasks and the event loop of a plugin."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest

from ctrlhost.controller.event_loop import PluginLoop
from ctrlhost.testing import ManualClock
from tests.support.controllers import Bench
from tests.support.waiting import eventually


class Calls:
    """The function of a task, which runs one step of a script per call."""

    def __init__(self, clock: ManualClock, *steps: Any) -> None:
        self.clock, self.steps, self.at = clock, list(steps), []

    def __call__(self, stop: threading.Event) -> None:
        self.at.append(self.clock.now())
        step = self.steps.pop(0) if self.steps else None
        if isinstance(step, BaseException):
            raise step


def test_a_task_without_a_period_runs_once(bench: Bench, manual_clock: ManualClock) -> None:
    calls = Calls(manual_clock)
    task = bench.plugin().add_task("once", calls)
    task.start()
    eventually(lambda: not task.running)
    assert calls.at == [0]
    assert task.error is None
    assert task.stop(5)


def test_a_task_with_a_period_runs_at_once_and_then_periodically(bench: Bench, manual_clock: ManualClock) -> None:
    calls = Calls(manual_clock)
    task = bench.plugin().add_task("often", calls, every=30)
    task.start()
    for expected in ([0], [0, 30], [0, 30, 60]):
        eventually(lambda expected=expected: calls.at == expected and manual_clock.waiters() == 1)
        manual_clock.advance(30)
    assert task.stop(5)


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1)])
def test_a_failed_task_is_retried_with_back_off(bench: Bench, manual_clock: ManualClock, error: BaseException) -> None:
    calls = Calls(manual_clock, error, error, None)
    task = bench.plugin().add_task("flaky", calls)
    task.start()
    eventually(lambda: calls.at == [0] and manual_clock.waiters() == 1)
    assert task.error is not None
    assert type(error).__name__ in task.error
    manual_clock.advance(1)
    eventually(lambda: calls.at == [0, 1] and manual_clock.waiters() == 1)
    assert task.failures == 2
    manual_clock.advance(2)
    eventually(lambda: calls.at == [0, 1, 3] and not task.running)
    assert task.error is None


def test_a_task_stops_on_request(bench: Bench) -> None:
    task = bench.plugin().add_task("patient", lambda stop: stop.wait())
    task.start()
    assert task.running
    assert task.stop(5)
    assert not task.running


def test_a_task_that_ignores_the_stop_is_abandoned(bench: Bench) -> None:
    release = threading.Event()
    task = bench.plugin().add_task("deaf", lambda stop: release.wait(30))
    task.start()
    assert not task.stop(0.01)
    release.set()
    eventually(lambda: not task.running)


def test_a_stopped_task_can_start_again(bench: Bench, manual_clock: ManualClock) -> None:
    calls = Calls(manual_clock)
    task = bench.plugin().add_task("again", calls, every=30)
    for runs in (1, 2):
        task.start()
        task.start()
        eventually(lambda runs=runs: len(calls.at) == runs and manual_clock.waiters() == 1)
        assert task.stop(5)


def test_a_task_may_be_a_coroutine_function(bench: Bench) -> None:
    threads: list[str] = []

    async def run(stop: threading.Event) -> None:
        await asyncio.sleep(0)
        threads.append(threading.current_thread().name)

    task = bench.plugin().add_task("async", run)
    task.start()
    eventually(lambda: threads == ["demo/loop"])
    assert task.stop(5)


@pytest.mark.behaviour("authoring/AU22")
def test_a_task_begins_after_a_delay_and_continues_from_the_end_of_each_call(
    bench: Bench, manual_clock: ManualClock
) -> None:
    at, proceed = list[float](), threading.Event()

    def run(stop: threading.Event) -> None:
        at.append(manual_clock.now())
        assert proceed.wait(30)

    task = bench.plugin().add_task("sweep", run, every="30s", first_after="10s")
    task.start()
    eventually(lambda: manual_clock.waiters() == 1)
    manual_clock.advance(9)
    assert at == []
    manual_clock.advance(1)
    eventually(lambda: at == [10])
    # The call ends at 15 s.
    manual_clock.advance(5)
    proceed.set()
    eventually(lambda: manual_clock.waiters() == 1)
    manual_clock.advance("29s")
    assert at == [10]
    manual_clock.advance("1s")
    eventually(lambda: at == [10, 45] and manual_clock.waiters() == 1)
    assert task.stop(5)
    # A restart waits again.
    task.start()
    eventually(lambda: manual_clock.waiters() == 1)
    manual_clock.advance("10s")
    eventually(lambda: at == [10, 45, 55])
    assert task.stop(5)


def test_a_task_that_stops_before_its_first_call_is_not_called(bench: Bench, manual_clock: ManualClock) -> None:
    calls = Calls(manual_clock)
    task = bench.plugin().add_task("late", calls, first_after="10s")
    task.start()
    eventually(lambda: manual_clock.waiters() == 1)
    assert task.stop(5)
    assert calls.at == []


@pytest.mark.behaviour("authoring/AU22")
def test_an_async_task_is_cancelled_when_it_must_end(bench: Bench) -> None:
    started, ended = list[int](), list[str]()

    async def run(stop: threading.Event) -> None:
        started.append(1)
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            # What it awaits while it ends is waited for.
            await asyncio.sleep(0.01)
            ended.append("cancelled")
            raise

    task = bench.plugin().add_task("async", run)
    for count in (1, 2):
        task.start()
        eventually(lambda count=count: len(started) == count)
        assert task.stop(10)
        assert ended == ["cancelled"] * count
    assert (task.failures, task.error) == (0, None)


def test_a_cancelled_task_that_goes_on_is_abandoned(bench: Bench) -> None:
    started, release = threading.Event(), threading.Event()

    async def run(stop: threading.Event) -> None:
        started.set()
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    task = bench.plugin().add_task("stubborn", run)
    task.start()
    assert started.wait(30)
    assert not task.stop(0.05)
    release.set()
    eventually(lambda: not task.running)


@pytest.mark.parametrize("every", [0, -1, float("inf")])
def test_an_invalid_period_is_refused(bench: Bench, every: float) -> None:
    with pytest.raises(ValueError, match="task `demo/t`: every must be a positive number"):
        bench.plugin().add_task("t", print, every=every)


def test_a_stopping_loop_cancels_its_tasks() -> None:
    loop, started, ended = PluginLoop("demo"), threading.Event(), threading.Event()

    async def wait() -> None:
        started.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    loop.submit(wait())
    assert started.wait(10)
    assert loop.stop(10)
    assert ended.is_set()
    assert loop.stop(0)


@pytest.mark.parametrize("used", [False, True])
def test_a_loop_that_has_ended_starts_no_thread(used: bool) -> None:
    loop = PluginLoop("ended")

    async def nothing() -> None:
        pass

    if used:
        loop.submit(nothing()).result(10)
    assert loop.stop(10)
    # For example that of a page whose client leaves later.
    with pytest.raises(RuntimeError, match="plugin ended has ended"):
        loop.call(print)
    with pytest.raises(RuntimeError, match="plugin ended has ended"):
        loop.submit(nothing())
    assert not [thread for thread in threading.enumerate() if thread.name == "ended/loop"]
