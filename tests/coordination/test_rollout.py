"""Controllers that only some members have."""

from __future__ import annotations

import pytest

from ctrlhost.coordination.rollout import partial
from ctrlhost.coordination.shard_map import END, Incarnation, ShardMap, ShardRange

A, B, C = (Incarnation(f"fleet-member-{name}", name, 0) for name in "abc")
NAMESPACES = (ShardRange(0, A, None, 10), ShardRange(END // 3, B, None, 20), ShardRange(END // 2, C, None, 70))
SHARDS = ShardMap("id", 1, {"namespace": NAMESPACES, "uid": (ShardRange(0, B, None, 5),)})


def test_each_has_the_part_of_its_line_whose_owners_have_it():
    members = {A: ["old", "new"], B: ["old", "new", "mine"], C: ["old"]}
    shard_by = {"old": "namespace", "new": "name", "mine": "uid"}
    assert partial(SHARDS, members, shard_by) == {"new": pytest.approx(0.3), "mine": 1.0}
    # What others have does not concern this replica; nobody lacks it once all have it.
    assert partial(SHARDS, members, {"old": "namespace"}) == {}
    assert partial(SHARDS, {A: ["new"]}, {"new": "name"}) == {}


def test_ranges_of_members_that_have_nothing_on_a_line_count_as_those_of_others():
    line = (
        ShardRange(0, A, None, 4),
        ShardRange(END // 4, A, None, 2),
        ShardRange(END // 2, B),
        ShardRange(END - 9, C),
    )
    members = {A: ["new"], B: [""], C: [""]}
    assert partial(ShardMap("id", 1, {"uid": line}), members, {"new": "uid"}) == {"new": 0.5}


def test_a_line_without_weight_or_entries_has_no_part():
    empty = ShardMap("id", 1, {"uid": (ShardRange(0, A),)})
    assert partial(empty, {A: ["x", "y"], B: [""]}, {"x": "uid", "y": "namespace"}) == {"x": 0.0, "y": 0.0}
