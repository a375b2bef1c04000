"""The worker loop: what becomes of what a reconciler returns and raises."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator

import pytest
from controllers import DB, WEB, Bench, Script, idle

from ctrlhost import Conflict, PluginLoadError, Request, Result, RetryAfter, TerminalError, TooManyRequests
from ctrlhost.sources import Every, For, Owns
from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import ItemExponentialFailureRateLimiter, ItemFastSlowRateLimiter
from tests.waiting import eventually


@pytest.fixture
def bench(manual_clock: ManualClock) -> Iterator[Bench]:
    bench = Bench(manual_clock)
    yield bench
    bench.close()


def settle(bench: Bench, controller) -> None:
    eventually(lambda: idle(controller))


# Outcomes.


@pytest.mark.behaviour("workqueue/K8")
@pytest.mark.behaviour("workqueue/K17")
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
def test_a_terminal_error_is_not_retried_even_as_the_cause_of_another(
    bench: Bench, manual_clock: ManualClock, chained: bool
) -> None:
    def reconcile(ctx, request):
        if not chained:
            raise TerminalError("the spec makes no sense")
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


def test_a_terminal_error_forgets_the_back_off(bench: Bench, manual_clock: ManualClock) -> None:
    controller = bench.controller(Script(ValueError(), TerminalError("no use")))
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    manual_clock.advance(0.005)
    eventually(lambda: bench.results() == {"error": 2} and idle(controller))
    assert controller.queue.num_requeues(WEB) == 0


@pytest.mark.behaviour("workqueue/K1")
@pytest.mark.behaviour("workqueue/K13")
def test_requeue_after_forgets_the_back_off_and_runs_again_when_the_time_has_come(
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


@pytest.mark.behaviour("workqueue/K14")
def test_retry_after_runs_again_at_its_time_without_growing_the_back_off(
    bench: Bench, manual_clock: ManualClock
) -> None:
    # Upstream ignores a delay that comes with an error; here an error may bring its own.
    controller = bench.controller(Script(ValueError(), RetryAfter(30), None))
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    assert controller.queue.num_requeues(WEB) == 1
    manual_clock.advance(0.005)
    eventually(lambda: bench.results() == {"error": 1, "requeue_after": 1} and idle(controller))
    assert controller.queue.num_requeues(WEB) == 0
    manual_clock.advance(30)
    eventually(lambda: bench.results() == {"error": 1, "requeue_after": 1, "success": 1})


def test_a_server_that_says_when_to_come_back_is_believed(bench: Bench, manual_clock: ManualClock) -> None:
    controller = bench.controller(Script(TooManyRequests("slow down", retry_after=3), None))
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    manual_clock.advance(2.9)
    settle(bench, controller)
    assert bench.results() == {"error": 1}
    manual_clock.advance(0.1)
    eventually(lambda: bench.results() == {"error": 1, "success": 1})


@pytest.mark.parametrize("step", [Result(requeue_after=0.1), ValueError(), RetryAfter(0.1), Conflict("changed")])
@pytest.mark.behaviour("workqueue/K15")
def test_a_key_that_runs_again_keeps_its_priority(bench: Bench, manual_clock: ManualClock, step) -> None:
    reconcile = Script(step, None)
    controller = bench.controller(reconcile)
    controller.queue.add(WEB, priority=10)
    eventually(lambda: len(reconcile.calls) == 1 and idle(controller))
    manual_clock.advance(0.1)
    eventually(lambda: len(reconcile.calls) == 2)
    assert reconcile.priorities == [10, 10]


@pytest.mark.behaviour("workqueue/K16")
def test_a_result_may_give_the_next_run_another_priority(bench: Bench, manual_clock: ManualClock) -> None:
    reconcile = Script(Result(requeue_after=0.1, priority=99), None)
    controller = bench.controller(reconcile)
    controller.queue.add(WEB, priority=10)
    eventually(lambda: len(reconcile.calls) == 1 and idle(controller))
    manual_clock.advance(0.1)
    eventually(lambda: len(reconcile.calls) == 2)
    assert reconcile.priorities == [10, 99]


@pytest.mark.behaviour("workqueue/K2")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit(), asyncio.CancelledError()])
def test_what_is_no_ordinary_exception_is_a_panic_that_is_recovered(
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
        controller.status().last_error == "TypeError: the reconciler returned int; it returns None or ctrlhost.Result"
    )


class Unspeakable(Exception):
    """An exception that can not be printed."""

    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (Result(requeue_after="5"), "TypeError"),  # type: ignore[arg-type]
        (Result(requeue_after=5, priority=2**40), "OverflowError"),
        (RetryAfter(float("nan")), "ValueError"),
        (Unspeakable(), "Unspeakable"),
    ],
)
def test_an_outcome_that_makes_no_sense_is_a_failure_and_the_worker_goes_on(
    bench: Bench, manual_clock: ManualClock, step, told: str
) -> None:
    controller = bench.controller(Script(step, None))
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    assert (controller.status().last_error or "").startswith(told)
    manual_clock.advance(0.005)
    eventually(lambda: bench.results() == {"error": 1, "success": 1})


class BrokenLimiter:
    """A rate limiter with a fault."""

    def when(self, key) -> float:
        raise RuntimeError("broken")

    def forget(self, key) -> None:
        raise RuntimeError("broken")

    def num_requeues(self, key) -> int:
        return 0


def test_a_rate_limiter_that_fails_loses_no_key_and_no_worker(bench: Bench, manual_clock: ManualClock) -> None:
    runs = []

    def fail_once(ctx, request):
        runs.append(request)
        if len(runs) == 1:
            raise ValueError("once")

    controller = bench.controller(fail_once, rate_limiter=BrokenLimiter())
    controller.queue.add(WEB)
    eventually(lambda: len(runs) == 1 and idle(controller))
    manual_clock.advance(1)
    eventually(lambda: len(runs) == 2 and idle(controller))
    controller.queue.add(DB)
    eventually(lambda: runs == [WEB, WEB, DB])


def test_a_log_line_carries_the_controller_key_and_id_of_its_reconcile(bench: Bench) -> None:
    from ctrlhost.context import log_fields

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
    assert {fields["name"]: fields.get("namespace") for fields, _ in seen} == {"web": "default", "alone": None}
    assert log_fields() == {}


@pytest.mark.behaviour("workqueue/K40")
@pytest.mark.parametrize("count", [1, 50])
def test_each_reconcile_has_an_id_of_its_own(bench: Bench, count: int) -> None:
    seen = []
    controller = bench.controller(lambda ctx, request: seen.append(ctx.reconcile_id), workers=3, start=False)
    controller.queue.add_many([Request(str(number)) for number in range(count)])
    controller.start_workers()
    eventually(lambda: len(seen) == count)
    assert len(set(seen)) == count


# Concurrency.


def test_a_key_is_never_reconciled_by_two_workers_at_once(bench: Bench) -> None:
    running: set[Request] = set()
    clashes, lock = [], threading.Lock()
    runs = []

    def reconcile(ctx, request):
        with lock:
            clashes.extend([request] if request in running else [])
            running.add(request)
        with lock:
            running.discard(request)
            runs.append(request)

    controller = bench.controller(reconcile, workers=4)
    for number in range(3000):
        controller.queue.add(Request(str(number % 7)))
    eventually(lambda: idle(controller))
    assert not clashes
    assert {request.name for request in runs} == {str(number) for number in range(7)}


def test_keys_behind_a_reconcile_that_blocks_are_done_by_the_other_workers(bench: Bench) -> None:
    release, seen, lock = threading.Event(), [], threading.Lock()

    def reconcile(ctx, request):
        if request.name == "700":
            release.wait(30)
        with lock:
            seen.append(request.name)

    controller = bench.controller(reconcile, workers=2, start=False)
    # Short reconciles make a worker take many keys at a time; the one that blocks sits among them.
    controller.queue.add_many([Request(str(number)) for number in range(1000)])
    controller.start_workers()
    try:
        eventually(lambda: len(seen) == 999)
    finally:
        release.set()
    eventually(lambda: idle(controller))
    assert sorted(seen, key=int) == [str(number) for number in range(1000)]


@pytest.mark.behaviour("workqueue/K47")
def test_stopping_waits_for_the_reconcile_that_runs_and_does_what_is_queued(bench: Bench) -> None:
    begun, release, done = threading.Event(), threading.Event(), []

    def reconcile(ctx, request):
        begun.set()
        release.wait(30)
        done.append(request)

    controller = bench.controller(reconcile)
    controller.queue.add(WEB)
    assert begun.wait(10)
    controller.queue.add(DB)
    controller.stop_intake()
    controller.queue.add(Request("late"))
    assert not controller.drain(0.01)
    release.set()
    assert controller.drain(10)
    assert done == [WEB, DB]
    eventually(lambda: not [one for one in threading.enumerate() if one.name.startswith("demo/pods")])


@pytest.mark.behaviour("workqueue/K48")
def test_a_controller_that_was_never_started_has_no_threads(bench: Bench) -> None:
    before = set(threading.enumerate())
    controller = bench.controller(Script(), start=False)
    controller.queue.add(WEB)
    assert set(threading.enumerate()) == before


@pytest.mark.behaviour("workqueue/K29")
def test_a_second_start_is_an_error_each_time(bench: Bench) -> None:
    controller = bench.controller(Script())
    for _ in range(2):
        with pytest.raises(RuntimeError, match="demo/pods was started already"):
            controller.start_workers()


@pytest.mark.behaviour("workqueue/K26")
def test_a_key_enqueued_through_the_handle_before_the_start_is_reconciled(bench: Bench) -> None:
    plugin, reconcile = bench.plugin(), Script()
    handle = plugin.add_controller("pods", reconcile)
    handle.enqueue(WEB, priority=3)
    (controller,) = plugin.controllers
    controller.attach()
    controller.start_workers()
    eventually(lambda: reconcile.calls == [WEB])
    assert reconcile.priorities == [3]
    assert handle.name == "demo/pods"


# Time.


@pytest.mark.behaviour("workqueue/K6")
@pytest.mark.parametrize("runs", [1, 3])
def test_each_run_that_outlasts_the_timeout_counts(bench: Bench, manual_clock: ManualClock, runs: int) -> None:
    controller = bench.controller(lambda ctx, request: manual_clock.advance(6), timeout=5)
    for number in range(runs):
        controller.queue.add(Request(str(number)))
    eventually(lambda: bench.results() == {"success": runs})
    assert bench.sample("reconcile_timeouts_total") == runs


@pytest.mark.behaviour("workqueue/K5")
def test_a_timeout_of_zero_is_none(bench: Bench, manual_clock: ManualClock) -> None:
    controller = bench.controller(lambda ctx, request: manual_clock.advance(3600), timeout=0)
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"success": 1})
    assert bench.sample("reconcile_timeouts_total") == 0


@pytest.mark.behaviour("workqueue/K7")
@pytest.mark.parametrize("error", [TimeoutError("the plugin's own"), None, asyncio.CancelledError()])
def test_a_run_that_ends_in_time_is_no_timeout_whatever_it_raises(bench: Bench, error) -> None:
    controller = bench.controller(Script(error), timeout=10)
    controller.queue.add(WEB)
    eventually(lambda: idle(controller) and bench.results())
    assert bench.sample("reconcile_timeouts_total") == 0


def test_a_reconcile_that_outlasts_its_timeout_is_reported_while_it_runs(
    bench: Bench, manual_clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    begun, release = threading.Event(), threading.Event()

    def reconcile(ctx, request):
        begun.set()
        release.wait(30)

    controller = bench.controller(reconcile, timeout=5)
    controller.queue.add(WEB)
    assert begun.wait(10)
    assert controller.status().active == 1
    manual_clock.advance(5)
    try:
        eventually(lambda: any("longer than its timeout of 5 s" in line for line in caplog.messages))
    finally:
        release.set()
    eventually(lambda: idle(controller))
    assert sum("longer than its timeout" in line for line in caplog.messages) == 1


# Asynchronous reconcilers.


def test_async_reconcilers_of_a_plugin_run_on_one_thread_and_at_once(bench: Bench) -> None:
    together, threads = [], set()
    meet = asyncio.Barrier(3)

    async def reconcile(ctx, request):
        await meet.wait()
        threads.add(threading.current_thread().name)
        together.append(request)

    controller = bench.controller(reconcile, workers=3)
    for number in range(3):
        controller.queue.add(Request(str(number)))
    eventually(lambda: bench.results() == {"success": 3})
    assert len(together) == 3
    assert threads == {"demo event loop"}
    assert controller.drain(10)


def test_an_async_failure_is_retried_like_any_other(bench: Bench, manual_clock: ManualClock) -> None:
    script = Script(ValueError("no"), Result(requeue_after=1), None)

    async def reconcile(ctx, request):
        return script(ctx, request)

    controller = bench.controller(reconcile)
    controller.queue.add(WEB, priority=7)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    manual_clock.advance(0.005)
    eventually(lambda: bench.results() == {"error": 1, "requeue_after": 1} and idle(controller))
    manual_clock.advance(1)
    eventually(lambda: bench.results() == {"error": 1, "requeue_after": 1, "success": 1})
    assert script.priorities == [7, 7, 7]


@pytest.mark.behaviour("workqueue/K4")
def test_an_async_reconcile_is_cancelled_at_its_timeout(bench: Bench, manual_clock: ManualClock) -> None:
    begun = threading.Event()

    async def reconcile(ctx, request):
        begun.set()
        await asyncio.sleep(3600)

    controller = bench.controller(reconcile, timeout=5)
    controller.queue.add(WEB)
    assert begun.wait(10)
    manual_clock.advance(5)
    eventually(lambda: bench.results() == {"error": 1})
    assert controller.status().last_error == "TimeoutError: the reconcile was cancelled at its timeout of 5 s"
    assert bench.sample("reconcile_timeouts_total") == 1


# Declarations.


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda plugin: plugin.add_controller("", print), "needs a name"),
        (lambda plugin: plugin.add_controller("a/b", print), "without a slash"),
        (lambda plugin: plugin.add_controller("a", None), "can not be called"),
        (lambda plugin: plugin.add_controller("a", print, "v1"), "is no source"),
        (lambda plugin: plugin.add_controller("a", print, For("v1", "Pod"), For("v1", "Node")), "more than one `For`"),
        (lambda plugin: plugin.add_controller("a", print, Owns("v1", "Pod")), "`Owns` needs a `For`"),
        (lambda plugin: plugin.add_controller("a", print, Every(3)), "`Every` without requests"),
        (lambda plugin: [plugin.add_controller("a", print) for _ in range(2)], "two controllers named `a`"),
        (lambda plugin: plugin.add_page("status", None), "begins with a slash"),
        (lambda plugin: plugin.add_listener("8080", None), "HOST:PORT"),
    ],
)
@pytest.mark.behaviour("workqueue/K45")
@pytest.mark.behaviour("workqueue/K46")
def test_a_declaration_that_can_not_work_is_refused_by_name(bench: Bench, declare, message: str) -> None:
    with pytest.raises(PluginLoadError, match=message) as caught:
        declare(bench.plugin())
    assert caught.value.plugin == "demo"
    assert "demo" in caught.value.message


@pytest.mark.behaviour("workqueue/K46")
def test_controllers_of_two_plugins_may_share_a_name(bench: Bench) -> None:
    names = [bench.plugin(name).add_controller("pods", print).name for name in ("one", "two")]
    assert names == ["one/pods", "two/pods"]


@pytest.mark.behaviour("workqueue/K49")
def test_a_limiter_of_the_plugins_own_replaces_the_default(bench: Bench, manual_clock: ManualClock) -> None:
    limiter = ItemFastSlowRateLimiter(2, 60, 5)
    controller = bench.controller(Script(ValueError(), None), rate_limiter=limiter)
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    assert limiter.num_requeues(WEB) == 1
    manual_clock.advance(1.9)
    settle(bench, controller)
    assert bench.results() == {"error": 1}
    manual_clock.advance(0.1)
    eventually(lambda: bench.results() == {"error": 1, "success": 1})


class Overrides:
    """What the operator's settings say of a controller."""

    def __init__(self, **given) -> None:
        for name in ("workers", "timeout", "namespaces", "base_delay", "max_delay"):
            setattr(self, name, given.get(name))


