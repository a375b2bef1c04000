"""The protocol of shards holds in the model, and each of its rules is needed.

`make soak` searches a million states in each way.
"""

from __future__ import annotations

import os

import pytest

from tests.coordination.shard_model import NOBODY, RULES, Found, Model, breadth_first, heals, long_walks

STATES = int(os.environ.get("CTRLHOST_SHARD_STATES", "20000"))
#: Of a search for a counter-example, which ends long before.
BOUND = 300_000
SEARCHES = {"breadth first": (breadth_first, 0.002), "long walks": (long_walks, 0.02)}
LOSSES = {
    "the map stays": {},
    "the map is lost at any moment": {"losses": 1},
    "a Lease is deleted": {"deletions": 1},
    "the map and a Lease": {"losses": 1, "deletions": 1},
}


#: The rules for a new map.
LOST = {"ids", "ids of deleted", "id early"}


def search(name: str, model: Model) -> Found:
    """Search the states of the model; the sample stays as large, however many they are."""
    method, share = SEARCHES[name]
    return method(model, STATES, sample=share * min(1.0, 20_000 / STATES))


@pytest.mark.behaviour("shards/SH23")
@pytest.mark.behaviour("shards/SH25")
@pytest.mark.behaviour("shards/SH26")
@pytest.mark.parametrize("losses", LOSSES)
@pytest.mark.parametrize("name", SEARCHES)
def test_two_replicas_never_act_on_one_range_and_each_range_is_open_in_the_end(name, losses):
    model = Model(replicas=3, ranges=2, **LOSSES[losses])
    found = search(name, model)
    assert found.steps == []
    assert found.states >= STATES
    assert len(found.sample) > 10
    stuck = [
        (state, dead) for state in found.sample for dead in (NOBODY, *model.replicas) if not heals(model, state, dead)
    ]
    assert stuck == []


def broken(rule: str) -> Found:
    """Search with two replicas and one range, the smallest case in which a rule matters."""
    if rule in LOST:
        deletions = int(rule == "ids of deleted")
        return breadth_first(Model(rule, replicas=2, ranges=1, fences=0, late=0, losses=1, deletions=deletions), BOUND)
    if rule == "deletion":
        return breadth_first(Model(rule, replicas=2, ranges=1, fences=0, late=0, deletions=1), BOUND)
    return long_walks(Model(rule, replicas=2, ranges=1), BOUND, length=100)


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(rule, marks=pytest.mark.behaviour("shards/SH26" if rule in LOST else "shards/SH24"))
        for rule in RULES
    ],
)
def test_without_a_rule_two_replicas_act_on_one_range(rule):
    found = broken(rule)
    assert found.steps, f"no counter-example in {found.states} states: {RULES[rule]}"


@pytest.mark.behaviour("shards/SH25")
def test_the_ranges_of_a_dead_replica_rest_until_it_is_fenced():
    model = Model()
    assert heals(model, model.start())
    assert not heals(model, model.start(), dead=0, ticks=2)
    assert heals(model, model.start(), dead=0)
