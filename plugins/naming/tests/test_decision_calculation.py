"""The calculation, with the API server's cases."""

from __future__ import annotations

from typing import Any

import pytest
from ctrlhost_naming.crd import (
    ESTABLISHED,
    INITIAL_NAMES_ACCEPTED,
    INSTALLING,
    INVALID_CA_BUNDLE,
    NAMES_ACCEPTED,
    NO_CONFLICTS,
    NOT_ACCEPTED,
    Condition,
    Crd,
    Names,
    Space,
    Spec,
    Status,
)
from ctrlhost_naming.decision import Mode, Owners, calculate, decide, next_established

from ctrlhost import Object, ObjectMeta


def n(*parts: Any) -> Names:
    plural, singular, kind, list_kind, *short = parts
    return Names(plural, singular, kind, list_kind, tuple(short))


SHORT = ("golf-shortname-1", "hotel-shortname-2")
FULL = n("alfa", "delta-singular", "echo-kind", "foxtrot-listkind", *SHORT)
OLD = n("zulu", "yankee-singular", "xray-kind", "whiskey-listkind", "victor-shortname-1", "uniform-shortname-2")
PLURAL = n("alfa", "", "", "")
NONE = Names()
OLD_FALSE = Condition(NAMES_ACCEPTED, "False", "NotAccepted", "not all names are accepted")


def crd_with(requested: Names, accepted: Names, condition: Condition | None, name: str = "as.g.io") -> Crd:
    conditions = (condition,) if condition else ()
    return Crd(ObjectMeta(name=name), Spec(name.partition(".")[2], requested), Status(accepted, conditions))


def owners(*held: tuple[Space, str]) -> Owners:
    """Return the owners of names of which some are held by a CRD."""
    return lambda space, name: ("other",) if (space, name) in held else ()


def case(row: str, spec: Names, accepted: Names, conflict: str = "", **options: Any) -> Any:
    return pytest.param(spec, accepted, conflict, options, id=row, marks=pytest.mark.behaviour(row))


@pytest.mark.parametrize(
    ("spec", "accepted", "conflict", "options"),
    [
        case("naming/U1", PLURAL, PLURAL),
        case("naming/U2", FULL, FULL, existing={"alfa.charlie.com": FULL}),
        case(
            "naming/U3",
            FULL,
            n("", "delta-singular", "echo-kind", "foxtrot-listkind", *SHORT),
            'PluralConflict "alfa" is already in use',
            existing={"india.bravo.com": n("india", "alfa", "", "")},
        ),
        case(
            "naming/U4",
            FULL,
            n("alfa", "", "echo-kind", "foxtrot-listkind", *SHORT),
            'SingularConflict "delta-singular" is already in use',
            existing={"india.bravo.com": n("india", "indias", "", "", "delta-singular")},
        ),
        case(
            "naming/U5",
            FULL,
            n("alfa", "delta-singular", "echo-kind", "foxtrot-listkind"),
            'ShortNamesConflict "hotel-shortname-2" is already in use',
            existing={"india.bravo.com": n("india", "indias", "", "", "hotel-shortname-2")},
        ),
        case(
            "naming/U6",
            FULL,
            n("alfa", "delta-singular", "", "foxtrot-listkind", *SHORT),
            'KindConflict "echo-kind" is already in use',
            existing={"india.bravo.com": n("india", "indias", "", "echo-kind")},
        ),
        case(
            "naming/U7",
            FULL,
            n("alfa", "delta-singular", "echo-kind", "", *SHORT),
            'ListKindConflict "foxtrot-listkind" is already in use',
            existing={"india.bravo.com": n("india", "indias", "foxtrot-listkind", "")},
        ),
        case("naming/U8", FULL, FULL, existing={"india.bravo.com": n("india", "echo-kind", "", "")}),
        case(
            "naming/U9",
            FULL,
            n("alfa", "yankee-singular", "echo-kind", "whiskey-listkind", *SHORT),
            'ListKindConflict "foxtrot-listkind" is already in use',
            status=OLD,
            existing={"india.bravo.com": n("india", "indias", "foxtrot-listkind", "", "delta-singular")},
        ),
        case(
            "naming/U10",
            FULL,
            n("alfa", "yankee-singular", "echo-kind", "whiskey-listkind", *OLD.shortNames),
            'ListKindConflict "foxtrot-listkind" is already in use',
            status=OLD,
            existing={
                "india.bravo.com": n("india", "indias", "foxtrot-listkind", "", "delta-singular", "golf-shortname-1")
            },
        ),
        case("naming/U11", FULL, FULL, status=FULL, existing={"alfa.bravo.com": FULL}),
        case(
            "naming/U12",
            n("alfa", "delta-singular", "echo-kind", "foxtrot-listkind", SHORT[0]),
            n("alfa", "delta-singular", "echo-kind", "foxtrot-listkind", SHORT[0]),
            status=FULL,
            existing={"alfa.bravo.com": FULL},
        ),
        case("naming/U13", PLURAL, PLURAL, old=NO_CONFLICTS),
        case("naming/U14", PLURAL, PLURAL, old=OLD_FALSE),
        case(
            "naming/U15",
            FULL,
            n("", "delta-singular", "echo-kind", "foxtrot-listkind", *SHORT),
            'PluralConflict "alfa" is already in use',
            old=NO_CONFLICTS,
            existing={"india.bravo.com": n("india", "alfa", "", "")},
        ),
        case(
            "naming/U16",
            FULL,
            n("", "delta-singular", "echo-kind", "foxtrot-listkind", *SHORT),
            'PluralConflict "alfa" is already in use',
            old=OLD_FALSE,
            existing={"india.bravo.com": n("india", "alfa", "", "")},
        ),
    ],
)
def test_names_conflict_with_those_accepted_in_the_group(
    spec: Names, accepted: Names, conflict: str, options: dict[str, Any]
) -> None:
    held = {
        (name.partition(".")[2], space, spelling)
        for name, names in options.get("existing", {}).items()
        for space, spelling in names.held()
    }
    incoming = crd_with(spec, options.get("status", NONE), options.get("old"), "alfa.bravo.com")

    result = decide(incoming, owners(*(held[1:] for held in held if held[0] == "bravo.com")), Mode.ENFORCE).calculation

    assert result
    assert result.accepted == accepted
    assert result.established == (NOT_ACCEPTED if conflict else INSTALLING)
    if conflict:
        reason, _, message = conflict.partition(" ")
        assert result.names_accepted == Condition(NAMES_ACCEPTED, "False", reason, message)
    else:
        assert result.names_accepted == NO_CONFLICTS


