"""The rate limiters, built in and written in Python."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest

from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    ItemFastSlowRateLimiter,
    MaxOfRateLimiter,
    WithMaxWaitRateLimiter,
    WorkQueue,
    default_controller_rate_limiter,
)
from tests.support.workqueue_threads import Background

behaviour = pytest.mark.behaviour


def delays(limiter: Any, key: Any, times: int) -> list[float]:
    return [limiter.when(key) for _ in range(times)]


def check_keys(limiter: Any, expected: list[float]) -> None:
    """Check the delays of one key, and that another key and a forgotten one start with the first delay."""
    assert delays(limiter, "one", 5) == expected
    assert limiter.num_requeues("one") == 5
    assert delays(limiter, "two", 2) == expected[:2]
    assert limiter.num_requeues("two") == 2
    limiter.forget("one")
    assert limiter.num_requeues("one") == 0
    assert limiter.when("one") == expected[0]


@behaviour("workqueue/RL1")
@behaviour("workqueue/RL2")
@behaviour("workqueue/RL3")
def test_each_failure_doubles_the_delay_of_a_key() -> None:
    check_keys(ItemExponentialFailureRateLimiter(0.001, 1), [0.001, 0.002, 0.004, 0.008, 0.016])


@pytest.mark.parametrize(
    ("base", "highest", "call", "wait"),
    [
        pytest.param(0.001, 1000, 6, 0.032, marks=behaviour("workqueue/RL4")),
        pytest.param(0.001, 1000, 1001, 1000, marks=behaviour("workqueue/RL5")),
        pytest.param(60, 3_600_000, 3, 240, marks=behaviour("workqueue/RL6")),
        pytest.param(60, 3_600_000, 1001, 3_600_000, marks=behaviour("workqueue/RL6")),
        (0, 1000, 1100, 0),
        (1, math.inf, 200, math.inf),
        (1, 0, 3, 0),
    ],
)
def test_the_delay_grows_up_to_its_limit(base: float, highest: float, call: int, wait: float) -> None:
    limiter = ItemExponentialFailureRateLimiter(base, highest)
    assert delays(limiter, "one", call)[-1] == wait


def test_the_series_of_a_controller_reaches_its_cap_with_the_19th_failure() -> None:
    series = delays(ItemExponentialFailureRateLimiter(0.005, 1000), "one", 20)
    assert series[:8] == [0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64]
    assert series[17:] == [655.36, 1000, 1000]


@behaviour("workqueue/RL7")
def test_the_first_failures_are_retried_fast() -> None:
    check_keys(ItemFastSlowRateLimiter(0.005, 10, 3), [0.005, 0.005, 0.005, 10, 10])


@behaviour("workqueue/RL8")
@behaviour("workqueue/RL9")
def test_the_longest_delay_of_all_limiters_wins() -> None:
    limiter = MaxOfRateLimiter(ItemFastSlowRateLimiter(0.005, 3, 3), ItemExponentialFailureRateLimiter(0.001, 1))
    check_keys(limiter, [0.005, 0.005, 0.005, 3, 3])
    assert MaxOfRateLimiter().when("one") == 0


class Scripted:
    """A rate limiter in Python with scripted delays."""

    def __init__(self, waits: list[Any]) -> None:
        self.waits = waits
        self.keys: list[Any] = []
        self.forgotten: list[Any] = []

    def when(self, key: Any) -> Any:
        self.keys.append(key)
        wait = self.waits.pop(0)
        if isinstance(wait, BaseException):
            raise wait
        return wait

    def forget(self, key: Any) -> None:
        self.forgotten.append(key)

    def num_requeues(self, key: Any) -> int:
        return self.keys.count(key)


@behaviour("workqueue/RL10")
def test_a_delay_can_be_bounded() -> None:
    limiter = WithMaxWaitRateLimiter(Scripted([0.005] * 100 + [1000] * 100), 500)
    assert [limiter.when(str(number)) for number in range(200)] == [0.005] * 100 + [500] * 100


def test_a_bucket_allows_a_burst_and_then_a_fixed_rate() -> None:
    clock = ManualClock()
    limiter = BucketRateLimiter(10, 100, clock)
    waits = [limiter.when(number) for number in range(200)]
    assert waits[:100] == [0] * 100
    assert waits[100:] == pytest.approx([number / 10 for number in range(1, 101)])
    assert limiter.num_requeues(1) == 0
    limiter.forget(1)
    clock.advance(10.1)
    assert limiter.when("next") == 0
    clock.advance(1e6)
    assert [limiter.when(number) for number in range(101)][-2:] == pytest.approx([0, 0.1])


def test_a_bucket_uses_the_clock_of_its_first_queue() -> None:
    clock = ManualClock()
    limiter = BucketRateLimiter(1, 1)
    WorkQueue(clock=clock, rate_limiter=MaxOfRateLimiter(WithMaxWaitRateLimiter(limiter, 100)))
    assert delays(limiter, "one", 2) == [0, 1]
    clock.advance(2)
    assert limiter.when("one") == 0
    assert BucketRateLimiter(math.inf, 1).when("one") == 0


def test_the_default_limiter_matches_upstream() -> None:
    limiter = default_controller_rate_limiter(ManualClock())
    assert delays(limiter, "one", 3) == [0.005, 0.01, 0.02]
    waits = [limiter.when(number) for number in range(98)]
    assert waits[:97] == [0.005] * 97
    assert waits[97] == pytest.approx(0.1)


def test_the_default_limiter_of_a_queue_has_no_bucket() -> None:
    clock = ManualClock()
    work_queue = WorkQueue(clock=clock)
    for number in range(1000):
        work_queue.add_rate_limited(number)
    assert {delayed.due_in for delayed in work_queue.snapshot().delayed} == {0.005}


def test_a_shared_limiter_counts_for_both_queues() -> None:
    limiter = ItemExponentialFailureRateLimiter(0.005, 1)
    queues = [WorkQueue(rate_limiter=limiter) for _ in range(2)]
    for work_queue in queues:
        work_queue.add_rate_limited("foo")
    assert [work_queue.num_requeues("foo") for work_queue in queues] == [2, 2]


@behaviour("workqueue/X17")
def test_limiters_are_exact_under_threads() -> None:
    limiter = MaxOfRateLimiter(ItemExponentialFailureRateLimiter(0.001, 1), ItemFastSlowRateLimiter(0.001, 1, 3))
    bucket = BucketRateLimiter(1, 1, ManualClock())
    waits: list[float] = []

    def ask() -> None:
        for _ in range(100):
            limiter.when("shared")
            waits.append(bucket.when("shared"))

    for thread in [Background(ask) for _ in range(10)]:
        thread.result()
    assert limiter.num_requeues("shared") == 1000
    assert sorted(waits) == [float(number) for number in range(1000)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: ItemExponentialFailureRateLimiter(-1, 1),
        lambda: ItemExponentialFailureRateLimiter(1, math.nan),
        lambda: ItemFastSlowRateLimiter(1, -1, 3),
        lambda: ItemFastSlowRateLimiter(1, 1, -3),
        lambda: BucketRateLimiter(0, 1),
        lambda: BucketRateLimiter(-1, 1),
        lambda: BucketRateLimiter(math.nan, 1),
        lambda: BucketRateLimiter(1, 0),
        lambda: BucketRateLimiter(1, 2**40),
        lambda: WithMaxWaitRateLimiter(BucketRateLimiter(1, 1), -1),
    ],
)
def test_invalid_numbers_are_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="must"):
        make()


@pytest.mark.parametrize("wrong", [None, 3, "limiter", object()])
def test_an_invalid_limiter_is_refused(wrong: Any) -> None:
    for take in (MaxOfRateLimiter, lambda limiter: WithMaxWaitRateLimiter(limiter, 1)):
        with pytest.raises(TypeError, match="is not a rate limiter: missing method when"):
            take(wrong)
    if wrong is not None:
        with pytest.raises(TypeError, match="is not a rate limiter"):
            WorkQueue(rate_limiter=wrong)


def test_a_python_limiter_is_called_with_the_key_itself() -> None:
    clock = ManualClock()
    limiter = Scripted([2.5, -3, 0])
    work_queue = WorkQueue(clock=clock, rate_limiter=limiter)
    key = ("ns", "name")
    work_queue.add_rate_limited(key)
    assert limiter.keys == [key]
    assert work_queue.num_requeues(key) == 1
    assert [delayed.due_in for delayed in work_queue.snapshot().delayed] == [2.5]
    work_queue.forget(key)
    assert limiter.forgotten == [key]
    for other in ("a", "b"):
        work_queue.add_rate_limited(other)
    assert work_queue.get_batch(5) == ["a", "b"]


@pytest.mark.parametrize(
    ("wait", "error"),
    [
        (RuntimeError("limiter"), RuntimeError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        ("soon", TypeError),
        (None, TypeError),
        (math.nan, ValueError),
    ],
)
def test_an_exception_of_a_limiter_reaches_the_caller_and_queues_nothing(wait: Any, error: type[BaseException]) -> None:
    work_queue = WorkQueue(rate_limiter=MaxOfRateLimiter(Scripted([wait, 0])))
    with pytest.raises(error):
        work_queue.add_rate_limited("foo")
    assert work_queue.snapshot() == ([], [], [])
    work_queue.add_rate_limited("foo")
    assert work_queue.get_nowait() == "foo"


def test_a_limiter_may_use_the_queue() -> None:
    class Greedy(Scripted):
        def when(self, key: Any) -> Any:
            work_queue.add("from the limiter")
            work_queue.add_rate_limited(key)
            return super().when(key)

    limiter = Greedy([0])
    work_queue = WorkQueue(rate_limiter=limiter)
    work_queue.add_rate_limited("foo")
    assert work_queue.get_batch(5) == ["from the limiter", "foo"]


def test_a_blocked_limiter_does_not_block_others() -> None:
    called, proceed = threading.Event(), threading.Event()

    class Slow(Scripted):
        def when(self, key: Any) -> Any:
            called.set()
            proceed.wait()
            return super().when(key)

    work_queue = WorkQueue(rate_limiter=Slow([0]))
    failing = Background(work_queue.add_rate_limited, "slow")
    called.wait()
    work_queue.add("fast")
    assert work_queue.get() == "fast"
    work_queue.add_rate_limited("slow")
    proceed.set()
    failing.result()
    assert work_queue.get() == "slow"


def test_a_queue_shut_down_during_a_limiter_call_queues_nothing() -> None:
    class Closing(Scripted):
        def when(self, key: Any) -> Any:
            work_queue.shut_down()
            return super().when(key)

    work_queue = WorkQueue(rate_limiter=Closing([5]))
    work_queue.add_rate_limited("foo")
    assert work_queue.snapshot() == ([], [], [])


def test_an_infinite_back_off_never_requeues() -> None:
    work_queue = WorkQueue(rate_limiter=Scripted([math.inf, 0]))
    work_queue.add_rate_limited("foo")
    assert work_queue.snapshot() == ([], [], [])
    work_queue.add_rate_limited("foo")
    assert work_queue.get_nowait() == "foo"
