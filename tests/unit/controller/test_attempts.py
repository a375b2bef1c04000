"""`ctx.attempt`: it counts each run since the last success."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ctrlhost import NotOwned, Result, RetryAfter, TerminalError, TooManyRequests
from ctrlhost.controller.results import RunAgain
from ctrlhost.testing import ManualClock
from tests.support.controllers import WEB, Bench, Script, idle
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour


class AsyncScript(Script):
    """A reconciler that is `async def`, with one step per run."""

    async def __call__(self, ctx: Any, request: Any) -> Any:
        return super().__call__(ctx, request)


def attempts(bench: Bench, clock: ManualClock, script: Script) -> list[int]:
    """Return the attempts of all runs; each run but the first comes when it is due."""
    runs = len(script.steps)
    controller = bench.controller(script)
    controller.queue.add(WEB)
    for number in range(1, runs + 1):
        eventually(lambda number=number: len(script.calls) == number and idle(controller))
        clock.advance(3600)
    return script.attempts


@behaviour("findings3/NA4")
@pytest.mark.parametrize("kind", [Script, AsyncScript])
def test_attempts_count_on_through_delays_that_are_no_success(
    bench: Bench, manual_clock: ManualClock, kind: type[Script]
) -> None:
    steps = [RetryAfter("30s"), RetryAfter("30s"), ValueError(), RetryAfter("30s"), NotOwned("not ours"), None]
    assert attempts(bench, manual_clock, kind(*steps)) == [1, 2, 3, 4, 5, 6]
    (controller,) = bench._plugins[0].controllers
    assert controller.history.attempts == {}
    controller.queue.add(WEB)
    eventually(lambda: controller.status().runs == 7 and idle(controller))
    assert controller.history.last_runs()[0].result == "success"


@behaviour("findings3/NA4")
@pytest.mark.parametrize("success", [None, Result(), Result(requeue_after=1)])
def test_a_success_starts_the_attempts_over(bench: Bench, manual_clock: ManualClock, success: Result | None) -> None:
    script = Script(RetryAfter(1), RetryAfter(1), success, RetryAfter(1))
    controller = bench.controller(script)
    for number in range(1, 6):
        controller.queue.add(WEB)
        eventually(lambda number=number: len(script.calls) == number and idle(controller))
    assert script.attempts == [1, 2, 3, 1, 2]


@behaviour("findings3/NA13")
@pytest.mark.parametrize("kind", [Script, AsyncScript])
def test_attempts_count_each_run_while_a_back_off_is_pending(
    bench: Bench, manual_clock: ManualClock, caplog: pytest.LogCaptureFixture, kind: type[Script]
) -> None:
    caplog.set_level(logging.INFO, "ctrlhost.controller")
    # The last two errors set their own delay, which no rate limiter counts.
    script = kind(*[ValueError()] * 3, *[TooManyRequests("busy", retry_after=5)] * 2, RunAgain("faster"), None, None)
    controller = bench.controller(script)
    # `RunAgain` repeats the same attempt at once.
    for number in (1, 2, 3, 4, 5, 7, 8):
        # An event, long before the key is due.
        controller.queue.add(WEB)
        eventually(lambda number=number: len(script.calls) == number and idle(controller))
    assert script.attempts == [1, 2, 3, 4, 5, 6, 6, 1]
    lines = [record.attempt for record in caplog.records if hasattr(record, "attempt")]
    assert lines == [1, 2, 3, 4, 5]
    assert controller.queue.num_requeues(WEB) == 0


@behaviour("findings3/NA13")
def test_a_terminal_error_starts_the_attempts_over(bench: Bench, manual_clock: ManualClock) -> None:
    script = Script(ValueError(), TerminalError("no use"), ValueError(), None)
    controller = bench.controller(script)
    for number in range(1, 5):
        controller.queue.add(WEB)
        eventually(lambda number=number: len(script.calls) == number and idle(controller))
    assert script.attempts == [1, 2, 1, 2]
    assert controller.history.attempts == {}