@pytest.mark.parametrize(
    ("old", "if_ok", "if_conflict"),
    [
        (None, INSTALLING, NOT_ACCEPTED),
        (NOT_ACCEPTED, INSTALLING, NOT_ACCEPTED),
        (INSTALLING, INSTALLING, INSTALLING),
        (INVALID_CA_BUNDLE, INSTALLING, INVALID_CA_BUNDLE),
        (
            Condition(ESTABLISHED, "Unknown", "Because", "whatever"),
            INSTALLING,
            Condition(ESTABLISHED, "Unknown", "Because", "whatever"),
        ),
        (INITIAL_NAMES_ACCEPTED, INITIAL_NAMES_ACCEPTED, INITIAL_NAMES_ACCEPTED),
    ],
)
def test_established_follows_its_table(old: Condition | None, if_ok: Condition, if_conflict: Condition) -> None:
    assert next_established(old, names_ok=True) == if_ok
    assert next_established(old, names_ok=False) == if_conflict


def test_several_taken_short_names_are_reported_once_each_in_request_order() -> None:
    taken = owners((Space.RESOURCES, "x"), (Space.RESOURCES, "y"))
    result = calculate(n("as", "a", "A", "AList", "y", "z", "x", "y"), NONE, None, taken)
    assert result.names_accepted.message == '["y" is already in use, "x" is already in use]'
    assert result.accepted.shortNames == ()


def test_names_are_case_sensitive() -> None:
    result = calculate(n("as", "a", "Foo", "FooList"), NONE, None, owners((Space.KINDS, "foo")))
    assert result.names_accepted == NO_CONFLICTS


@pytest.mark.behaviour("naming/Y2")
def test_a_crd_whose_names_and_condition_are_right_is_not_calculated() -> None:
    def never(*_: object) -> tuple[str, ...]:
        pytest.fail("the owner of a name was read")

    for mode in Mode:
        decision = decide(crd_with(FULL, FULL, NO_CONFLICTS), never, mode)
        assert decision.calculation is None
        assert not decision.write


@pytest.mark.behaviour("naming/Y3")
def test_a_missing_list_equals_an_empty_one() -> None:
    sparse = {"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"}
    crd = {
        "metadata": {"name": "as.g.io"},
        "spec": {"group": "g.io", "names": sparse},
        "status": {"acceptedNames": {**sparse, "shortNames": [], "categories": []}, "conditions": None},
    }
    assert Object(crd).decode(Crd).satisfied


@pytest.mark.behaviour("naming/Y4")
def test_a_correct_status_is_not_written() -> None:
    blocked = Condition(NAMES_ACCEPTED, "False", "SingularConflict", '"b" is already in use')
    known = crd_with(n("as", "b", "A", "AList"), n("as", "a", "A", "AList"), blocked)
    decision = decide(known, owners((Space.RESOURCES, "b")), Mode.ENFORCE)
    assert decision.calculation
    assert not decision.differs
    assert not decision.write


@pytest.mark.behaviour("naming/H13")
@pytest.mark.behaviour("naming/Y5")
def test_the_time_of_a_condition_is_ignored() -> None:
    def crd_at(time: str | None) -> Crd:
        said = {"status": "False", "reason": "SingularConflict", "message": '"b" is already in use'}
        raw = {
            "metadata": {"name": "as.g.io"},
            "spec": {"group": "g.io", "names": {"plural": "as", "singular": "b", "kind": "A", "listKind": "AList"}},
            "status": {
                "acceptedNames": {"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"},
                "conditions": [{"type": "NamesAccepted", **said, "lastTransitionTime": time}],
            },
        }
        return Object(raw).decode(Crd)

    for time in ("2020-01-01T00:00:00Z", None, "2026-01-01T00:00:00Z"):
        assert not decide(crd_at(time), owners((Space.RESOURCES, "b")), Mode.ENFORCE).write


def test_only_enforce_writes_a_conflict_and_only_repair_and_enforce_a_stale_condition() -> None:
    stale = crd_with(FULL, FULL, Condition(NAMES_ACCEPTED, "False", "ShortNamesConflict", '"x" is already in use'))
    fresh = crd_with(FULL, NONE, None)
    wiped = crd_with(FULL, FULL, None)
    writes = {mode: [decide(known, owners(), mode).write for known in (stale, fresh, wiped)] for mode in Mode}
    assert writes == {
        Mode.OBSERVE: [False, False, False],
        Mode.REPAIR: [True, False, True],
        Mode.ENFORCE: [True, True, True],
    }
