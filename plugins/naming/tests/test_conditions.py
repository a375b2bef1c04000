"""Reading and writing the two conditions."""

from __future__ import annotations

from typing import Any

import pytest
from ctrlhost_naming.conditions import (
    ESTABLISHED,
    INSTALLING,
    NAMES_ACCEPTED,
    NO_CONFLICTS,
    NOT_ACCEPTED,
    Condition,
    find,
    is_true,
)
from ctrlhost_naming.decision import Calculation, status_patch
from ctrlhost_naming.names import Names

from ctrlhost import conditions as status_conditions
from ctrlhost.testing import ManualClock

behaviour = pytest.mark.behaviour

NOW = "2026-01-01T00:00:00Z"


def entry(type_: str, status: str, reason: str = "Because", message: str = "so", **more: Any) -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": reason, "message": message, **more}


def put(conditions: list[dict[str, Any]], type_: str, status: str, reason: str, message: str) -> list[dict[str, Any]]:
    obj = {"status": {"conditions": conditions}}
    status_conditions.set(obj, type_, status, reason, message, ManualClock())
    return obj["status"]["conditions"]


@behaviour("naming/H1")
@behaviour("naming/H4")
def test_a_condition_is_replaced_in_place_and_gets_a_time() -> None:
    result = put([entry(ESTABLISHED, "True")], ESTABLISHED, "False", "NotAccepted", "Not accepted")
    assert result == [entry(ESTABLISHED, "False", "NotAccepted", "Not accepted", lastTransitionTime=NOW)]


@behaviour("naming/H2")
def test_other_conditions_keep_their_place() -> None:
    first = entry(ESTABLISHED, "True", lastTransitionTime="2020-01-01T00:00:00Z")
    result = put([first, entry(NAMES_ACCEPTED, "True")], NAMES_ACCEPTED, "False", "Conflicts", "taken")
    assert result == [first, entry(NAMES_ACCEPTED, "False", "Conflicts", "taken", lastTransitionTime=NOW)]


@behaviour("naming/H3")
@behaviour("naming/H5")
def test_a_missing_condition_is_appended() -> None:
    first = entry(ESTABLISHED, "True", lastTransitionTime="2020-01-01T00:00:00Z")
    result = put([first], "Terminating", "True", "NeverEstablished", "gone")
    assert result == [first, entry("Terminating", "True", "NeverEstablished", "gone", lastTransitionTime=NOW)]


@behaviour("naming/H8")
@behaviour("naming/H9")
@behaviour("naming/H10")
def test_a_condition_is_true_only_if_it_exists_and_is_true() -> None:
    conditions = [entry(ESTABLISHED, "True"), entry(NAMES_ACCEPTED, "True"), entry(NAMES_ACCEPTED, "False")]
    assert not is_true(find(conditions, "Terminating"))
    assert is_true(find(conditions, ESTABLISHED))
    assert is_true(find(conditions, NAMES_ACCEPTED)), "the first of a type counts"
    assert not is_true(find([entry(ESTABLISHED, "False")], ESTABLISHED))


@behaviour("naming/H11")
def test_a_new_reason_alone_does_not_change_the_time() -> None:
    old = entry(NAMES_ACCEPTED, "False", "KindConflict", lastTransitionTime="2020-01-01T00:00:00Z")
    result = put([old], NAMES_ACCEPTED, "False", "SingularConflict", "other")
    assert result == [
        entry(NAMES_ACCEPTED, "False", "SingularConflict", "other", lastTransitionTime="2020-01-01T00:00:00Z")
    ]


@behaviour("naming/H12")
def test_a_missing_time_is_set_even_if_the_status_is_unchanged() -> None:
    missing: list[dict[str, Any]] = [{}, {"lastTransitionTime": None}]
    for empty in missing:
        result = put([entry(NAMES_ACCEPTED, "True", **empty)], NAMES_ACCEPTED, "True", "NoConflicts", "none")
        assert result[0]["lastTransitionTime"] == NOW


@behaviour("naming/H13")
def test_conditions_are_compared_without_their_time() -> None:
    assert find([], NAMES_ACCEPTED) is None
    assert find([], NAMES_ACCEPTED) == find([entry(ESTABLISHED, "True")], NAMES_ACCEPTED)
    one = find([entry(NAMES_ACCEPTED, "True", lastTransitionTime="2020-01-01T00:00:00Z")], NAMES_ACCEPTED)
    two = find([entry(NAMES_ACCEPTED, "True", lastTransitionTime="2021-01-01T00:00:00Z")], NAMES_ACCEPTED)
    assert one == two
    assert one is not None
    for other in (("False",), ("True", "Other"), ("True", "Because", "other")):
        assert one != find([entry(NAMES_ACCEPTED, *other)], NAMES_ACCEPTED)
    assert one != find([entry(ESTABLISHED, "True")], ESTABLISHED)


@behaviour("naming/H14")
def test_an_observed_generation_is_kept() -> None:
    old = entry(NAMES_ACCEPTED, "False", observedGeneration=7)
    assert put([old], NAMES_ACCEPTED, "True", "NoConflicts", "none")[0]["observedGeneration"] == 7


def patch_of(version: str, conditions: list[dict[str, Any]], calculation: Calculation) -> dict[str, Any]:
    raw = {"metadata": {"resourceVersion": version}, "status": {"conditions": conditions}}
    changes = (calculation.names_accepted, calculation.established)
    return status_patch(raw, changes, ManualClock(), calculation.accepted)


def test_the_patch_contains_its_version_all_six_names_and_all_conditions() -> None:
    foreign = entry("Terminating", "False", extra={"kept": [1]})
    calculation = Calculation(Names("as", "a", "A"), NO_CONFLICTS, INSTALLING, ())
    patch = patch_of("41", [foreign], calculation)
    assert patch == {
        "metadata": {"resourceVersion": "41"},
        "status": {
            "acceptedNames": {
                "plural": "as",
                "singular": "a",
                "shortNames": None,
                "kind": "A",
                "listKind": None,
                "categories": None,
            },
            "conditions": [
                foreign,
                entry(NAMES_ACCEPTED, "True", "NoConflicts", "no conflicts found", lastTransitionTime=NOW),
                entry(
                    ESTABLISHED,
                    "False",
                    "Installing",
                    "the initial names have been accepted",
                    lastTransitionTime=NOW,
                ),
            ],
        },
    }


def test_the_patch_of_a_conflict_on_a_fresh_crd_also_sets_not_accepted() -> None:
    blocked = Condition(NAMES_ACCEPTED, "False", "ShortNamesConflict", '"f" is already in use')
    calculation = Calculation(Names("bars", "bar", "Bar", "BarList"), blocked, NOT_ACCEPTED, ())
    conditions = patch_of("1", [], calculation)["status"]["conditions"]
    assert [(c["type"], c["status"], c["reason"]) for c in conditions] == [
        (NAMES_ACCEPTED, "False", "ShortNamesConflict"),
        (ESTABLISHED, "False", "NotAccepted"),
    ]
