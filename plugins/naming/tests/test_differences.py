"""What is reported, as what, and from when on."""

from __future__ import annotations

from typing import Any

import pytest
from ctrlhost_naming.crd import Crd
from ctrlhost_naming.decision import Mode, decide
from ctrlhost_naming.differences import Finding, Ledger, classify, strongly_connected
from hypothesis import given
from hypothesis import strategies as st

behaviour = pytest.mark.behaviour


class Observer:
    """A ledger that looks at a world whose status somebody else writes."""

    def __init__(self, world: Any, grace: float = 0.0) -> None:
        self.world = world
        self.ledger = Ledger(world.index, grace)

    def look(self, now: float = 0.0) -> list[float]:
        waits = []
        for obj in self.world.objects.values():
            crd = Crd.of(obj)
            self.world.index.observe(crd)
            decision = decide(crd, self.world.index.used(crd), Mode.OBSERVE)
            kind = classify(crd, decision, self.world.index.is_contested(crd))
            refusals = decision.calculation.refusals if decision.calculation else ()
            waits.append(self.ledger.record(crd, kind, refusals, now))
        return waits

    def found(self, now: float = 0.0) -> dict[str, str]:
        self.look(now)
        return {one.crd.partition(".")[0]: one.kind.value for one in self.ledger.report(now)}


def settled(world: Any, *spelled: str) -> None:
    for one in spelled:
        world.create(one)
        world.settle()


def test_nothing_is_said_of_crds_that_have_what_they_ask_for(world: Any) -> None:
    settled(world, "as/a/A/AList[x]", "bs/b")
    assert Observer(world).found() == {}


def test_a_crd_that_nobody_looked_at_is_pending(world: Any) -> None:
    world.create("as/a")
    assert Observer(world).found() == {"as": "pending"}


def test_a_conflict_names_the_owner_of_each_blocked_name(world: Any) -> None:
    settled(world, "as/a/A/AList[x]", "cs/c/C/CList[y]", "bs/a/B/BList[x, y, z]")
    observer = Observer(world)
    assert observer.found() == {"bs": "conflict"}
    (difference,) = observer.ledger.report(0.0)
    assert [str(one) for one in difference.blocked] == [
        'singular "a" held by as.g.io',
        'shortName "x" held by as.g.io',
        'shortName "y" held by cs.g.io',
    ]


def test_a_crd_in_its_own_way_is_told_from_one_in_another_s(world: Any) -> None:
    settled(world, "bs/b")
    world.edit("bs", shortNames=["b"])
    world.settle()
    assert Observer(world).found() == {"bs": "self_conflict"}


def test_crds_that_wait_for_each_other_are_a_cycle_and_one_that_waits_for_them_is_not(world: Any) -> None:
    settled(world, "as/n1", "bs/n2", "cs/n3", "ds/n4")
    for plural, wanted in (("as", "n2"), ("bs", "n3"), ("cs", "n1"), ("ds", "n1")):
        world.edit(plural, singular=wanted)
    world.settle()
    observer = Observer(world)
    assert observer.found() == {"as": "cycle", "bs": "cycle", "cs": "cycle", "ds": "conflict"}
    assert observer.ledger.report(0.0)[0].cycle == ("as.g.io", "bs.g.io", "cs.g.io")


def test_a_condition_that_is_out_of_date_is_told_from_a_status_that_is_wrong(world: Any) -> None:
    settled(world, "as/a/A/AList[x]", "bs/b/B/BList[x]", "cs/c")
    world.edit("bs", shortNames=[])
    names = {"plural": "cs", "singular": "other", "kind": "C", "listKind": "CList"}
    world.edit_status("cs", acceptedNames=names)
    assert Observer(world).found() == {"bs": "stale_condition", "cs": "drift"}


def test_a_name_accepted_twice_is_reported_until_one_lets_go(world: Any) -> None:
    settled(world, "as/a/A/AList[x]", "bs/b")
    observer = Observer(world)
    world.edit("bs", shortNames=["x"])
    both = {"plural": "bs", "singular": "b", "kind": "B", "listKind": "BList", "shortNames": ["x"]}
    world.edit_status("bs", acceptedNames=both)
    assert observer.found()["bs"] == "double_owner"
    world.delete("as")
    assert [one for one in observer.ledger.report(0.0) if one.crd == "bs.g.io"] == []


def test_a_difference_is_reported_once_it_has_lasted(world: Any) -> None:
    world.create("as/a")
    observer = Observer(world, grace=30.0)
    assert observer.look(100.0) == [30.0]
    assert observer.found(120.0) == {}
    assert observer.look(120.0) == [10.0]
    assert observer.found(130.0) == {"as": "pending"}
    world.settle()
    assert observer.found(131.0) == {}


def test_a_difference_that_becomes_another_begins_anew(world: Any) -> None:
    world.create("as/a")
    observer = Observer(world, grace=30.0)
    observer.look(100.0)
    world.settle()
    world.edit_status("as", acceptedNames={"plural": "as", "singular": "z", "kind": "A", "listKind": "AList"})
    assert observer.found(131.0) == {}
    assert observer.found(161.0) == {"as": "drift"}


edges = st.dictionaries(st.sampled_from("abcdefgh"), st.sets(st.sampled_from("abcdefgh"), max_size=4))


@given(waits=edges)
def test_strongly_connected_finds_those_that_reach_each_other(waits: dict[str, set[str]]) -> None:
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


def test_every_kind_has_a_word_that_metrics_can_use() -> None:
    assert {kind.value for kind in Finding} == {
        "pending",
        "conflict",
        "self_conflict",
        "cycle",
        "stale_condition",
        "drift",
        "double_owner",
    }
