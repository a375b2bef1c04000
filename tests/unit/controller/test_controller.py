"""The worker loop: the handling of results and exceptions of a reconciler."""

from __future__ import annotations

import asyncio
import logging

import pytest

from ctrlhost import Conflict, Request, Result, RetryAfter, TerminalError, TooManyRequests
from ctrlhost.testing import ManualClock
from tests.support.controllers import DB, WEB, Bench, Script, idle
from tests.support.waiting import eventually


def settle(bench: Bench, controller) -> None:
    eventually(lambda: idle(controller))


@pytest.mark.behaviour("workqueue/K8")
@pytest.mark.behaviour("workqueue/K19")
@pytest.mark.behaviour("workqueue/K42")
def test_a_key_that_is_added_is_reconciled_once_and_forgotten(bench: Bench) -> None:
    reconcile = Script(None)
    controller = bench.controller(reconcile)
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"success": 1})
    settle(bench, controller)
    assert reconcile.calls == [WEB]
    assert len(controller.queue) == 0
    assert controller.queue.num_requeues(WEB) == 0
    assert bench.sample("reconcile_time_seconds_count") == 1


@pytest.mark.behaviour("workqueue/K17")
@pytest.mark.behaviour("findings/FT1")
@pytest.mark.parametrize(
    ("outcome", "result"),
    [
        (None, "success"),
        (Result(), "success"),
        (ValueError("no"), "error"),
        (TerminalError("never"), "error"),
        (RetryAfter(5), "requeue_after"),
        (Result(requeue_after=5), "requeue_after"),
    ],
)
def test_a_run_is_counted_once_by_its_result(
    bench: Bench, manual_clock: ManualClock, outcome: object, result: str
) -> None:
    # A result has no requeue flag (K12), so that counter of upstream's stays 0.
    controller = bench.controller(Script(outcome))
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {result: 1} and idle(controller))
    assert bench.sample("reconcile_errors_total") == (result == "error")


@pytest.mark.behaviour("workqueue/K9")
@pytest.mark.behaviour("workqueue/K18")
def test_a_failure_is_retried_with_back_off_and_forgotten_after_a_success(
    bench: Bench, manual_clock: ManualClock
) -> None:
    reconcile = Script(ValueError("no"), None)
    controller = bench.controller(reconcile)
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    assert controller.queue.num_requeues(WEB) == 1
    manual_clock.advance(0.005)
    eventually(lambda: bench.results() == {"error": 1, "success": 1} and idle(controller))
    assert reconcile.calls == [WEB, WEB]
    assert reconcile.attempts == [1, 2]
    assert controller.queue.num_requeues(WEB) == 0
    assert bench.sample("reconcile_errors_total") == 1


@pytest.mark.behaviour("workqueue/K11")
def test_the_back_off_is_forgotten_only_after_the_success(bench: Bench, manual_clock: ManualClock) -> None:
    controller = bench.controller(Script(ValueError(), ValueError(), None))
    controller.queue.add(WEB)
    for failures in (1, 2):
        eventually(lambda failures=failures: bench.results() == {"error": failures} and idle(controller))
        assert controller.queue.num_requeues(WEB) == failures
        manual_clock.advance(0.01)
    eventually(lambda: bench.results() == {"error": 2, "success": 1} and idle(controller))
    assert controller.queue.num_requeues(WEB) == 0


@pytest.mark.behaviour("workqueue/K10")
@pytest.mark.behaviour("workqueue/K43")
@pytest.mark.parametrize("chained", [False, True])
def test_a_terminal_error_is_not_retried_even_as_a_cause(
    bench: Bench, manual_clock: ManualClock, chained: bool
) -> None:
    def reconcile(ctx, request):
        if not chained:
            raise TerminalError("invalid spec")
        try:
            raise TerminalError
        except TerminalError as error:
            raise ValueError("wrapped") from error

    controller = bench.controller(reconcile)
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    manual_clock.advance(3600)
    settle(bench, controller)
    assert bench.results() == {"error": 1}
    assert bench.sample("terminal_reconcile_errors_total") == 1


