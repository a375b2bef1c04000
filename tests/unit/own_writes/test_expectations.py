"""Expectations: writes of a controller that its cache has not shown yet."""

from __future__ import annotations

import pytest

from ctrlhost import Expectations, Request
from ctrlhost.testing import ManualClock

WEB, DB = Request("web", "default"), Request("db", "default")


@pytest.fixture
def expectations(clock: ManualClock) -> Expectations[Request]:
    return Expectations(clock)


def test_an_owner_without_expectations_is_satisfied(expectations: Expectations[Request]) -> None:
    assert expectations.satisfied(WEB)
    assert expectations.remaining(WEB) == 0
    expectations.creation_observed(WEB)
    expectations.deletion_observed(WEB, "u1")
    expectations.expect_creations(WEB, 0)
    expectations.expect_deletions(WEB, [])
    assert expectations.satisfied(WEB)
    assert expectations.open(WEB) == (0, frozenset())


def test_creations_are_counted_for_each_owner(expectations: Expectations[Request]) -> None:
    expectations.expect_creations(WEB, 2)
    expectations.creation_observed(DB)
    expectations.creation_observed(WEB)
    assert not expectations.satisfied(WEB)
    assert expectations.satisfied(DB)
    expectations.expect_creations(WEB, 1)
    expectations.creation_observed(WEB)
    assert expectations.open(WEB) == (1, frozenset())
    expectations.creation_observed(WEB)
    assert expectations.satisfied(WEB)
    # A creation by another client does not count towards the next expectation.
    expectations.creation_observed(WEB)
    expectations.expect_creations(WEB, 1)
    assert not expectations.satisfied(WEB)


def test_a_deletion_counts_once_by_uid(expectations: Expectations[Request]) -> None:
    expectations.expect_deletions(WEB, ["u1", "u2"])
    expectations.deletion_observed(WEB, "u1")
    expectations.deletion_observed(WEB, "u1")
    expectations.deletion_observed(WEB, "another")
    assert expectations.open(WEB) == (0, frozenset({"u2"}))
    assert not expectations.satisfied(WEB)
    expectations.deletion_observed(WEB, "u2")
    assert expectations.satisfied(WEB)


def test_an_expectation_that_is_never_met_expires(expectations: Expectations[Request], clock: ManualClock) -> None:
    expectations.expect_creations(WEB, 1)
    clock.advance(200)
    assert expectations.remaining(WEB) == 100
    # A further expectation restarts the timeout of all.
    expectations.expect_deletions(WEB, ["u1"])
    clock.advance(299)
    assert not expectations.satisfied(WEB)
    clock.advance(1)
    assert expectations.satisfied(WEB)
    assert expectations.open(WEB) == (0, frozenset())


def test_a_deleted_owner_is_forgotten(expectations: Expectations[Request]) -> None:
    expectations.expect_creations(WEB, 5)
    expectations.forget(WEB)
    expectations.forget(DB)
    assert expectations.satisfied(WEB)


def test_invalid_numbers_are_refused(expectations: Expectations[Request], clock: ManualClock) -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        expectations.expect_creations(WEB, -1)
    for timeout in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="positive"):
            Expectations(clock, timeout=timeout)
