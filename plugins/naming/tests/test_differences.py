"""Findings: which ones are reported, and when."""

from __future__ import annotations

from typing import Any

import pytest
from ctrlhost_naming.crd import Crd
from ctrlhost_naming.decision import Mode, decide
from ctrlhost_naming.differences import Finding, Ledger, classify, strongly_connected
from hypothesis import given
from hypothesis import strategies as st

from plugins.naming.tests.settled import settled

behaviour = pytest.mark.behaviour


class Observer:
    """A ledger over a fake cluster whose status the plugin does not write."""

    def __init__(self, fake: Any, grace: float = 0.0) -> None:
        self.fake = fake
        self.ledger = Ledger(fake.index, grace)

    def look(self, now: float = 0.0) -> list[float]:
        waits = []
        for obj in self.fake.objects.values():
            crd = Crd.of(obj)
            self.fake.index.observe(crd)
            decision = decide(crd, self.fake.index.used(crd), Mode.OBSERVE)
            kind = classify(crd, decision, self.fake.index.is_contested(crd))
            refusals = decision.calculation.refusals if decision.calculation else ()
            waits.append(self.ledger.record(crd, kind, refusals, now))
        return waits

    def found(self, now: float = 0.0) -> dict[str, str]:
        self.look(now)
        return {one.crd.partition(".")[0]: one.kind.value for one in self.ledger.report(now)}


def test_crds_with_all_requested_names_have_no_finding(fake: Any) -> None:
    settled(fake, "as/a/A/AList[x]", "bs/b")
    assert Observer(fake).found() == {}


def test_a_crd_without_a_judged_status_is_pending(fake: Any) -> None:
    fake.create("as/a")
    assert Observer(fake).found() == {"as": "pending"}


def test_a_conflict_names_the_owner_of_each_blocked_name(fake: Any) -> None:
    settled(fake, "as/a/A/AList[x]", "cs/c/C/CList[y]", "bs/a/B/BList[x, y, z]")
    observer = Observer(fake)
    assert observer.found() == {"bs": "conflict"}
    (difference,) = observer.ledger.report(0.0)
    assert [str(one) for one in difference.blocked] == [
        'singular "a" held by as.g.io',
        'shortName "x" held by as.g.io',
        'shortName "y" held by cs.g.io',
    ]


def test_a_crd_that_blocks_itself_is_a_self_conflict(fake: Any) -> None:
    settled(fake, "bs/b")
    fake.edit("bs", shortNames=["b"])
    fake.settle()
    assert Observer(fake).found() == {"bs": "self_conflict"}


def test_crds_that_wait_for_each_other_are_a_cycle_and_one_that_waits_for_them_is_not(fake: Any) -> None:
    settled(fake, "as/n1", "bs/n2", "cs/n3", "ds/n4")
    for plural, wanted in (("as", "n2"), ("bs", "n3"), ("cs", "n1"), ("ds", "n1")):
        fake.edit(plural, singular=wanted)
    fake.settle()
    observer = Observer(fake)
    assert observer.found() == {"as": "cycle", "bs": "cycle", "cs": "cycle", "ds": "conflict"}
    assert observer.ledger.report(0.0)[0].cycle == ("as.g.io", "bs.g.io", "cs.g.io")


def test_an_outdated_condition_differs_from_a_drifted_status(fake: Any) -> None:
    settled(fake, "as/a/A/AList[x]", "bs/b/B/BList[x]", "cs/c")
    fake.edit("bs", shortNames=[])
    names = {"plural": "cs", "singular": "other", "kind": "C", "listKind": "CList"}
    fake.edit_status("cs", acceptedNames=names)
    assert Observer(fake).found() == {"bs": "stale_condition", "cs": "drift"}


def test_a_name_accepted_twice_is_reported_until_one_releases_it(fake: Any) -> None:
    settled(fake, "as/a/A/AList[x]", "bs/b")
    observer = Observer(fake)
    fake.edit("bs", shortNames=["x"])
    both = {"plural": "bs", "singular": "b", "kind": "B", "listKind": "BList", "shortNames": ["x"]}
    fake.edit_status("bs", acceptedNames=both)
    assert observer.found()["bs"] == "double_owner"
    fake.delete("as")
    assert [one for one in observer.ledger.report(0.0) if one.crd == "bs.g.io"] == []


def test_a_difference_is_reported_once_it_has_lasted(fake: Any) -> None:
    fake.create("as/a")
    observer = Observer(fake, grace=30.0)
    assert observer.look(100.0) == [30.0]
    assert observer.found(120.0) == {}
    assert observer.look(120.0) == [10.0]
    assert observer.found(130.0) == {"as": "pending"}
    fake.settle()
    assert observer.found(131.0) == {}


def test_a_difference_that_becomes_another_starts_a_new_grace(fake: Any) -> None:
    fake.create("as/a")
    observer = Observer(fake, grace=30.0)
    observer.look(100.0)
    fake.settle()
    fake.edit_status("as", acceptedNames={"plural": "as", "singular": "z", "kind": "A", "listKind": "AList"})
    assert observer.found(131.0) == {}
    assert observer.found(161.0) == {"as": "drift"}


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
