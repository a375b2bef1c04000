"""Giving up against another controller with other rules."""

from __future__ import annotations

import pytest
from ctrlhost_naming.conditions import NAMES_ACCEPTED, NO_CONFLICTS, Condition
from ctrlhost_naming.crd import Crd
from ctrlhost_naming.fights import FightGuard
from ctrlhost_naming.names import Names

REFUSED = Condition(NAMES_ACCEPTED, "False", "ShortNamesConflict", '"b" is already in use')


def crd(condition: Condition, name: str = "bs", group: str = "g.io") -> Crd:
    return Crd(f"{name}.{group}", group, "u", "1", "", Names(name), Names(), condition, None)


def rounds(guard: FightGuard, times: list[float], *, theirs: Condition = NO_CONFLICTS) -> list[bool]:
    """Write, have it undone, and attempt to write again, at each of these times."""
    outcomes = []
    for now in times:
        guard.record_write("bs.g.io", REFUSED)
        outcomes.append(guard.is_fight(crd(theirs), REFUSED, now))
    return outcomes


@pytest.mark.behaviour("naming/F6")
def test_the_fourth_foreign_change_within_a_minute_gives_up_the_group() -> None:
    guard = FightGuard()
    assert rounds(guard, [0, 10, 20, 30]) == [False, False, False, True]
    assert guard.has_given_up("g.io")
    assert not guard.has_given_up("x.io")


def test_foreign_changes_further_apart_are_tolerated() -> None:
    guard = FightGuard()
    assert rounds(guard, [0, 30, 60, 90, 120, 150]) == [False] * 6
    assert not guard.has_given_up("g.io")


def test_a_new_result_is_no_fight() -> None:
    guard = FightGuard()
    other = Condition(NAMES_ACCEPTED, "False", "SingularConflict", '"c" is already in use')
    for now in range(10):
        guard.record_write("bs.g.io", REFUSED)
        assert not guard.is_fight(crd(NO_CONFLICTS), other, now)


def test_an_unchanged_status_is_no_fight() -> None:
    guard = FightGuard()
    assert rounds(guard, [0, 1, 2, 3, 4, 5], theirs=REFUSED) == [False] * 6
