"""The workers of a controller: concurrency, shutdown, timeouts and async reconcilers."""

from __future__ import annotations

import asyncio
import threading

import pytest

from ctrlhost import Every, PluginLoadError, Request, Result
from ctrlhost.controller.pool import Workers
from ctrlhost.testing import ManualClock
from tests.support.controllers import DB, WEB, Bench, Script, idle
from tests.support.waiting import eventually


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


def test_keys_behind_a_blocked_reconcile_are_done_by_other_workers(bench: Bench) -> None:
    release, seen, lock = threading.Event(), [], threading.Lock()

    def reconcile(ctx, request):
        if request.name == "700":
            release.wait(30)
        with lock:
            seen.append(request.name)

    controller = bench.controller(reconcile, workers=2, start=False)
    # Short reconciles make a worker take many keys at a time; the blocking key is one of them.
    controller.queue.add_many([Request(str(number)) for number in range(1000)])
    controller.start_workers()
    try:
        eventually(lambda: len(seen) == 999)
    finally:
        release.set()
    eventually(lambda: idle(controller))
    assert sorted(seen, key=int) == [str(number) for number in range(1000)]


@pytest.mark.behaviour("workqueue/K47")
def test_stopping_waits_for_the_running_reconcile_and_the_queued_keys(bench: Bench) -> None:
    started, release, done = threading.Event(), threading.Event(), []

    def reconcile(ctx, request):
        started.set()
        release.wait(30)
        done.append(request)

    controller = bench.controller(reconcile)
    controller.queue.add(WEB)
    assert started.wait(10)
    controller.queue.add(DB)
    controller.stop_intake()
    controller.queue.add(Request("late"))
    drained: list[bool] = []
    drain = threading.Thread(target=lambda: drained.append(controller.drain(30)))
    drain.start()
    assert done == []
    release.set()
    drain.join()
    assert drained == [True]
    assert done == [WEB, DB]
    eventually(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("demo/pods")])


@pytest.mark.behaviour("workqueue/K48")
def test_a_controller_that_never_started_has_no_threads(bench: Bench) -> None:
    before = set(threading.enumerate())
    controller = bench.controller(Script(), start=False)
    controller.queue.add(WEB)
    # Those of earlier tests may end now.
    assert set(threading.enumerate()) <= before


@pytest.mark.behaviour("workqueue/K29")
def test_a_second_start_is_an_error_each_time(bench: Bench) -> None:
    controller = bench.controller(Script())
    for _ in range(2):
        with pytest.raises(RuntimeError, match="demo/pods is already started"):
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
    # A source that could never send an event is refused.
    with pytest.raises(PluginLoadError, match="`Every` without requests"):
        bench.plugin().add_controller("silent", Script(), Every(3))


@pytest.mark.behaviour("workqueue/K6")
@pytest.mark.parametrize("runs", [1, 3])
def test_each_run_that_outlasts_the_timeout_counts(bench: Bench, manual_clock: ManualClock, runs: int) -> None:
    controller = bench.controller(lambda ctx, request: manual_clock.advance(6), timeout=5)
    for number in range(runs):
        controller.queue.add(Request(str(number)))
    eventually(lambda: bench.results() == {"success": runs} and idle(controller))
    assert bench.sample("reconcile_timeouts_total") == runs


@pytest.mark.behaviour("workqueue/K5")
def test_a_timeout_of_zero_is_none(bench: Bench, manual_clock: ManualClock) -> None:
    controller = bench.controller(lambda ctx, request: manual_clock.advance(59), timeout=0)
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"success": 1} and idle(controller))
    assert bench.sample("reconcile_timeouts_total") == 0


