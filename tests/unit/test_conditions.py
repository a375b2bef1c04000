"""Status conditions."""

from __future__ import annotations

from typing import Any

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
    before = [dict(condition) for condition in obj["status"]["conditions"]]
    manual_clock.advance(5)
    assert not conditions.set(obj, "Ready", True, "Done", "", manual_clock, observed_generation=1)
    assert not conditions.set(obj, "Ready", True, "Done", "", manual_clock)
    assert obj["status"]["conditions"] == before


def test_conditions_of_other_types_are_unchanged(manual_clock: ManualClock) -> None:
    obj: dict = {"status": {"conditions": [{"type": "Other", "status": "True"}]}}
    conditions.set(obj, "Ready", None, "NotKnown", "", manual_clock)
    assert [condition["type"] for condition in obj["status"]["conditions"]] == ["Other", "Ready"]
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


THEN, NOW = "2020-01-01T00:00:00Z", "2026-01-01T00:00:00Z"


SEEN = {"observedGeneration": 7}
OTHER = {"type": "Other", "status": "True"}


def entry(type_: str, status: str, time: str | None = THEN, **more: Any) -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": "Because", "message": "so", "lastTransitionTime": time, **more}


def row(name: str, before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Any:
    return pytest.param(before, after, id=name, marks=pytest.mark.behaviour(name))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        row("naming/H1", [entry("Ready", "False")], [entry("Ready", "True", NOW)]),
        row(
            "naming/H2",
            [entry("Ready", "False"), entry("Other", "True")],
            [entry("Ready", "True", NOW), entry("Other", "True")],
        ),
        row("naming/H3", [OTHER], [OTHER, entry("Ready", "True", NOW)]),
        row("naming/H4", [entry("Ready", "False", None)], [entry("Ready", "True", NOW)]),
        row("naming/H5", [], [entry("Ready", "True", NOW)]),
        row("naming/H11", [entry("Ready", "True", reason="Old")], [entry("Ready", "True")]),
        row("naming/H12", [entry("Ready", "True", None)], [entry("Ready", "True", NOW)]),
        row(
            "naming/H14",
            [entry("Ready", "False", observedGeneration=7)],
            [entry("Ready", "True", NOW, observedGeneration=7)],
        ),
    ],
)
def test_a_condition_is_set_in_its_place(
    manual_clock: ManualClock, before: list[dict[str, Any]], after: list[dict[str, Any]]
) -> None:
    obj: dict[str, Any] = {"status": {"conditions": before}}
    conditions.set(obj, "Ready", True, "Because", "so", manual_clock)
    assert obj["status"]["conditions"] == after


@pytest.mark.behaviour("naming/H8")
@pytest.mark.behaviour("naming/H9")
@pytest.mark.behaviour("naming/H10")
def test_a_condition_is_true_only_if_the_first_of_its_type_is() -> None:
    obj = {"status": {"conditions": [entry("Ready", "True"), entry("Ready", "False"), entry("Other", "False")]}}
    assert [conditions.is_true(obj, name) for name in ("Ready", "Other", "Missing")] == [True, False, False]