@pytest.mark.behaviour("workqueue/K50")
def test_the_operator_overrides_what_the_plugin_asked_for(bench: Bench) -> None:
    bench.overrides["demo/pods"] = Overrides(workers=5, timeout=7.0, base_delay=1.0, namespaces=("a",))
    limiter = ItemExponentialFailureRateLimiter(1, 2)
    options = bench.controller(Script(), workers=2, timeout=3, rate_limiter=limiter, start=False).options
    assert (options.workers, options.timeout, options.namespaces) == (5, 7.0, ("a",))
    assert (options.base_delay, options.max_delay, options.rate_limiter) == (1.0, 1000.0, None)


@pytest.mark.behaviour("workqueue/K50")
def test_without_overrides_the_defaults_are_upstreams(bench: Bench) -> None:
    options = bench.controller(Script(), workers=0, start=False).options
    assert (options.workers, options.timeout, options.needs_leader) == (1, None, True)
    assert (options.base_delay, options.max_delay) == (0.005, 1000.0)


def test_a_controller_says_what_it_is_doing(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    controller = bench.controller(Script(ValueError("no luck")), workers=2)
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    status = controller.status()
    assert (status.name, status.workers, status.runs, status.errors) == ("demo/pods", 2, 1, 1)
    assert status.last_error == "ValueError: no luck"
    assert status.synced
