"""The budget of writes: the rate of many, and the delay of a single one."""

from __future__ import annotations

import pytest
from ctrlhost_ingress_status.write_budget import WriteBudget
from hypothesis import given
from hypothesis import strategies as st


def served(budget: WriteBudget, count: int, qps: float) -> list[float]:
    """Take a token for each of so many bulk keys, and return when each got its token."""
    due, at = [(0.0, number) for number in range(count)], []
    while due:
        now, key = due.pop(0)
        if wait := budget.take(key, now, bulk=True):
            assert wait < count / qps + 2
            due.append((now + wait, key))
            due.sort()
        else:
            at.append(now)
    return at


def test_ten_thousand_keys_at_a_hundred_per_second_take_a_hundred_seconds() -> None:
    at = served(WriteBudget(100, 40), 10_000, 100)
    assert len(at) == 10_000
    assert 99 <= at[-1] <= 115


def test_a_burst_goes_at_once_but_for_the_reserve() -> None:
    at = served(WriteBudget(20, 40), 100, 20)
    assert at.count(0.0) == 30
    assert at[-1] == pytest.approx(70 / 20)


def test_a_single_change_is_served_at_once_while_bulk_writes_wait() -> None:
    budget = WriteBudget(20, 40)
    while not budget.take(object(), 0.0, bulk=True):
        pass
    assert [budget.take(number, 0.0, bulk=False) for number in range(10)] == [0.0] * 10
    assert 0 < budget.take("eleventh", 0.0, bulk=False) <= 0.05
    assert budget.take("bulk", 0.5, bulk=True) > 0


def test_a_key_keeps_its_place_however_often_it_asks() -> None:
    budget = WriteBudget(10, 1)
    assert budget.take("a", 0.0, bulk=True) == 0
    assert budget.take("b", 0.0, bulk=True) == pytest.approx(0.1)
    assert budget.take("c", 0.0, bulk=True) == pytest.approx(0.2)
    assert budget.take("b", 0.05, bulk=True) == pytest.approx(0.05)
    assert budget.take("b", 0.1, bulk=True) == 0


def test_the_queue_of_an_old_pass_delays_no_other_key() -> None:
    budget = WriteBudget(10, 1)
    for number in range(1000):
        budget.take(number, 0.0, bulk=True)
    assert budget.waiting() == 999
    budget.clear_bulk()
    assert budget.take("new", 0.05, bulk=True) == pytest.approx(0.05)
    budget.leave("new")
    assert budget.waiting() == 0


def test_without_a_limit_every_key_gets_a_token() -> None:
    budget = WriteBudget(0, 1)
    assert not any(budget.take(number, 0.0, bulk=True) for number in range(1000))


PAUSES = st.integers(0, 12).map(lambda quarters: quarters / 4)


@given(
    st.sampled_from([0.5, 3.0, 20.0, 200.0]),
    st.integers(1, 60),
    st.lists(st.tuples(PAUSES, st.booleans()), max_size=30),
)
def test_no_more_tokens_are_taken_than_the_limit_allows(qps: float, burst: int, asks: list[tuple[float, bool]]) -> None:
    budget, now, gone = WriteBudget(qps, burst), 0.0, 0
    for key, (pause, bulk) in enumerate(asks):
        now += pause
        gone += budget.take(key, now, bulk=bulk) == 0
        assert gone <= burst + now * qps + 0.01
