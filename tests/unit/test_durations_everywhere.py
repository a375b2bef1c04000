"""Durations wherever they are written: a number of seconds, a `timedelta` or a text."""

from __future__ import annotations

import queue
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from ctrlhost import Client, Duration, Every, Expectations, Result, RetryAfter
from ctrlhost.duration import DurationLike, in_seconds
from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import (
    ItemExponentialFailureRateLimiter,
    ItemFastSlowRateLimiter,
    WithMaxWaitRateLimiter,
    WorkQueue,
)
from tests.support.controllers import Bench

behaviour = pytest.mark.behaviour

READERS: dict[str, Callable[[Any], float | None]] = {
    "Result": lambda value: Result(requeue_after=value).requeue_after,
    "Every": lambda value: Every(value).seconds,
    "RetryAfter": lambda value: RetryAfter(value).seconds,
    "Duration": Duration,
    "in_seconds": in_seconds,
}
reader = pytest.mark.parametrize("read", READERS.values(), ids=READERS)


@behaviour("authoring/AU18")
@reader
@pytest.mark.parametrize("value", [90, 90.0, "90s", "1m30s", "1.5m", timedelta(seconds=90), timedelta(minutes=1.5)])
def test_forms_of_one_duration(read: Callable[[Any], float], value: DurationLike) -> None:
    seconds = read(value)
    assert seconds == 90
    assert isinstance(seconds, float)


@behaviour("authoring/AU18")
@reader
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("100us", 0.0001),
        ("5ns", 5e-9),
        ("1h30m", 5400),
        ("1d", 86400),
        ("250ms", 0.25),
        ("7\u00b5s", 7e-6),
        ("7\u03bcs", 7e-6),
    ],
)
def test_all_units_are_exact(read: Callable[[Any], float], text: str, seconds: float) -> None:
    assert read(text) == seconds


@behaviour("authoring/AU18")
@reader
@pytest.mark.parametrize("text", ["30", "s", "-5s", "soon", "", "1h30"])
def test_a_bad_text_is_an_error_where_it_is_written(read: Callable[[Any], float], text: str) -> None:
    with pytest.raises(ValueError, match=f"invalid duration `{text}`: a text has units, such as `30s`"):
        read(text)


@reader
@pytest.mark.parametrize("value", [True, b"3s", [1]])
def test_other_types_are_errors(read: Callable[[Any], float], value: Any) -> None:
    with pytest.raises(TypeError, match="duration"):
        read(value)


def test_numbers_that_a_reconciler_calculates_may_be_negative() -> None:
    assert Result(requeue_after=-1).is_zero()
    assert RetryAfter(-1).seconds == -1
    assert str(RetryAfter("1m")) == "retry after 60 s"
    assert repr(Result("1m", 3)) == "Result(requeue_after=60.0, priority=3)"
    assert Result() == Result(None) != Result("1s")
    with pytest.raises(ValueError, match="positive"):
        Every("0s")


@behaviour("authoring/AU18")
def test_registrations_and_the_clock_take_durations(bench: Bench, manual_clock: ManualClock) -> None:
    manual_clock.advance("1h")
    manual_clock.advance(timedelta(seconds=1))
    assert manual_clock.now() == 3601
    plugin = bench.plugin()
    plugin.add_controller("c", print, Every("10m", list), timeout="1.5s")
    assert plugin.controllers[-1].options.timeout == 1.5
    plugin.add_task("t", print, every="30s", first_after=timedelta(seconds=10))
    for wrong in (
        lambda: manual_clock.advance("soon"),
        lambda: plugin.add_controller("d", print, Every("10m", list), timeout="soon"),
        lambda: plugin.add_task("u", print, every="soon"),
        lambda: plugin.add_task("u", print, first_after="soon"),
        lambda: Client.load("/nonexistent", connect_timeout="soon"),
        lambda: plugin.informer("v1", "Pod").add_handler(resync="soon"),
        lambda: Expectations(manual_clock, timeout="soon"),
    ):
        with pytest.raises(ValueError, match="invalid duration `soon`"):
            wrong()
    assert Expectations(manual_clock, timeout="5m")
    with pytest.raises(ValueError, match="positive"):
        Expectations(manual_clock, timeout="0s")
    with pytest.raises(ValueError, match="not negative"):
        plugin.add_task("u", print, first_after=-1)


@behaviour("authoring/AU18")
def test_queues_and_limiters_take_durations(manual_clock: ManualClock) -> None:
    limiter = ItemExponentialFailureRateLimiter("2s", timedelta(minutes=1))
    assert [limiter.when("a") for _ in range(7)] == [2, 4, 8, 16, 32, 60, 60]
    assert [ItemFastSlowRateLimiter("1s", "1m", 1).when("a"), WithMaxWaitRateLimiter(limiter, "3s").when("b")] == [1, 2]
    queued = WorkQueue(rate_limiter=limiter, clock=manual_clock, aging="30s")
    queued.add_after("key", "1m30s")
    manual_clock.advance("89s")
    with pytest.raises(queue.Empty):
        queued.get(timeout=timedelta(0))
    manual_clock.advance("1s")
    assert queued.get(timeout="1s") == "key"
    queued.done("key")
    assert queued.shut_down_with_drain("1s")
    for wrong in (
        lambda: queued.add_after("key", "soon"),
        lambda: queued.get("soon"),
        lambda: WorkQueue(aging="soon"),
        lambda: ItemExponentialFailureRateLimiter("soon", 1),
    ):
        with pytest.raises(ValueError, match="invalid duration `soon`"):
            wrong()
    with pytest.raises(TypeError, match="duration"):
        queued.add_after("key", True)


@behaviour("authoring/AU18")
def test_timeouts_of_requests_are_durations(sandbox: Any) -> None:
    client = Client.load(sandbox.kubeconfig, connect_timeout="5s")
    assert client.get("v1", "Namespace", "default", timeout="20s")["kind"] == "Namespace"
    assert next(obj["kind"] for obj in client.list("v1", "Namespace", timeout=timedelta(seconds=20))) == "Namespace"
    with pytest.raises(ValueError, match="invalid duration `20`"):
        client.get("v1", "Namespace", "default", timeout="20")