@pytest.mark.behaviour("workqueue/K7")
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (TimeoutError("the plugin's own"), "TimeoutError: the plugin's own"),
        (None, None),
        (asyncio.CancelledError(), "CancelledError"),
    ],
)
def test_an_exception_of_a_run_in_time_is_not_a_timeout(bench: Bench, error, message: str | None) -> None:
    controller = bench.controller(Script(error), timeout=10)
    controller.queue.add(WEB)
    eventually(lambda: idle(controller) and bench.results())
    assert bench.sample("reconcile_timeouts_total") == 0
    assert bench.results() == ({"success": 1} if error is None else {"error": 1})
    assert controller.status().last_error == message


def test_a_reconcile_that_outlasts_its_timeout_is_reported_while_it_runs(
    bench: Bench, manual_clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    started, release = threading.Event(), threading.Event()

    def reconcile(ctx, request):
        started.set()
        release.wait(30)

    controller = bench.controller(reconcile, timeout=5)
    controller.queue.add(WEB)
    assert started.wait(10)
    assert controller.status().active == 1
    manual_clock.advance(5)
    try:
        eventually(lambda: any("longer than its timeout of 5 s" in line for line in caplog.messages))
    finally:
        release.set()
    eventually(lambda: idle(controller))
    assert sum("longer than its timeout" in line for line in caplog.messages) == 1


def test_async_reconcilers_of_a_plugin_run_concurrently_on_one_thread(bench: Bench) -> None:
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
    assert threads == {"demo/loop"}
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


@pytest.mark.behaviour("workqueue/K2")
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
def test_an_exception_that_would_end_the_event_loop_is_a_panic_of_its_run(
    bench: Bench, manual_clock: ManualClock, error: BaseException
) -> None:
    script = Script(error, None)

    async def reconcile(ctx, request):
        return script(ctx, request)

    controller = bench.controller(reconcile)
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    assert bench.sample("reconcile_panics_total") == 1
    manual_clock.advance(0.005)
    eventually(lambda: bench.results() == {"error": 1, "success": 1} and idle(controller))
    assert controller.drain(10)


def test_a_plugin_cannot_stop_its_event_loop_under_its_other_runs(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async def reconcile(ctx, request):
        if request.name == "harmful":
            asyncio.get_running_loop().stop()

    controller = bench.controller(reconcile)
    controller.queue.add(Request("harmful"))
    eventually(lambda: any("event loop; the loop continues" in line for line in caplog.messages))
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"success": 2} and idle(controller))
    assert controller.drain(10)


@pytest.mark.behaviour("workqueue/K4")
def test_an_async_reconcile_is_cancelled_at_its_timeout(bench: Bench, manual_clock: ManualClock) -> None:
    started = threading.Event()

    async def reconcile(ctx, request):
        started.set()
        await asyncio.sleep(3600)

    controller = bench.controller(reconcile, timeout=5)
    controller.queue.add(WEB)
    assert started.wait(10)
    manual_clock.advance(5)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    assert controller.status().last_error == "TimeoutError: the reconcile was cancelled at its timeout of 5 s"
    assert bench.sample("reconcile_timeouts_total") == 1


def test_a_drain_joins_no_worker_that_has_not_started(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    controller = bench.controller(Script(), start=False)

    drained: list[bool] = []
    drain = threading.Thread(target=lambda: drained.append(controller.drain(30)))
    start_one = Workers._start_one

    def drain_meanwhile(pool: Workers) -> None:
        drain.start()
        start_one(pool)

    monkeypatch.setattr(Workers, "_start_one", drain_meanwhile)
    controller.start_workers()
    drain.join()
    assert drained == [True]


@pytest.mark.behaviour("operations/OP78")
@pytest.mark.filterwarnings("error")
def test_a_coroutine_that_a_plain_function_returns_is_an_error(
    bench: Bench, manual_clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    awaited = []

    async def work() -> None:
        awaited.append(1)

    controller = bench.controller(lambda ctx, request: work())
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    assert bench.sample("reconcile_errors_total") == 1
    assert not awaited
    assert controller.queue.num_requeues(WEB) == 1
    assert "was not awaited: make the reconciler an `async def`" in caplog.text
