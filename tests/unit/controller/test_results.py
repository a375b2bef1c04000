"""Delays requested by a reconciler, and keys enqueued through the handle."""

from __future__ import annotations

import pytest

import ctrlhost
from ctrlhost import NotOwned, Result, RetryAfter
from ctrlhost.controller.controller import Controller
from ctrlhost.controller.results import RunAgain
from ctrlhost.testing import ManualClock
from tests.support.controllers import DB, WEB, Bench, Script, idle
from tests.support.waiting import eventually


@pytest.mark.parametrize("step", [Result(requeue_after=1e-9), RetryAfter(0), RetryAfter(-3)])
def test_a_too_short_delay_is_raised_to_5_ms(
    bench: Bench, manual_clock: ManualClock, step: Result | RetryAfter
) -> None:
    controller = bench.controller(Script(step, None))
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"requeue_after": 1} and idle(controller))
    manual_clock.advance(0.004)
    assert len(controller.queue) == 0
    manual_clock.advance(0.001)
    eventually(lambda: bench.results() == {"requeue_after": 1, "success": 1})


def test_a_delay_that_is_not_a_number_is_a_failure(bench: Bench) -> None:
    controller = bench.controller(Script(Result(requeue_after=float("nan"))))
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    assert "ValueError" in (controller.status().last_error or "")


def test_a_run_that_ends_with_not_owned_is_no_failure_and_is_repeated_after_a_minute(
    bench: Bench, manual_clock: ManualClock
) -> None:
    controller = bench.controller(Script(NotOwned("Deployment web is controlled by Memcached other"), None))
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"requeue_after": 1} and idle(controller))
    assert controller.queue.num_requeues(WEB) == 0
    manual_clock.advance(59.9)
    assert len(controller.queue) == 0
    manual_clock.advance(0.1)
    eventually(lambda: bench.results() == {"requeue_after": 1, "success": 1})


def test_a_key_that_runs_again_has_no_failure(bench: Bench) -> None:
    controller = bench.controller(Script(RunAgain("somebody was faster"), None))
    controller.queue.add(WEB, priority=7)
    eventually(lambda: bench.results() == {"requeue": 1, "success": 1} and idle(controller))
    assert controller.queue.num_requeues(WEB) == 0
    assert [run.result for run in controller.history.last_runs()] == ["success", "requeue"]
    assert controller.status().errors == 0


def test_many_keys_are_enqueued_through_the_handle_at_once(bench: Bench) -> None:
    runs: list[ctrlhost.Request] = []
    plugin = bench.plugin()
    handle: ctrlhost.ControllerHandle = plugin.add_controller("pods", lambda ctx, request: runs.append(request))
    handle.enqueue_many(iter([WEB, DB, WEB]), priority=7)
    (controller,) = plugin.controllers
    assert isinstance(controller, Controller)
    assert controller.queue.snapshot().queued[0].priority == 7
    controller.attach()
    controller.start_workers()
    eventually(lambda: runs == [WEB, DB])
