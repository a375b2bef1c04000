"""What a member counts of the moves of ranges, with the real classes; Leases in memory, a manual clock."""

from __future__ import annotations

import pytest

from ctrlhost.coordination.handovers import BUCKETS, Times
from ctrlhost.coordination.shards import SPREAD
from tests.coordination.fleet_world import CONFIG, NAMES, Node
from tests.coordination.test_shards import move, settled


def moves(node: Node) -> dict[str, int]:
    return {reason: count for reason, count in node.shards.handovers.moves.items() if count}


def times(node: Node) -> dict[str, tuple[float, float]]:
    """Return for each phase how many times there were, and their sum in seconds."""
    return {phase: (taken.cumulative()[-1][1], taken.seconds) for phase, taken in node.shards.handovers.times.items()}


def test_a_replica_that_joins_counts_what_it_takes_and_the_owner_what_it_drains():
    world = settled("a")
    [a] = world.nodes
    assert moves(a) == {}, "nobody owned the ranges of the first map"
    b = world.add("b")
    b.caches.slow = True
    world.play(4)
    assert times(b)["warm"] == (0, 0.0), "nothing is listed"
    world.play(6)
    b.caches.list()
    world.play(4)
    taken = len(b.open)
    assert taken > 1
    assert moves(b) == {"join": taken}
    assert moves(a) == {}
    count, seconds = times(b)["warm"]
    assert count == taken
    assert 7 * taken <= seconds <= 9 * taken, "each waited for the list, two seconds after the join"
    assert times(b)["open"] == (taken, 0.0), "it was listed before it was claimed"
    count, seconds = times(a)["drain"]
    assert count == taken
    assert seconds < 1


def test_a_run_that_lasts_is_in_the_time_of_its_drain():
    world = settled("a", "x")
    a, x = world.nodes
    name = min(a.names)
    before = times(a)["drain"]
    run = a.begin(name)
    move(world, x, name)
    world.play(7)
    assert times(a)["drain"] == before, "it has not been given"
    a.ownership.end(run)
    world.play(1)
    assert name in x.names
    count, seconds = times(a)["drain"]
    assert count == before[0] + 1
    assert 7 <= seconds - before[1] <= 9
    assert times(x)["warm"][0] == x.shards.handovers.moves["join"], "a claim that the balance did not want"


@pytest.mark.parametrize("reason", ["leave", "death"])
def test_what_a_replica_leaves_is_counted_with_the_reason(reason):
    world = settled("a", "x")
    a, x = world.nodes
    before, had, drained = moves(a), len(x.open), times(x)["drain"][0]
    a.caches.spreads.clear()
    if reason == "leave":
        x.member.leave()
        world.play(10)
        assert not x.open
        had = int(times(x)["drain"][0] - drained)
    else:
        a.caches.slow = True
        world.play(CONFIG.lease_duration + 3, a)
        assert moves(a) == {**before, "death": had}
        assert a.names != set(NAMES), "it owns them, and has not listed them"
        opened = times(a)["open"]
        world.play(4, a)
        a.caches.list()
        world.play(1, a)
        count, seconds = times(a)["open"]
        assert count == opened[0] + had
        assert 4 * had <= seconds - opened[1] <= 9 * had
    assert a.names == set(NAMES)
    assert moves(a) == {**before, reason: had}
    # Besides it cuts and joins what it has.
    assert [spread for spread in a.caches.spreads if spread] == ([SPREAD] if reason == "death" else [])


def test_what_moves_for_the_balance_alone_is_counted_so():
    world = settled("a", "x")
    a, x = world.nodes
    before = moves(a)
    plain = x.caches.contents
    x.caches.contents = lambda span: [(place, 9) for place, _ in plain(span)]
    world.play(180, tick=2)
    assert moves(a).get("balance", 0) > 0
    assert {**moves(a), "balance": 0} == {**before, "balance": 0}
    assert "balance" not in moves(x)


def test_a_range_whose_claim_came_to_nothing_has_not_moved():
    world = settled("a", "x", "y")
    a, x, _ = world.nodes
    before = moves(a), times(a)["drain"]
    name = min(a.names)
    run = a.begin(name)
    move(world, x, name)
    assert name not in a.names
    # The claimant dies.
    world.play(CONFIG.lease_duration + 5, a, world.nodes[2])
    assert name in a.names
    a.ownership.end(run)
    assert times(a)["drain"] == before[1]
    assert moves(a) == {**before[0], "death": moves(a).get("death", 0)}


def test_times_are_counted_in_the_bucket_of_their_bound():
    taken = Times()
    for seconds in (0.0, BUCKETS[0], 0.011, 1e9):
        taken.add(seconds)
    assert taken.seconds == pytest.approx(1e9)
    assert taken.cumulative()[:2] == [(str(BUCKETS[0]), 2.0), (str(BUCKETS[1]), 3.0)]
    assert taken.cumulative()[-2:] == [(str(BUCKETS[-1]), 3.0), ("+Inf", 4.0)]
