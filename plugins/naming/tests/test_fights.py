"""Giving up against another controller with other rules."""

from __future__ import annotations

import pytest
from ctrlhost_naming.crd import NAMES_ACCEPTED, NO_CONFLICTS, Condition, Crd, Names, Spec, Status
from ctrlhost_naming.fights import FightGuard

from ctrlhost import ObjectMeta

REFUSED = Condition(NAMES_ACCEPTED, "False", "ShortNamesConflict", '"b" is already in use')


def crd(condition: Condition) -> Crd:
    return Crd(ObjectMeta(name="bs.g.io"), Spec("g.io", Names("bs")), Status(Names(), (condition,)))


def rounds(times: list[float], *, theirs: Condition = NO_CONFLICTS, retry: bool = False) -> tuple[list[bool], bool]:
    """Write and have it undone at each of these times; return where that is a fight, and whether the group is lost."""
    guard = FightGuard()
    guard.is_fight(crd(NO_CONFLICTS), REFUSED, 0)
    outcomes = [guard.is_fight(crd(theirs), REFUSED, now, retry=retry) for now in times]
    assert not guard.has_given_up("x.io")
    return outcomes, guard.has_given_up("g.io")


@pytest.mark.behaviour("naming/F6")
def test_the_fourth_foreign_change_within_a_minute_gives_up_the_group() -> None:
    assert rounds([0, 10, 20, 30]) == ([False, False, False, True], True)


def test_foreign_changes_further_apart_are_tolerated() -> None:
    assert rounds([0, 30, 60, 90, 120, 150]) == ([False] * 6, False)


def test_an_unchanged_status_is_no_fight() -> None:
    assert rounds([0, 1, 2, 3, 4, 5], theirs=REFUSED) == ([False] * 6, False)


def test_a_retry_after_a_failed_write_is_no_fight() -> None:
    assert rounds([0, 1, 2, 3, 4, 5], retry=True) == ([False] * 6, False)


def test_a_new_result_is_no_fight() -> None:
    guard = FightGuard()
    other = Condition(NAMES_ACCEPTED, "False", "SingularConflict", '"c" is already in use')
    assert not any(guard.is_fight(crd(NO_CONFLICTS), (REFUSED, other)[turn % 2], turn) for turn in range(10))
