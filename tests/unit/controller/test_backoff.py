"""`ctrlhost.Backoff`: the delays that it sets, and what it refuses."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import ctrlhost
from ctrlhost.clock import SystemClock
from ctrlhost.controller.backoff import BackoffLimiter
from ctrlhost.controller.retries import RetryLimiter
from ctrlhost.testing import ManualClock
from tests.support.controllers import WEB, Bench, Script, idle
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour


@behaviour("findings3/NA4")
@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        (ctrlhost.Backoff(), [0.005, 0.01, 0.02, 0.04]),
        (ctrlhost.Backoff(first="1s", factor=2, max="5s", jitter=0.1), [1, 2, 4, 5, 5]),
        (ctrlhost.Backoff("100ms", 10, timedelta(minutes=1)), [0.1, 1, 10, 60, 60]),
        (ctrlhost.Backoff(3, factor=1), [3, 3, 3]),
    ],
)
def test_the_delay_grows_by_the_factor_up_to_the_longest(backoff: ctrlhost.Backoff, delays: list[float]) -> None:
    limiter = BackoffLimiter(backoff)
    assert [limiter.when("a") for _ in delays] == pytest.approx(delays)
    assert (limiter.num_requeues("a"), limiter.num_requeues("b")) == (len(delays), 0)
    assert limiter.when("b") == delays[0]
    limiter.forget("a")
    assert limiter.when("a") == delays[0]


@behaviour("findings3/NA4")
def test_no_number_of_failures_is_too_large() -> None:
    assert ctrlhost.Backoff(factor=1e300).delay(1_000_000) == 1000


@behaviour("findings3/NA4")
@pytest.mark.parametrize("jitter", [0.0, 0.1, 1.0])
def test_the_jitter_is_the_largest_part_that_is_added(jitter: float) -> None:
    backoff = ctrlhost.Backoff(first=1, jitter=jitter)
    limiter = RetryLimiter(BackoffLimiter(backoff), 0, backoff, SystemClock(), lambda: 1.0)
    assert limiter.when("a") == pytest.approx(1 + jitter)


@behaviour("findings3/NA4")
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"first": 0}, ValueError, "the back-off's first must be longer than 0 s"),
        ({"max": "0s"}, ValueError, "the back-off's max must be longer than 0 s"),
        ({"first": -1}, ValueError, "must be finite and not negative, got -1"),
        ({"first": "6m", "max": "5m"}, ValueError, r"first delay \(6m\) must not be longer than its max \(5m\)"),
        ({"factor": 0.5}, ValueError, "the factor of a back-off must be at least 1, got 0.5"),
        ({"factor": float("inf")}, ValueError, "must be at least 1, got inf"),
        ({"factor": "2"}, TypeError, "the factor of a back-off must be a number, got '2'"),
        ({"jitter": 1.5}, ValueError, "the jitter of a back-off must be from 0 to 1, got 1.5"),
        ({"jitter": float("nan")}, ValueError, "must be from 0 to 1, got nan"),
        ({"jitter": True}, TypeError, "the jitter of a back-off must be a number, got True"),
        ({"first": [1]}, TypeError, "a duration must be"),
    ],
)
def test_a_back_off_that_makes_no_sense_is_refused(arguments: dict[str, Any], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        ctrlhost.Backoff(**arguments)


@behaviour("findings3/NA4")
@pytest.mark.parametrize(
    ("overrides", "delays"),
    [
        ({}, [1, 3, 9, 10]),
        ({"base_delay": 2.0}, [2, 6, 10, 10]),
        ({"max_delay": 5.0}, [1, 3, 5, 5]),
        ({"base_delay": 2.0, "max_delay": 4.0}, [2, 4, 4, 4]),
        # The plugin's other delay follows.
        ({"base_delay": 20.0}, [20, 20, 20, 20]),
        ({"max_delay": 0.5}, [0.5, 0.5, 0.5, 0.5]),
    ],
)
def test_the_operator_overrides_the_delays_and_the_plugins_factor_stays(
    bench: Bench, manual_clock: ManualClock, overrides: dict[str, float], delays: list[float]
) -> None:
    names = ("workers", "timeout", "slow_after", "namespaces", "base_delay", "max_delay", "paused", "shard_by")
    bench.overrides["demo/pods"] = type("Overrides", (), {name: overrides.get(name) for name in names})
    retry = ctrlhost.Backoff(first="1s", factor=3, max="10s")
    controller = bench.controller(Script(*[ValueError()] * len(delays)), retry=retry)
    controller.queue.add(WEB)
    for failures, delay in enumerate(delays, start=1):
        eventually(lambda failures=failures: bench.results() == {"error": failures} and idle(controller))
        (item,) = controller.queue.snapshot().delayed
        assert item.due_in == pytest.approx(delay)
        manual_clock.advance(item.due_in)


class Slow(Script):
    """A reconciler whose runs take some time of a manual clock, and fail."""

    def __init__(self, clock: ManualClock, *seconds: float) -> None:
        super().__init__(*[ValueError() for _ in seconds])
        self._clock = clock
        self._seconds = list(seconds)

    def __call__(self, ctx: Any, request: Any) -> Any:
        self._clock.advance(self._seconds.pop(0))
        return super().__call__(ctx, request)


class AsyncSlow(Slow):
    """The same as an `async def`."""

    async def __call__(self, ctx: Any, request: Any) -> Any:
        return super().__call__(ctx, request)


@behaviour("findings3/NA5")
@pytest.mark.parametrize("kind", [Slow, AsyncSlow])
@pytest.mark.parametrize(
    ("retry", "delays"),
    [
        (None, [0.1, 0.2, 0.02, 0.8, 0.08]),
        (ctrlhost.Backoff(max="500ms"), [0.1, 0.2, 0.02, 0.5, 0.08]),
        (ctrlhost.Backoff(first="10ms"), [0.01, 0.02, 0.04, 0.08, 0.16]),
    ],
)
def test_the_first_delay_is_longer_after_a_run_that_took_long_unless_the_author_sets_it(
    bench: Bench, manual_clock: ManualClock, kind: type[Slow], retry: ctrlhost.Backoff | None, delays: list[float]
) -> None:
    controller = bench.controller(kind(manual_clock, 10, 0.0101, 0.01, 0.02, 0), retry=retry)
    controller.queue.add(WEB)
    for failures, delay in enumerate(delays, start=1):
        eventually(lambda failures=failures: bench.results() == {"error": failures} and idle(controller))
        (item,) = controller.queue.snapshot().delayed
        assert item.due_in == pytest.approx(delay)
        manual_clock.advance(item.due_in)


@pytest.mark.behaviour("findings3/NA4")
@pytest.mark.parametrize("factor", [2, 10**300, 10**400])
def test_an_integer_factor_costs_no_more_after_many_failures(factor):
    assert ctrlhost.Backoff(first="1s", factor=factor, max="5m").delay(10**7) == 300
