"""Aging and fairness between groups: no key starves."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlhost.request import Request
from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import WorkQueue


def test_aging_periodically_hands_out_the_oldest_key() -> None:
    clock = ManualClock()
    work_queue = WorkQueue(clock=clock, aging=30)
    work_queue.add_many(["low 1", "low 2"], priority=-100)
    clock.advance(29)
    work_queue.add_many([f"high {number}" for number in range(6)])
    assert work_queue.get() == "high 0"
    clock.advance(1)
    assert work_queue.get_with_priority() == ("low 1", -100)
    assert work_queue.get_batch(2) == ["high 1", "high 2"]
    clock.advance(29)
    assert work_queue.get() == "high 3"
    clock.advance(1)
    assert work_queue.get() == "low 2"


@given(st.integers(1, 8), st.integers(1, 20), st.lists(st.integers(-5, 5), min_size=1, max_size=8))
def test_no_key_waits_longer_than_its_bound(aging: int, load: int, priorities: list[int]) -> None:
    # The bound: with `older` keys before it, aging * (older + 2) seconds and the time to the next get, here a second.
    clock = ManualClock()
    work_queue = WorkQueue(clock=clock, aging=aging)
    for number, priority in enumerate(priorities):
        work_queue.add(number, priority=priority)
    handed_out: dict[Any, float] = {}
    for second in range(aging * (len(priorities) + 3)):
        clock.advance(1)
        for number in range(load):
            work_queue.add(f"{second} {number}", priority=9)
        key = work_queue.get_nowait()
        handed_out[key] = clock.now()
        work_queue.done(key)
    for older in range(len(priorities)):
        assert handed_out[older] <= aging * (older + 2) + 1


def test_aging_can_be_disabled() -> None:
    clock = ManualClock()
    work_queue = WorkQueue(clock=clock, aging=None)
    work_queue.add("low", priority=-100)
    clock.advance(1e6)
    work_queue.add("high")
    assert work_queue.get_batch(2) == ["high", "low"]


def test_the_age_counts_from_queueing_and_survives_a_raise() -> None:
    clock = ManualClock()
    work_queue = WorkQueue(clock=clock, aging=30)
    work_queue.add("raised", priority=-100)
    clock.advance(30)
    work_queue.add("peer", priority=5)
    work_queue.add("other", priority=7)
    work_queue.add("raised", priority=5)
    assert work_queue.get_batch(3) == ["raised", "other", "peer"]


@pytest.mark.parametrize("aging", [-1, float("nan")])
def test_an_invalid_age_is_refused(aging: float) -> None:
    with pytest.raises(ValueError, match="aging must not be negative or NaN"):
        WorkQueue(aging=aging)


class Named(NamedTuple):
    namespace: str
    number: int


def test_namespaces_take_turns_within_a_priority() -> None:
    work_queue = WorkQueue(fair_by="namespace")
    work_queue.add_many([Request(f"noisy-{number}", "noisy") for number in range(4)])
    work_queue.add_many(["quiet/a", "quiet/b", Named("third", 1), "no namespace", 7])
    work_queue.add(Request("urgent", "noisy"), priority=1)
    order: list[Any] = work_queue.get_batch(20)
    assert order == [
        Request("urgent", "noisy"),
        Request("noisy-0", "noisy"),
        "quiet/a",
        Named("third", 1),
        "no namespace",
        Request("noisy-1", "noisy"),
        "quiet/b",
        7,
        Request("noisy-2", "noisy"),
        Request("noisy-3", "noisy"),
    ]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), min_size=1, max_size=60))
def test_a_group_waits_for_at_most_one_key_of_each_other_group(steps: list[tuple[str, bool]]) -> None:
    # The bound of fairness: between two turns of a group with keys, each other group is served at most once.
    work_queue = WorkQueue(fair_by=lambda key: key[0])
    queued: dict[str, int] = {}
    since: dict[str, list[str]] = {}
    """For each queued group: the groups served since its last turn, or since it was queued."""
    for number, (group, also_get) in enumerate(steps + [("", True)] * len(steps)):
        if group:
            work_queue.add((group, number))
            queued[group] = queued.get(group, 0) + 1
            since.setdefault(group, [])
        if also_get and queued:
            served: str = work_queue.get(timeout=0)[0]
            assert len(since[served]) == len(set(since[served])), since
            for waited in since.values():
                waited.append(served)
            queued[served] -= 1
            since[served] = []
            if not queued[served]:
                del queued[served], since[served]
    assert len(work_queue) == 0


def test_a_callable_returns_the_group() -> None:
    work_queue = WorkQueue(fair_by=lambda key: "odd" if key % 2 else "even")
    work_queue.add_many([1, 3, 5, 2, 4])
    work_queue.add_after(7, 0)
    assert work_queue.get_batch(10) == [1, 2, 3, 4, 5, 7]


def test_an_exception_of_the_callable_reaches_the_caller_and_queues_nothing() -> None:
    def group(key: Any) -> Any:
        return {"bad": 3}[key]

    work_queue = WorkQueue(fair_by=group)
    for add in (work_queue.add, work_queue.add_rate_limited, lambda key: work_queue.add_after(key, 1)):
        with pytest.raises(KeyError):
            add("missing")
        with pytest.raises(TypeError, match="fair_by must return a str"):
            add("bad")
    with pytest.raises(KeyError):
        work_queue.add_many(["missing"])
    assert work_queue.snapshot() == ([], [], [])


def test_the_callable_may_use_the_queue() -> None:
    def group(key: Any) -> str:
        if key == "first":
            work_queue.add("second")
        return str(len(work_queue))

    work_queue = WorkQueue(fair_by=group)
    work_queue.add("first")
    assert sorted(work_queue.get_batch(5)) == ["first", "second"]


@pytest.mark.parametrize("fair_by", ["name", 3, b"namespace"])
def test_an_invalid_fair_by_is_refused(fair_by: Any) -> None:
    with pytest.raises(TypeError, match="fair_by must be None"):
        WorkQueue(fair_by=fair_by)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30)), max_size=60, unique=True))
def test_a_key_waits_for_one_key_per_group_and_earlier_key(keys: list[tuple[int, int]]) -> None:
    # The bound: with `before` keys of its own group before it and `others` other groups, at most
    # (before + 1) * others keys of other groups go first.
    work_queue = WorkQueue(fair_by=lambda key: str(key[0]))
    work_queue.add_many(keys)
    order = work_queue.get_batch(1000) if keys else []
    assert sorted(order) == sorted(keys)
    groups = {group for group, _ in keys}
    for group in groups:
        mine = [key for key in keys if key[0] == group]
        assert [key for key in order if key[0] == group] == mine
        for before, key in enumerate(mine):
            others_first = sum(1 for other in order[: order.index(key)] if other[0] != group)
            assert others_first <= (before + 1) * (len(groups) - 1)


@pytest.mark.behaviour("findings/FQ5")
@pytest.mark.parametrize("key", [None, True, 1.5, ["a"], ("a", None)])
def test_an_invalid_key_is_refused_before_fair_by_is_called(key: Any) -> None:
    called: list[Any] = []

    def group(key: Any) -> str:
        called.append(key)
        return ""

    work_queue = WorkQueue(fair_by=group)
    for add in (
        work_queue.add,
        lambda key: work_queue.add_many(["valid", key]),
        lambda key: work_queue.add_after(key, 1),
        work_queue.add_rate_limited,
    ):
        with pytest.raises(TypeError, match="key"):
            add(key)
    assert called == []
