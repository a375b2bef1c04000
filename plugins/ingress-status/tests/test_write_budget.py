"""The budget of writes: how fast many are let through, and how soon a single one."""

from __future__ import annotations

import pytest
from ctrlhost_ingress_status.write_budget import Lanes
from hypothesis import given
from hypothesis import strategies as st


def served(lanes: Lanes, count: int, qps: float) -> list[float]:
    """Let so many keys through the slow lane, each coming back when told, and give when each was served."""
    due, at = [(0.0, number) for number in range(count)], []
    while due:
        now, key = due.pop(0)
        if wait := lanes.take(key, now, slow=True):
            assert wait < count / qps + 2
            due.append((now + wait, key))
            due.sort()
        else:
            at.append(now)
    return at


def test_ten_thousand_keys_at_a_hundred_per_second_take_a_hundred_seconds() -> None:
    at = served(Lanes(100, 40), 10_000, 100)
    assert len(at) == 10_000
    assert 99 <= at[-1] <= 115


def test_a_burst_goes_at_once_but_for_the_reserve() -> None:
    at = served(Lanes(20, 40), 100, 20)
    assert at.count(0.0) == 30
    assert at[-1] == pytest.approx(70 / 20)


def test_a_single_change_is_served_at_once_while_the_slow_lane_waits() -> None:
    lanes = Lanes(20, 40)
    while not lanes.take(object(), 0.0, slow=True):
        pass
    assert [lanes.take(number, 0.0, slow=False) for number in range(10)] == [0.0] * 10
    assert 0 < lanes.take("eleventh", 0.0, slow=False) <= 0.05
    assert lanes.take("slow", 0.5, slow=True) > 0


def test_a_key_keeps_its_place_however_often_it_asks() -> None:
    lanes = Lanes(10, 1)
    assert lanes.take("a", 0.0, slow=True) == 0
    assert lanes.take("b", 0.0, slow=True) == pytest.approx(0.1)
    assert lanes.take("c", 0.0, slow=True) == pytest.approx(0.2)
    assert lanes.take("b", 0.05, slow=True) == pytest.approx(0.05)
    assert lanes.take("b", 0.1, slow=True) == 0


def test_the_line_of_a_pass_that_is_over_holds_nobody_up() -> None:
    lanes = Lanes(10, 1)
    for number in range(1000):
        lanes.take(number, 0.0, slow=True)
    assert lanes.waiting() == 999
    lanes.clear_slow()
    assert lanes.take("new", 0.05, slow=True) == pytest.approx(0.05)
    lanes.leave("new")
    assert lanes.waiting() == 0


def test_without_a_limit_everybody_goes() -> None:
    lanes = Lanes(0, 1)
    assert not any(lanes.take(number, 0.0, slow=True) for number in range(1000))


PAUSES = st.integers(0, 12).map(lambda quarters: quarters / 4)


@given(
    st.sampled_from([0.5, 3.0, 20.0, 200.0]),
    st.integers(1, 60),
    st.lists(st.tuples(PAUSES, st.booleans()), max_size=30),
)
def test_no_more_go_than_the_limit_allows(qps: float, burst: int, asks: list[tuple[float, bool]]) -> None:
    lanes, now, gone = Lanes(qps, burst), 0.0, 0
    for key, (pause, slow) in enumerate(asks):
        now += pause
        gone += lanes.take(key, now, slow=slow) == 0
        assert gone <= burst + now * qps + 0.01
