from __future__ import annotations

import pytest

from ctrlhost.reflector.backoff import Backoff, RetryWindow
from ctrlhost.reflector.options import BackoffOptions
from ctrlhost.testing import ManualClock


def take(backoff: Backoff, count: int) -> list[float]:
    return [backoff.next() for _ in range(count)]


def test_delays_double_up_to_a_cap():
    assert take(Backoff(ManualClock(), BackoffOptions(jitter=0)), 8) == pytest.approx(
        [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]
    )


def test_jitter_stretches_a_delay_up_to_twice_its_length():
    backoff = Backoff(ManualClock(), BackoffOptions(base=10, cap=10))
    delays = take(backoff, 200)
    assert all(10 <= delay < 20 for delay in delays)
    assert max(delays) - min(delays) > 5


@pytest.mark.behaviour("informers/RE12")
@pytest.mark.parametrize(("refusals", "low", "high"), [(5, 0.031, 0.064), (40, 1.76, 3.53)])
def test_the_sum_of_many_delays_stays_between_the_sums_without_and_with_all_jitter(refusals, low, high):
    total = sum(take(Backoff(ManualClock(), BackoffOptions(base=0.001, cap=0.05, jitter=1)), refusals))
    assert low <= total <= high


@pytest.mark.behaviour("informers/RE13")
def test_custom_delays_are_used_unchanged():
    assert sum(take(Backoff(ManualClock(), BackoffOptions(base=0.01, cap=0.1, jitter=0)), 5)) == pytest.approx(0.25)


def test_delays_are_reset_two_minutes_after_the_last_reset():
    clock = ManualClock()
    backoff = Backoff(clock, BackoffOptions(jitter=0))
    take(backoff, 3)
    clock.advance(120)
    assert backoff.next() == pytest.approx(6.4)
    clock.advance(1)
    assert take(backoff, 2) == pytest.approx([0.8, 1.6])


@pytest.mark.behaviour("informers/RE16")
@pytest.mark.parametrize(("window", "gap_at", "expected"), [(0, None, 0), (30, None, 31), (30, 9, 40)])
def test_a_retry_window_allows_retries_for_its_length(window, gap_at, expected):
    # A gap of over a minute after the ninth failure opens a new window, which adds 31 retries to the nine.
    clock = ManualClock()
    retries = RetryWindow(clock, window)
    allowed = 0
    while retries.failed():
        allowed += 1
        clock.advance(61 if allowed == gap_at else 1)
    assert allowed == expected


@pytest.mark.behaviour("informers/RE17")
def test_a_window_expires_and_opens_again_with_the_next_failure():
    clock = ManualClock()
    never, retries = RetryWindow(clock, 0), RetryWindow(clock, 1)
    assert not never.failed()
    allowed_retries = []
    for _ in range(4):
        allowed_retries.append(retries.failed())
        clock.advance(1)
    assert allowed_retries == [True, True, False, True]
