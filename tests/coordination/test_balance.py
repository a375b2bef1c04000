"""Who should own which range: on lines with names that people use, and for any map."""

from __future__ import annotations

import random
import statistics
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlhost.coordination.balance import GATHERING, PATIENCE, Member, Pace, Spread, balance
from ctrlhost.coordination.shard_map import END, Incarnation, Line, ShardMap, ShardRange, new_map
from ctrlhost.testing import ManualClock
from tests.coordination.shard_simulator import KINDS, Fleet, fnv1a, member, names


def covers(line: Line) -> bool:
    """Return whether the ranges begin at 0 and follow one another."""
    return line[0].start == 0 and all(before.start < after.start < END for before, after in pairwise(line))


def equal_ranges(*owned: tuple[Incarnation | None, int]) -> ShardMap:
    """Return a map with a range for each owner and weight."""
    line = tuple(
        ShardRange(END * place // len(owned), owner, None, weight) for place, (owner, weight) in enumerate(owned)
    )
    return ShardMap("id", 1, {"uid": line}, {"plugin/controller": "uid"})


def owners(shards: ShardMap, *members: Member, **options: object) -> list[Incarnation | None]:
    return list(balance(shards, members, **options).owners["uid"])


A, B, C = (member(number) for number in range(3))


@pytest.mark.behaviour("shards/SH13")
def test_the_first_map_of_one_member():
    shards = new_map("id", {"plugin/controller": "namespace"}, 1, [fnv1a(f"team-{number}") for number in range(100)])
    line = shards.lines["namespace"]
    assert len(line) >= 8
    assert covers(line)
    assert sorted(entry.weight for entry in line) == [12] * 4 + [13] * 4
    assert balance(shards, [Member(A)]).owners == {"namespace": (A,) * len(line)}


@pytest.mark.behaviour("shards/SH13")
def test_the_first_map_by_uid_or_without_namespaces():
    by_uid = new_map("id", {"plugin/a": "uid"}, 3, [])
    assert list(by_uid.lines) == ["uid"]
    assert len(by_uid.lines["uid"]) == 24
    assert covers(by_uid.lines["uid"])
    shares = balance(by_uid, [Member(A), Member(B), Member(C)]).owners["uid"]
    assert [shares.count(owner) for owner in (A, B, C)] == [8, 8, 8]
    both = new_map("id", {"plugin/a": "uid", "plugin/b": "name"}, 1, [])
    assert {name: len(line) for name, line in both.lines.items()} == {"namespace": 1, "uid": 8}


MEMBERS = st.lists(st.builds(Member, st.builds(member, st.integers(0, 9)), st.booleans()), unique_by=lambda m: m[0])


@st.composite
def maps(draw: st.DrawFn) -> ShardMap:
    somebody = st.none() | st.builds(member, st.integers(0, 12))
    weight = st.integers(0, 5) | st.integers(0, 100_000)
    lines = {}
    for name in ("namespace", "uid"):
        starts = draw(st.lists(st.integers(1, END - 1), unique=True, max_size=30))
        lines[name] = tuple(
            ShardRange(start, draw(somebody), draw(somebody), draw(weight)) for start in sorted([0, *starts])
        )
    return ShardMap("id", 1, lines)


@pytest.mark.behaviour("shards/SH14")
@given(maps(), MEMBERS, st.integers(1, 5), st.randoms(use_true_random=False))
def test_any_map_comes_to_rest_with_owners_that_live(shards, members, min_members, choose):
    live = {member.incarnation for member in members}
    before = shards
    for _ in range(10):
        result = balance(before, members, min_members=min_members)
        shuffled = choose.sample(members, len(members))
        assert balance(before, shuffled, min_members=min_members) == result
        after = before.next(
            {
                name: tuple(
                    entry._replace(owner=owner, claimant=None)
                    for entry, owner in zip(line, result.owners[name], strict=True)
                )
                for name, line in before.lines.items()
            }
        )
        if after.lines == before.lines:
            break
        before = after
    else:
        pytest.fail("does not come to rest")
    for name, line in after.lines.items():
        assert [entry.start for entry in line] == [entry.start for entry in shards.lines[name]]
        assert {entry.owner for entry in line} <= live | {None}
        staying = {member.incarnation for member in members if not member.leaving}
        if staying and len(staying) >= min_members:
            assert {entry.owner for entry in line} <= staying
        unowned = sum(entry.weight for line in after.lines.values() for entry in line if entry.owner is None)
        assert unowned == result.unowned


@pytest.mark.behaviour("shards/SH14")
@given(
    st.lists(st.integers(1, 10), min_size=1, max_size=8),
    st.dictionaries(st.text(max_size=8), st.integers(1, 1000), min_size=1),
)
def test_cuts_and_joins_leave_no_gap_and_come_to_rest(joins, weights):
    fleet = Fleet(weights)
    for number in joins:
        if Member(member(number)) in fleet.members and len(fleet.members) > 1:
            fleet.leave(number)
        elif Member(member(number)) not in fleet.members:
            fleet.join(number)
        fleet.settle()
        assert covers(fleet.line)
        assert {entry.owner for entry in fleet.line} <= {m.incarnation for m in fleet.members}
        assert sum(entry.weight for entry in fleet.line) == fleet.total


@pytest.mark.behaviour("shards/SH15")
@pytest.mark.parametrize("kind", KINDS)
def test_a_fleet_that_grows_is_even_and_moves_little(kind):
    fleet, moved = Fleet(names(kind)), []
    for size in range(1, 31):
        fleet.join(size)
        weight = fleet.settle()
        covered = len(fleet.items) >= 4 * size and fleet.forced() <= 1 / 8
        if size in (3, 10, 30) and len(fleet.items) >= 4 * size:
            assert fleet.imbalance() <= max(1.15, fleet.forced())
        if size > 1 and covered:
            moved.append(weight * size / fleet.total)
        assert fleet.selector_ranges() <= 32
    if moved:
        assert statistics.mean(moved) <= 1.1
        assert max(moved) <= 1.6


@pytest.mark.behaviour("shards/SH16")
@pytest.mark.parametrize("around", [4, 10, 30])
@pytest.mark.parametrize("kind", ["team-0…99", "300 words", "Zipf"])
def test_random_joins_and_leaves(kind, around):
    choose, fleet, moved = random.Random(around), Fleet(names(kind)), []
    present, newest = list(range(around)), around
    fleet.join(*present)
    fleet.settle()
    for _ in range(300):
        if (choose.random() < 0.5 and len(present) > max(2, around * 0.7)) or len(present) > around * 1.3:
            gone = present.pop(choose.randrange(len(present)))
            fleet.leave(gone)
        else:
            fleet.join(newest)
            present.append(newest)
            newest += 1
        weight = fleet.settle()
        assert fleet.selector_ranges() <= 32
        if len(fleet.items) < 4 * len(present):
            continue
        if fleet.forced() <= 1 / 8:
            assert fleet.imbalance() <= 1.15
            moved.append(weight * len(present) / fleet.total)
        else:
            assert fleet.imbalance() <= 1.35 * max(1, fleet.forced())
    if moved:
        assert statistics.mean(moved) <= 1.1
        assert max(moved) <= 1.6


@pytest.mark.behaviour("shards/SH17")
def test_a_namespace_with_half_of_all_stays_whole():
    weights = {"huge": 1000, **{f"team-{number}": 10 for number in range(100)}}
    fleet = Fleet(weights)
    fleet.join(1, 2, 3, 4)
    fleet.settle()
    [huge] = [entry for entry in fleet.line if entry.weight >= 1000]
    assert fleet.contents(huge.start, END)[0] == (fnv1a("huge"), 1000)
    loads = fleet.loads()
    assert loads[huge.owner] - 1000 <= 10
    others = [load for owner, load in loads.items() if owner != huge.owner]
    assert max(others) <= 1.15 * statistics.mean(others)


@pytest.mark.behaviour("shards/SH18")
def test_more_members_than_names():
    fleet = Fleet({f"team-{number}": 1 for number in range(5)})
    fleet.join(*range(20))
    fleet.settle()
    assert sorted(fleet.loads().values()) == [0] * 15 + [1] * 5
    assert fleet.settle() == 0


SOME = [A, B, C]


@pytest.mark.behaviour("shards/SH19")
def test_a_small_difference_moves_nothing_a_larger_one_after_a_minute():
    clock = ManualClock()
    pace = Pace(clock)
    assert not pace.moves(SOME, Spread(1.0, 1.0))
    clock.advance(GATHERING)
    assert not pace.moves(SOME, Spread(1.12, 0.9)), "all have joined, and are even enough"
    for _ in range(60):
        clock.advance("1m")
        assert not pace.moves(SOME, Spread(1.12, 0.9))
    assert not pace.moves(SOME, Spread(1.2, 0.9))
    clock.advance(PATIENCE - 1)
    assert not pace.moves(SOME, Spread(1.2, 0.9))
    clock.advance(1)
    assert pace.moves(SOME, Spread(1.2, 0.9))
    assert pace.moves(SOME, Spread(1.12, 0.9)), "until 1.10"
    assert not pace.moves(SOME, Spread(1.10, 0.9))
    assert not pace.moves(SOME, Spread(1.12, 0.9))


@pytest.mark.behaviour("shards/SH19")
def test_a_member_with_little_counts_too_and_a_pause_starts_the_minute_anew():
    clock = ManualClock()
    pace = Pace(clock)
    pace.moves(SOME, Spread())
    clock.advance(PATIENCE)
    few, enough = Spread(1.1, 0.7), Spread(1.1, 0.85)
    for spread, seconds in ((enough, 1), (few, 40), (enough, 1), (few, PATIENCE)):
        assert not pace.moves(SOME, spread)
        clock.advance(seconds)
    assert pace.moves(SOME, few)
    assert not pace.moves(SOME, enough)


@pytest.mark.behaviour("shards/SH19")
def test_claims_go_on_until_the_fullest_has_little_more_than_the_mean():
    shards = equal_ranges(*[(A, 10)] * 15, *[(B, 10)] * 10, *[(C, 10)] * 10)
    assert balance(shards, [Member(A), Member(B), Member(C)], moves=False).owners["uid"].count(A) == 15
    result = balance(shards, [Member(A), Member(B), Member(C)])
    assert result.spread.uneven
    assert sorted(result.owners["uid"].count(owner) for owner in SOME) == [11, 12, 12]


@pytest.mark.behaviour("shards/SH20")
def test_no_member_gets_more_than_its_part_of_min_members():
    fleet = Fleet({f"team-{number}": 1 for number in range(240)}, min_members=3)
    for size, owned in ((1, 80), (2, 160), (3, 240)):
        fleet.join(size)
        fleet.settle()
        loads = fleet.loads()
        assert max(loads.values()) <= 80 * (1.15 if size == 3 else 1.0)
        assert owned * 0.9 <= sum(loads.values()) <= owned
        assert fleet.balance.unowned == 240 - sum(loads.values())
    assert fleet.balance.unowned == 0


@pytest.mark.behaviour("shards/SH20")
def test_one_range_larger_than_its_part_has_an_owner():
    shards = equal_ranges((None, 100), (None, 10), (None, 10))
    result = balance(shards, [Member(A)], min_members=3)
    assert result.owners["uid"] == (A, None, None)
    assert result.unowned == 20


@pytest.mark.behaviour("shards/SH21")
def test_replicas_that_start_together_claim_in_one_round():
    fleet, clock = Fleet({f"team-{number}": 1 for number in range(400)}), ManualClock()
    fleet.join(0)
    fleet.settle()
    pace = Pace(clock)
    pace.moves([member(0)], fleet.balance.spread)
    clock.advance("1h")
    for number in (1, 2, 3):
        fleet.join(number)
        fleet.reshape()
        assert fleet.round(moves=pace.moves([m.incarnation for m in fleet.members], Spread(2, 0))) == 0
        clock.advance(GATHERING - 0.1)
    clock.advance(0.1)
    before = fleet.line
    fleet.round(moves=pace.moves([m.incarnation for m in fleet.members], Spread(2, 0)))
    moves = [(old.owner, new.owner) for old, new in zip(before, fleet.line, strict=True) if old.owner != new.owner]
    assert {giver for giver, _ in moves} == {member(0)}
    assert {taker for _, taker in moves} == {member(1), member(2), member(3)}
    assert fleet.imbalance() <= 1.10
    assert fleet.round() == 0


@pytest.mark.behaviour("shards/SH21")
def test_a_leave_ends_the_wait_for_others():
    clock = ManualClock()
    pace = Pace(clock)
    pace.moves([A, B], Spread())
    clock.advance(GATHERING)
    assert not pace.moves([A, B, C], Spread(2, 0))
    assert pace.moves([A, C], Spread(2, 0))


@pytest.mark.behaviour("shards/SH21")
def test_a_member_that_was_over_joins_like_any_other():
    clock = ManualClock()
    pace = Pace(clock)
    pace.moves([A, B], Spread())
    clock.advance(GATHERING)
    back = B._replace(transitions=1)
    assert not pace.moves([A, back], Spread(2, 0))
    clock.advance(GATHERING)
    assert pace.moves([A, back], Spread(2, 0))


@pytest.mark.behaviour("shards/SH22")
def test_a_leaving_member_gets_nothing_and_is_claimed_from():
    shards = equal_ranges((A, 10), (A, 10), (B, 10), (None, 10), (C, 10))
    leaving = [Member(A, leaving=True), Member(B), Member(C)]
    for moves in (True, False):
        assert A not in owners(shards, *leaving, moves=moves)
        assert None not in owners(shards, *leaving, moves=moves)


@pytest.mark.behaviour("shards/SH22")
def test_nothing_is_claimed_when_all_leave():
    shards = equal_ranges((A, 10), (A, 10), (A, 10), (B, 10), (None, 10))
    assert owners(shards, Member(A, leaving=True), Member(B, leaving=True)) == [A, A, A, B, B]


def test_a_claim_counts_for_the_claimant():
    shards = equal_ranges((A, 10), (A, 10), (A, 10), (A, 10))
    claimed = shards.next(
        {"uid": tuple(e._replace(claimant=B) if n > 1 else e for n, e in enumerate(shards.lines["uid"]))}
    )
    assert owners(claimed, Member(A), Member(B)) == [A, A, B, B]
    assert owners(claimed, Member(A)) == [A, A, A, A], "a claim of a member that is gone does not count"