@pytest.mark.behaviour("workqueue/K43")
@pytest.mark.behaviour("findings/FT1")
def test_a_terminal_error_keeps_its_inner_error_and_needs_none(
    bench: Bench, manual_clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    def reconcile(ctx, request):
        if request == WEB:
            raise TerminalError("invalid spec") from ValueError("the inner one")
        raise TerminalError

    controller = bench.controller(reconcile)
    with caplog.at_level(logging.ERROR):
        for number, key in enumerate((WEB, DB), start=1):
            controller.queue.add(key)
            eventually(lambda number=number: bench.results() == {"error": number} and idle(controller))
    around, alone = (record.getMessage().partition("changes: ")[2] for record in caplog.records)
    assert around == "TerminalError: invalid spec, caused by ValueError: the inner one"
    # An error without a message is shown by its type.
    assert alone == controller.status().last_error == "TerminalError"
    assert bench.sample("terminal_reconcile_errors_total") == 2


def test_a_terminal_error_forgets_the_back_off(bench: Bench, manual_clock: ManualClock) -> None:
    controller = bench.controller(Script(ValueError(), TerminalError("no use")))
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    manual_clock.advance(0.005)
    eventually(lambda: bench.results() == {"error": 2} and idle(controller))
    assert controller.queue.num_requeues(WEB) == 0


@pytest.mark.behaviour("workqueue/K1")
@pytest.mark.behaviour("workqueue/K13")
def test_requeue_after_forgets_the_back_off_and_runs_again_after_the_delay(
    bench: Bench, manual_clock: ManualClock
) -> None:
    controller = bench.controller(Script(ValueError(), Result(requeue_after=0.1), Result(requeue_after=0.1)))
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    manual_clock.advance(0.005)
    eventually(lambda: bench.results() == {"error": 1, "requeue_after": 1} and idle(controller))
    assert controller.queue.num_requeues(WEB) == 0
    manual_clock.advance(0.09)
    settle(bench, controller)
    assert bench.results() == {"error": 1, "requeue_after": 1}
    manual_clock.advance(0.01)
    eventually(lambda: bench.results() == {"error": 1, "requeue_after": 2} and idle(controller))


@pytest.mark.behaviour("findings/FQ2")
def test_a_failure_beside_a_pending_requeue_is_retried_after_its_back_off(
    bench: Bench, manual_clock: ManualClock
) -> None:
    controller = bench.controller(Script(ValueError(), Result(requeue_after=600), ValueError(), None))
    for results in ({"error": 1}, {"error": 1, "requeue_after": 1}, {"error": 2, "requeue_after": 1}):
        # An event, during the back-off of the first run and then during the delay that the second one asked for.
        controller.queue.add(WEB)
        eventually(lambda results=results: bench.results() == results and idle(controller))
    assert controller.queue.num_requeues(WEB) == 1
    manual_clock.advance(0.005)
    eventually(lambda: bench.results() == {"error": 2, "requeue_after": 1, "success": 1} and idle(controller))


@pytest.mark.behaviour("workqueue/K14")
def test_retry_after_runs_again_after_its_delay_without_growing_the_back_off(
    bench: Bench, manual_clock: ManualClock
) -> None:
    # Upstream ignores a delay returned with an error; here an error may have its own delay.
    controller = bench.controller(Script(ValueError(), RetryAfter(30), None))
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    assert controller.queue.num_requeues(WEB) == 1
    manual_clock.advance(0.005)
    eventually(lambda: bench.results() == {"error": 1, "requeue_after": 1} and idle(controller))
    assert controller.queue.num_requeues(WEB) == 0
    manual_clock.advance(30)
    eventually(lambda: bench.results() == {"error": 1, "requeue_after": 1, "success": 1})


def test_retry_after_of_the_server_delays_the_next_run(bench: Bench, manual_clock: ManualClock) -> None:
    controller = bench.controller(Script(TooManyRequests("slow down", retry_after=3), None))
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    manual_clock.advance(2.9)
    settle(bench, controller)
    assert bench.results() == {"error": 1}
    manual_clock.advance(0.1)
    eventually(lambda: bench.results() == {"error": 1, "success": 1})


@pytest.mark.parametrize(
    ("step", "next_priority"),
    [
        *(
            pytest.param(step, 10, marks=pytest.mark.behaviour("workqueue/K15"))
            for step in (Result(requeue_after=0.1), ValueError(), RetryAfter(0.1), Conflict("changed"))
        ),
        pytest.param(Result(requeue_after=0.1, priority=99), 99, marks=pytest.mark.behaviour("workqueue/K16")),
    ],
)
def test_a_key_that_runs_again_keeps_its_priority_unless_the_result_sets_one(
    bench: Bench, manual_clock: ManualClock, step, next_priority: int
) -> None:
    reconcile = Script(step, None)
    controller = bench.controller(reconcile)
    controller.queue.add(WEB, priority=10)
    eventually(lambda: len(reconcile.calls) == 1 and idle(controller))
    manual_clock.advance(0.1)
    eventually(lambda: len(reconcile.calls) == 2)
    assert reconcile.priorities == [10, next_priority]


@pytest.mark.behaviour("workqueue/K2")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit(), asyncio.CancelledError()])
def test_a_base_exception_is_a_recovered_panic(
    bench: Bench, manual_clock: ManualClock, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    controller = bench.controller(Script(error, None))
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    assert bench.sample("reconcile_panics_total") == 1
    assert any("[recovered]" in record.getMessage() for record in caplog.records)
    manual_clock.advance(0.005)
    eventually(lambda: bench.results() == {"error": 1, "success": 1})


def test_a_result_of_another_type_is_a_failure_that_names_it(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    controller = bench.controller(Script(5))
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    assert (
        controller.status().last_error
        == "TypeError: the reconciler returned int; it must return None or ctrlhost.Result"
    )


class Unspeakable(Exception):
    """An exception that cannot be printed."""

    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (Result(requeue_after=5, priority="high"), "TypeError"),  # type: ignore[arg-type]
        (Result(requeue_after=5, priority=2**40), "OverflowError"),
        (RetryAfter(float("nan")), "ValueError"),
        (Unspeakable(), "Unspeakable"),
    ],
)
def test_an_invalid_result_is_a_failure_and_the_worker_continues(
    bench: Bench, manual_clock: ManualClock, step, message: str
) -> None:
    controller = bench.controller(Script(step, None))
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    assert (controller.status().last_error or "").startswith(message)
    manual_clock.advance(0.005)
    eventually(lambda: bench.results() == {"error": 1, "success": 1})


