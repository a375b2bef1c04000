"""Status conditions."""

from __future__ import annotations

import pytest

from ctrlhost import conditions
from ctrlhost.testing import ManualClock


def test_a_new_condition_has_the_time_at_which_it_was_set(manual_clock: ManualClock) -> None:
    obj: dict = {}
    assert conditions.set(obj, "Ready", True, "AllGood", "all is well", manual_clock, observed_generation=3)
    assert obj["status"]["conditions"] == [
        {
            "type": "Ready",
            "status": "True",
            "reason": "AllGood",
            "message": "all is well",
            "observedGeneration": 3,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]


def test_the_transition_time_changes_only_with_the_status(manual_clock: ManualClock) -> None:
    obj: dict = {}
    conditions.set(obj, "Ready", "False", "Waiting", "", manual_clock)
    manual_clock.advance(60)
    assert conditions.set(obj, "Ready", "False", "StillWaiting", "for a node", manual_clock)
    assert conditions.get(obj, "Ready") == {
        "type": "Ready",
        "status": "False",
        "reason": "StillWaiting",
        "message": "for a node",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    conditions.set(obj, "Ready", "True", "Done", "", manual_clock)
    assert conditions.get(obj, "Ready")["lastTransitionTime"] == "2026-01-01T00:01:00Z"
    assert conditions.is_true(obj, "Ready")


def test_setting_an_equal_condition_changes_nothing(manual_clock: ManualClock) -> None:
    obj: dict = {}
    conditions.set(obj, "Ready", True, "Done", "", manual_clock, observed_generation=1)
    before = [dict(one) for one in obj["status"]["conditions"]]
    manual_clock.advance(5)
    assert not conditions.set(obj, "Ready", True, "Done", "", manual_clock, observed_generation=1)
    assert not conditions.set(obj, "Ready", True, "Done", "", manual_clock)
    assert obj["status"]["conditions"] == before


def test_conditions_of_other_types_are_unchanged(manual_clock: ManualClock) -> None:
    obj: dict = {"status": {"conditions": [{"type": "Other", "status": "True"}]}}
    conditions.set(obj, "Ready", None, "NotKnown", "", manual_clock)
    assert [one["type"] for one in obj["status"]["conditions"]] == ["Other", "Ready"]
    assert conditions.get(obj, "Ready")["status"] == "Unknown"
    assert conditions.get(obj, "Missing") is None
    assert not conditions.is_true({}, "Ready")


def test_conditions_that_the_server_would_refuse_are_refused(manual_clock: ManualClock) -> None:
    with pytest.raises(ValueError, match="True, False or Unknown"):
        conditions.set({}, "Ready", "yes", "Reason", "", manual_clock)
    with pytest.raises(ValueError, match="needs a type and a reason"):
        conditions.set({}, "Ready", True, "", "", manual_clock)
    with pytest.raises(TypeError, match="to_dict"):
        conditions.set((), "Ready", True, "Reason", "", manual_clock)  # type: ignore[arg-type]
