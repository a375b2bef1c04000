"""Findings: which ones are reported, and when."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from ctrlhost_naming.crd import Crd, Field, Names, Spec
from ctrlhost_naming.decision import Mode, Refusal
from ctrlhost_naming.findings import Finding, Ledger, strongly_connected
from hypothesis import given
from hypothesis import strategies as st

from ctrlhost import ObjectMeta
from plugins.naming.tests.settled import settled

behaviour = pytest.mark.behaviour


def findings(fake: Any, now: float = 0.0) -> dict[str, str]:
    """Return the findings of an observer, whose ledger reports all of them at once, by plural."""
    return {finding.crd.partition(".")[0]: finding.kind.value for finding in observed(fake).report(now)}


def observed(fake: Any) -> Ledger:
    observer = type(fake)(Mode.OBSERVE).showing(fake)
    observer.state.ledger = Ledger(0.0)
    observer.settle()
    assert observer.writes == 0
    ledger: Ledger = observer.state.ledger
    return ledger


def test_crds_with_all_requested_names_have_no_finding(fake: Any) -> None:
    settled(fake, "as/a/A/AList[x]", "bs/b")
    assert findings(fake) == {}


def test_a_crd_without_a_judged_status_is_pending(fake: Any) -> None:
    fake.create("as/a")
    assert findings(fake) == {"as": "pending"}


def test_a_conflict_names_the_owner_of_each_blocked_name(fake: Any) -> None:
    settled(fake, "as/a/A/AList[x]", "cs/c/C/CList[y]", "bs/a/B/BList[x, y, z]")
    (difference,) = observed(fake).report(0.0)
    assert (difference.crd, difference.kind) == ("bs.g.io", Finding.CONFLICT)
    assert [str(change) for change in difference.blocked] == [
        'singular "a" held by as.g.io',
        'shortName "x" held by as.g.io',
        'shortName "y" held by cs.g.io',
    ]


def test_a_crd_that_blocks_itself_is_a_self_conflict(fake: Any) -> None:
    settled(fake, "bs/b")
    fake.edit("bs", shortNames=["b"])
    fake.settle()
    assert findings(fake) == {"bs": "self_conflict"}


def test_crds_that_wait_for_each_other_are_a_cycle_and_one_that_waits_for_them_is_not(fake: Any) -> None:
    settled(fake, "as/n1", "bs/n2", "cs/n3", "ds/n4")
    for plural, wanted in (("as", "n2"), ("bs", "n3"), ("cs", "n1"), ("ds", "n1")):
        fake.edit(plural, singular=wanted)
    fake.settle()
    assert findings(fake) == {"as": "cycle", "bs": "cycle", "cs": "cycle", "ds": "conflict"}
    assert observed(fake).report(0.0)[0].cycle == ("as.g.io", "bs.g.io", "cs.g.io")


def test_an_outdated_condition_differs_from_a_drifted_status(fake: Any) -> None:
    settled(fake, "as/a/A/AList[x]", "bs/b/B/BList[x]", "cs/c")
    fake.edit("bs", shortNames=[])
    names = {"plural": "cs", "singular": "other", "kind": "C", "listKind": "CList"}
    fake.edit_status("cs", acceptedNames=names)
    assert findings(fake) == {"bs": "stale_condition", "cs": "drift"}


def test_a_name_accepted_twice_is_reported_until_one_releases_it(fake: Any) -> None:
    settled(fake, "as/a/A/AList[x]", "bs/b")
    fake.edit("bs", shortNames=["x"])
    both = {"plural": "bs", "singular": "b", "kind": "B", "listKind": "BList", "shortNames": ["x"]}
    fake.edit_status("bs", acceptedNames=both)
    assert findings(fake)["bs"] == "double_owner"
    assert findings(fake)["as"] == "double_owner"
    fake.delete("as")
    assert "bs.g.io" in fake.requeued, "the other one is reconciled, too"
    assert "bs" not in findings(fake)


CRD = Crd(ObjectMeta(name="as.g.io"), Spec("g.io", Names("as")))


def test_a_finding_is_reported_once_it_has_lasted() -> None:
    ledger = Ledger(30.0)
    assert ledger.record(CRD, Finding.PENDING, (), 100.0) == 30.0
    assert ledger.record(CRD, Finding.PENDING, (), 120.0) == 10.0
    assert ledger.report(120.0) == []
    assert [finding.kind for finding in ledger.report(130.0)] == [Finding.PENDING]
    assert ledger.record(CRD, Finding.DRIFT, (), 131.0) == 30.0, "another finding starts a new grace"
    assert ledger.report(160.0) == []
    assert [finding.kind for finding in ledger.report(161.0)] == [Finding.DRIFT]
    assert ledger.record(CRD, None, (), 162.0) == 0.0
    assert ledger.report(200.0) == []


@behaviour("naming/Z1")
def test_what_is_kept_of_five_thousand_crds_is_less_than_two_kilobytes_each() -> None:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        ledger = Ledger(30.0)
        for number in range(5_000):
            crd = Crd(ObjectMeta(name=f"p{number}s.g.io"), Spec("g.io", Names(f"p{number}s")))
            ledger.record(crd, Finding.CONFLICT, (Refusal(Field.SINGULAR, "x", ("as.g.io",)),), 0.0)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / 5_000 < 2_048


edges = st.dictionaries(st.sampled_from("abcdefgh"), st.sets(st.sampled_from("abcdefgh"), max_size=4))


@given(waits=edges)
def test_strongly_connected_finds_nodes_that_reach_each_other(waits: dict[str, set[str]]) -> None:
    nodes = set(waits) | {other for others in waits.values() for other in others}
    reach = {node: {node} for node in nodes}
    for _ in nodes:
        for node in nodes:
            for other in list(reach[node]):
                reach[node] |= waits.get(other, set())
    expected = {frozenset(b for b in nodes if b in reach[a] and a in reach[b]) for a in nodes}
    assert {frozenset(part) for part in strongly_connected(waits)} == expected


def test_a_chain_of_thousands_does_not_exhaust_the_stack() -> None:
    waits = {str(i): {str(i + 1)} for i in range(20_000)}
    assert all(len(part) == 1 for part in strongly_connected(waits))


def test_every_finding_has_a_metric_label() -> None:
    assert {kind.value for kind in Finding} == {
        "pending",
        "conflict",
        "self_conflict",
        "cycle",
        "stale_condition",
        "drift",
        "double_owner",
    }