class FailingLimiter:
    """A rate limiter that fails."""

    def when(self, key) -> float:
        raise RuntimeError("broken")

    def forget(self, key) -> None:
        raise RuntimeError("broken")

    def num_requeues(self, key) -> int:
        return 0


def test_a_failing_rate_limiter_loses_no_key_and_no_worker(bench: Bench, manual_clock: ManualClock) -> None:
    runs = []

    def fail_once(ctx, request):
        runs.append(request)
        if len(runs) == 1:
            raise ValueError("once")

    controller = bench.controller(fail_once, rate_limiter=FailingLimiter())
    controller.queue.add(WEB)
    eventually(lambda: len(runs) == 1 and idle(controller))
    manual_clock.advance(1)
    eventually(lambda: len(runs) == 2 and idle(controller))
    controller.queue.add(DB)
    eventually(lambda: runs == [WEB, WEB, DB])


def test_a_log_line_carries_the_controller_key_and_id_of_its_reconcile(bench: Bench) -> None:
    from ctrlhost.controller.context import log_fields

    seen = []

    def reconcile(ctx, request):
        seen.append((log_fields(), ctx.reconcile_id))

    controller = bench.controller(reconcile)
    controller.queue.add(WEB)
    controller.queue.add(Request("alone"))
    eventually(lambda: len(seen) == 2)
    for fields, reconcile_id in seen:
        assert fields["controller"] == "demo/pods"
        assert fields["reconcile_id"] == reconcile_id
    assert {fields["key"] for fields, _ in seen} == {"default/web", "alone"}
    assert log_fields() == {}


@pytest.mark.behaviour("workqueue/K40")
@pytest.mark.parametrize("count", [1, 50])
def test_each_reconcile_has_its_own_id(bench: Bench, count: int) -> None:
    seen = []
    controller = bench.controller(lambda ctx, request: seen.append(ctx.reconcile_id), workers=3, start=False)
    controller.queue.add_many([Request(str(number)) for number in range(count)])
    controller.start_workers()
    eventually(lambda: len(seen) == count)
    assert len(set(seen)) == count


def test_a_controller_reports_its_status(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    controller = bench.controller(Script(ValueError("no luck")), workers=2)
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    status = controller.status()
    assert (status.name, status.workers, status.runs, status.errors) == ("demo/pods", 2, 1, 1)
    assert status.last_error == "ValueError: no luck"
    assert status.synced
