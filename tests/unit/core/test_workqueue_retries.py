"""Retries beside other adds of the key: after `forget`, beside a requeue, and during another call of the limiter."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import BucketRateLimiter, ItemExponentialFailureRateLimiter, RateLimiter, WorkQueue
from tests.support.workqueue_threads import Background

behaviour = pytest.mark.behaviour


def long_back_off(clock: ManualClock) -> WorkQueue:
    """Return a queue in which `foo` waits for a back-off of 655.36 s."""
    limiter = ItemExponentialFailureRateLimiter(0.005, 1000)
    for _ in range(17):
        limiter.when("foo")
    work_queue = WorkQueue(clock=clock, rate_limiter=limiter)
    work_queue.add_rate_limited("foo")
    (delayed,) = work_queue.snapshot().delayed
    assert (delayed.due_in, delayed.back_off) == (655.36, True)
    return work_queue


def run_now(work_queue: WorkQueue) -> None:
    """An event lets `foo` run at once."""
    work_queue.add("foo")
    assert work_queue.get_nowait() == "foo"


@behaviour("findings/FQ1")
def test_a_retry_after_forget_starts_afresh(clock: ManualClock) -> None:
    work_queue = long_back_off(clock)
    run_now(work_queue)
    work_queue.forget("foo")
    work_queue.done("foo")
    run_now(work_queue)
    work_queue.add_rate_limited("foo")
    work_queue.done("foo")
    assert work_queue.num_requeues("foo") == 1
    clock.advance(0.004)
    assert len(work_queue) == 0
    clock.advance(0.001)
    assert work_queue.get_nowait() == "foo"
    work_queue.done("foo")
    clock.advance(1000)
    assert work_queue.snapshot() == ([], [], [])


@behaviour("findings/FQ1")
@pytest.mark.parametrize(
    "limiter", [BucketRateLimiter(1, 1), ItemExponentialFailureRateLimiter(1, 1)], ids=["bucket", "shared"]
)
def test_forget_ends_a_back_off_of_which_the_limiter_knows_nothing(clock: ManualClock, limiter: RateLimiter) -> None:
    work_queue = WorkQueue(clock=clock, rate_limiter=limiter)
    limiter.when("other")
    work_queue.add_rate_limited("foo")
    for key in ("foo", "other"):
        WorkQueue(rate_limiter=limiter).forget(key)
    assert [delayed.back_off for delayed in work_queue.snapshot().delayed] == [True]
    work_queue.forget("foo")
    assert [delayed.back_off for delayed in work_queue.snapshot().delayed] == [False]


@behaviour("findings/FQ2")
def test_a_pending_requeue_does_not_block_the_back_off_of_a_failure(clock: ManualClock) -> None:
    # The first failures, and what they wait for, are over when the key is requeued: a success forgets them.
    work_queue = long_back_off(clock)
    run_now(work_queue)
    work_queue.add_after("foo", 600)
    work_queue.forget("foo")
    work_queue.done("foo")
    run_now(work_queue)
    work_queue.add_rate_limited("foo")
    work_queue.done("foo")
    assert work_queue.num_requeues("foo") == 1
    assert [(entry.due_in, entry.back_off) for entry in work_queue.snapshot().delayed] == [(0.005, True)]
    clock.advance(0.005)
    assert work_queue.get_nowait() == "foo"


class Gate:
    """A limiter whose first call waits for `proceed`, then raises."""

    def __init__(self) -> None:
        self.called, self.proceed = threading.Event(), threading.Event()
        self.calls = 0

    def when(self, _key: Any) -> float:
        self.calls += 1
        self.called.set()
        self.proceed.wait()
        raise RuntimeError("limiter")

    def forget(self, key: Any) -> None: ...

    def num_requeues(self, _key: Any) -> int:
        return self.calls


@behaviour("findings/FQ3")
@pytest.mark.parametrize("fair_by", [None, lambda key: key])
def test_a_retry_during_a_call_of_the_limiter_that_raises_is_not_lost(clock: ManualClock, fair_by: Any) -> None:
    limiter = Gate()
    work_queue = WorkQueue("FQ3", clock=clock, rate_limiter=limiter, fair_by=fair_by)
    first = Background(work_queue.add_rate_limited, "foo")
    limiter.called.wait()
    for priority in (None, 3, 3, -1):
        work_queue.add_rate_limited("foo", priority=priority)
    assert work_queue.snapshot() == ([], [], [])
    limiter.proceed.set()
    with pytest.raises(RuntimeError, match="limiter"):
        first.result()
    assert limiter.calls == 1
    assert work_queue.get_with_priority(timeout=0) == ("foo", 3)
    work_queue.done("foo")
    assert work_queue.snapshot() == ([], [], [])
    # The failed call left nothing behind: alone, it queues nothing.
    with pytest.raises(RuntimeError, match="limiter"):
        work_queue.add_rate_limited("foo")
    assert work_queue.snapshot() == ([], [], [])


@behaviour("findings/FQ3")
def test_a_shutdown_ends_the_retry_that_waits_for_a_call_of_the_limiter(clock: ManualClock) -> None:
    limiter = Gate()
    work_queue = WorkQueue(clock=clock, rate_limiter=limiter)
    first = Background(work_queue.add_rate_limited, "foo")
    limiter.called.wait()
    work_queue.add_rate_limited("foo")
    work_queue.shut_down()
    limiter.proceed.set()
    with pytest.raises(RuntimeError, match="limiter"):
        first.result()
    assert work_queue.snapshot() == ([], [], [])


class LongCall:
    """A limiter whose first call waits for `proceed`; each call returns the wait of its number."""

    def __init__(self, *waits: float) -> None:
        self.called, self.proceed = threading.Event(), threading.Event()
        self.waits = list(waits)

    def when(self, _key: Any) -> float:
        wait = self.waits.pop(0)
        if not self.called.is_set():
            self.called.set()
            self.proceed.wait()
        return wait

    def forget(self, key: Any) -> None: ...

    def num_requeues(self, _key: Any) -> int:
        return 0


def begin_long_call(clock: ManualClock, *waits: float) -> tuple[WorkQueue, LongCall, Background]:
    """Return a queue that asks its limiter about `foo`, which was forgotten meanwhile."""
    limiter = LongCall(*waits)
    work_queue = WorkQueue(clock=clock, rate_limiter=limiter)
    first = Background(work_queue.add_rate_limited, "foo")
    limiter.called.wait()
    work_queue.forget("foo")
    return work_queue, limiter, first


@behaviour("findings/FQ1")
def test_a_retry_after_forget_does_not_share_the_delay_of_a_call_from_before(clock: ManualClock) -> None:
    work_queue, limiter, first = begin_long_call(clock, 600, 0.005)
    work_queue.add_rate_limited("foo")
    assert [(entry.due_in, entry.back_off) for entry in work_queue.snapshot().delayed] == [(0.005, True)]
    limiter.proceed.set()
    first.result()
    assert [(entry.due_in, entry.back_off) for entry in work_queue.snapshot().delayed] == [(0.005, True)]
    clock.advance(0.005)
    assert work_queue.get_nowait() == "foo"
    work_queue.done("foo")
    assert work_queue.snapshot() == ([], [], [])


@behaviour("findings/FQ1")
def test_forget_ends_the_back_off_of_a_call_that_has_not_returned(clock: ManualClock) -> None:
    work_queue, limiter, first = begin_long_call(clock, 600, 0.005)
    limiter.proceed.set()
    first.result()
    assert [(entry.due_in, entry.back_off) for entry in work_queue.snapshot().delayed] == [(600, False)]
    work_queue.add_rate_limited("foo")
    assert [(entry.due_in, entry.back_off) for entry in work_queue.snapshot().delayed] == [(0.005, True)]


@behaviour("findings/FQ1")
def test_the_key_stays_known_while_two_calls_of_the_limiter_run(clock: ManualClock) -> None:
    work_queue, limiter, first = begin_long_call(clock, 600, 0)
    work_queue.add_rate_limited("foo")
    assert work_queue.get_nowait() == "foo"
    work_queue.done("foo")
    assert work_queue.snapshot() == ([], [], [])
    limiter.proceed.set()
    first.result()
    assert [(entry.key, entry.due_in) for entry in work_queue.snapshot().delayed] == [("foo", 600)]
