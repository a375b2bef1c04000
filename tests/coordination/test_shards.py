"""The protocol of shards with the real classes: members, map, ownership; Leases in memory, a manual clock.

The world checks after each step that no two members act on one name.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable
from unittest import mock

import pytest
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost.client.governed import GovernedTransport
from ctrlhost.coordination.shard_map import ShardMap, ShardRange
from ctrlhost.coordination.term import Tenure
from ctrlhost.coordination.turns import Turns
from ctrlhost.coordination.writes import Permit, Refusals, Writes, refused
from ctrlhost.errors import NotLeading, TransportError
from ctrlhost.testing import ManualClock
from tests.coordination.fleet_world import CONFIG, HASHES, MAP, NAMES, Node, World
from tests.coordination.shard_simulator import fnv1a


def settled(*names: str) -> World:
    """Return a fleet that has come to rest, and whose members came more than a minute ago."""
    world = World(*names)
    world.play(20)
    world.play(60, tick=2)
    assert world.owned() == set(NAMES)
    assert all(node.names for node in world.nodes)
    return world


def claim(taker: Node, name: str) -> None:
    """Write a claim of the taker on the range of a name."""
    taker.store.refresh()
    shards = taker.store.shards
    line = list(shards.lines["namespace"])
    place = max(number for number, entry in enumerate(line) if entry.start <= fnv1a(name))
    line[place] = line[place]._replace(claimant=taker.member.incarnation)
    assert taker.store.write(shards.next({"namespace": tuple(line)}))


def move(world: World, taker: Node, name: str) -> None:
    claim(taker, name)
    world.play(1)


@pytest.mark.behaviour("shards/SH28")
def test_two_members_that_find_no_map_write_one():
    world = World("a", "b")
    a, b = world.nodes
    a.client.watching = b.client.watching = False
    for node in (a, b):
        node.renew()
        node.store.refresh()
        assert node.store.lost
    for _ in range(4):
        for node in (a, b):
            node.shards.step()
        world.advance(0.5)
    assert [who for who, verb, name in world.server.writes if (verb, name) == ("create", MAP)] == ["a"]
    assert world.server.conflicts == [("b", MAP)]
    assert a.store.conflicts + b.store.conflicts == 1
    a.client.watching = b.client.watching = True
    world.play(10)
    assert world.owned() == set(NAMES)
    assert {node.store.shards.id for node in world.nodes} == {world.shards.id}


@pytest.mark.behaviour("shards/SH29")
@pytest.mark.behaviour("shards/SH38")
@pytest.mark.parametrize("skews", [(0, 0), (10 * 365 * 86400, -10 * 365 * 86400)], ids=["equal clocks", "wrong clocks"])
def test_a_range_without_runs_moves_in_two_writes(skews):
    world = World("a", "x")
    for node, skew in zip(world.nodes, skews, strict=True):
        node.clock.skew = skew
    world.play(20)
    a, x = world.nodes
    before = len(world.map_writes())
    name = min(a.names)
    claim(x, name)
    a.clock.skew -= 86400
    world.play(1)
    assert world.map_writes()[before:] == ["x", "a"]
    assert name in x.names
    assert a.begin(name) is None
    assert x.begin(name) is not None


@pytest.mark.behaviour("shards/SH30")
def test_a_run_keeps_its_range_and_no_other():
    world = settled("a", "x")
    a, x = world.nodes
    busy = min(a.names)
    run = a.begin(busy)
    [span] = [span for span in a.open if span.covers("namespace", fnv1a(busy))]
    other = min(name for name in a.names if not span.covers("namespace", fnv1a(name)))
    claim(x, busy)
    world.play(3)
    claim(x, other)
    world.play(3)
    assert other in x.names
    assert busy not in x.names
    assert a.begin(busy) is None, "closed"
    assert run.permitted
    a.ownership.end(run)
    world.play(1)
    assert busy in x.names
    assert not run.permitted


@pytest.mark.parametrize("echo", [True, False], ids=["seen", "not seen"])
def test_a_range_is_given_when_the_own_writes_are_in_the_cache_or_after_two_seconds(echo):
    world = settled("a", "x")
    a, x = world.nodes
    a.caches.echo = False
    name = min(a.names)
    claim(x, name)
    world.play(1.5)
    assert name not in a.names | x.names
    a.caches.echo = echo
    world.play(0.5 if echo else 1.5)
    assert name in x.names


@pytest.mark.behaviour("shards/SH32")
@pytest.mark.parametrize("fault", ["lost", "unanswered"])
def test_a_range_stays_closed_when_the_answer_to_its_giving_is_lost(fault):
    world = settled("a", "x")
    a, x = world.nodes
    name = min(a.names)
    claim(x, name)
    faults = [fault, fault]
    a.client.fault = lambda verb, lease: faults.pop() if lease == MAP and faults else None
    a.step()
    assert len(faults) == 1
    assert a.begin(name) is None
    for _ in range(3):
        a.step()
        assert a.begin(name) is None
    world.play(1)
    assert name in x.names
    assert faults == ([] if fault == "lost" else [fault])


@pytest.mark.behaviour("shards/SH33")
def test_a_thread_of_a_former_run_cannot_write():
    world = settled("a", "x")
    a, x = world.nodes
    name = min(a.names)
    run = a.begin(name)
    refusals, lasting = Refusals(), Tenure(ManualClock())
    refusals.reasons = ("shard",)
    lasting.begin(1e9)
    permit = Permit(Writes("demo", lasting, refusals), run.term, run.tenure)

    def write(client: ctrlhost.Client, name: str) -> None:
        client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}})

    with Sandbox() as server, contextlib.closing(ctrlhost.Client.load(server.kubeconfig)) as plain:
        thread = ctrlhost.Client.over(GovernedTransport(plain.transport, None, permit.writes.read, permit))
        write(thread, "in-the-run")
        a.ownership.end(run)
        write(thread, "while-the-range-is-open")
        move(world, x, name)
        assert name in x.names
        with pytest.raises(NotLeading, match="the range of the key is no longer open here") as error:
            write(thread, "after-it-was-given")
        assert error.value.reason == "shard"
        assert refused(error.value, permit), "so the key is not retried here"
        counts = {tuple(sample.labels.values()): sample.value for each in refusals.collect() for sample in each.samples}
        assert counts["demo", "shard"] == 1
        move(world, a, name)
        assert name in a.names
        with pytest.raises(NotLeading):
            write(thread, "after-it-was-taken-again")
        names = {config_map["metadata"]["name"] for config_map in plain.list("v1", "ConfigMap", "default")}
        assert {"in-the-run", "while-the-range-is-open"} <= names
        assert not any(name.startswith("after") for name in names)


@pytest.mark.behaviour("shards/SH34")
def test_a_lapse_that_nobody_used_moves_nothing():
    world = settled("a", "x")
    a, x = world.nodes
    names, lists, writes = a.names, list(a.caches.lists), world.map_writes()
    name = min(names)
    run = a.begin(name)
    place = fnv1a(name)
    world.play(12, x)
    assert a.names == set()
    assert a.ownership.suspended("namespace", place), "its keys stay queued"
    assert not run.permitted
    a.step()
    assert a.names == names
    assert a.member.incarnation.transitions == 0
    assert not run.permitted, "it began before"
    world.play(10)
    assert (a.names, a.caches.lists, world.map_writes()) == (names, lists, writes)


def test_a_pause_shorter_than_the_renew_deadline_changes_nothing():
    world = settled("a", "x")
    a, x = world.nodes
    names, lists, writes = a.names, list(a.caches.lists), world.map_writes()
    run = a.begin(min(names))
    term = a.member.tenure.current.number
    world.play(CONFIG.renew_deadline - CONFIG.retry_period - 1, x)
    assert a.names == names
    world.play(10)
    assert run.permitted
    assert a.member.tenure.current.number == term
    assert (a.names, a.caches.lists, world.map_writes()) == (names, lists, writes)


def test_what_a_dead_member_had_is_given_out_in_one_write():
    world = settled("a", "b", "x", "y")
    *alive, dead = world.nodes
    had, lost = dead.names, dead.member.incarnation
    before = len(world.map_writes())

    def left() -> list[ShardRange]:
        return [entry for entry in world.shards.lines["namespace"] if entry.owner == lost]

    count = len(left())
    assert count > 2
    world.play(CONFIG.lease_duration - 1, *alive)
    assert len(left()) == count, "they rest"
    assert world.owned() | had == set(NAMES)
    assert world.map_writes()[before:] == []
    while left():
        world.play(0.5, *alive)
        assert len(left()) in (0, count)
    assert len(world.map_writes()) == before + 1
    assert set.union(*(node.names for node in alive)) == set(NAMES)


def test_the_first_of_the_living_acts_at_once_when_the_first_by_name_has_died():
    world = settled("a", "b", "c")
    _, *alive = world.nodes
    world.play(CONFIG.lease_duration - CONFIG.retry_period - 1, *alive)
    while not any(node.fleet.silent() for node in alive):
        world.play(0.1, *alive, tick=0.1)
    # The others act after half a second.
    world.play(0.3, *alive, tick=0.1)
    assert set.union(*(node.names for node in alive)) == set(NAMES)


def test_a_lease_emptied_by_hand_is_taken_from_at_once_and_its_holder_comes_back_with_nothing():
    world = settled("a", "x")
    a, x = world.nodes
    own, before = a.names, a.member.incarnation
    lease = world.server.get(a.member.name)
    world.server.replace({**lease, "spec": {**lease["spec"], "holderIdentity": ""}})
    # The world would complain: until its next renewal two may act, as after any Lease is changed by hand.
    for _ in range(3):
        x.watch()
        x.shards.step()
    assert x.names == set(NAMES)
    assert a.names == own
    a.due = 0.0
    a.renew()
    a.shards.step()
    assert a.names == set()
    assert a.member.incarnation == before._replace(transitions=before.transitions + 1)
    world.play(20)
    assert world.owned() == set(NAMES)
    assert a.names


@pytest.mark.behaviour("shards/SH35")
@pytest.mark.behaviour("shards/SH38")
@pytest.mark.parametrize("skew", [0, 10 * 365 * 86400, -10 * 365 * 86400])
def test_a_member_that_was_fenced_comes_back_with_nothing(skew):
    world = settled("a", "x")
    a, x = world.nodes
    a.clock.skew = skew
    world.play(10)
    before = a.member.incarnation
    run = a.begin(min(a.names))
    world.play(CONFIG.lease_duration + 4, x)
    assert x.names == set(NAMES)
    a.client.watching = False
    a.step()
    assert a.names == set()
    assert not run.permitted
    assert a.member.incarnation == before._replace(transitions=1)
    a.client.watching = True
    world.play(20)
    owners = {entry.owner for entry in world.shards.lines["namespace"]}
    assert owners == {a.member.incarnation, x.member.incarnation}
    assert a.names


@pytest.mark.behaviour("shards/SH36")
def test_a_member_without_a_watch_takes_nothing():
    world = settled("a", "x")
    a, x = world.nodes
    names = a.names
    x.client.watching = False
    world.play(60)
    assert ("x", a.member.name) in world.server.conflicts
    assert a.names == names
    assert a.member.incarnation.transitions == 0


@pytest.mark.behaviour("shards/SH37")
def test_nothing_moves_when_the_api_server_was_away():
    world = settled("a", "b", "c")
    names, writes = [node.names for node in world.nodes], world.map_writes()
    lists = [list(node.caches.lists) for node in world.nodes]
    for node in world.nodes:
        node.client.away = True
    world.play(60)
    assert world.owned() == set()
    for node in world.nodes:
        node.client.away = False
    world.play(CONFIG.retry_period * 2.2)
    assert [node.names for node in world.nodes] == names
    world.play(30)
    assert [node.names for node in world.nodes] == names
    assert [node.caches.lists for node in world.nodes] == lists
    assert world.map_writes() == writes
    assert {node.member.incarnation.transitions for node in world.nodes} == {0}


@pytest.mark.parametrize("joined", [True, False], ids=["a member", "a newcomer"])
def test_an_error_that_comes_back_with_each_step_is_logged_once(joined, caplog):
    world = settled("a", "x")
    a = world.nodes[0] if joined else world.add("b")
    step = a.shards.step if joined else a.shards.may_join
    a.client.find = mock.Mock(side_effect=TransportError("no right to read it"))
    for _ in range(2):
        a.store.stale = True
        caplog.clear()
        for _ in range(5):
            step()
        assert ["no right to read it" in message for message in caplog.messages] == [True]
        a.clock.advance(0 if joined else 301)
        if joined:
            a.store.stale = False
            step()


@pytest.mark.behaviour("shards/SH39")
def test_a_lease_deleted_by_hand_makes_a_new_incarnation_with_nothing():
    world = settled("a", "x")
    a, x = world.nodes
    before, own = a.member.incarnation, a.names
    world.server.delete(a.member.name)
    world.play(4)
    assert a.member.incarnation.uid != before.uid
    assert a.names == set()
    world.play(CONFIG.lease_duration - 5)
    assert world.owned() == x.names
    assert not own & x.names, "they wait for the duration"
    world.play(20)
    assert world.owned() == set(NAMES)
    assert before not in {entry.owner for entry in world.shards.lines["namespace"]}


@pytest.mark.parametrize("loss", ["deleted", "garbage", "a gap", "an overlap", "an unknown owner", "an older copy"])
@pytest.mark.behaviour("shards/SH40")
@pytest.mark.behaviour("shards/SH41")
def test_a_lost_map_is_written_anew_when_no_run_of_the_last_one_is_left(loss):
    world = settled("a", "b", "c")
    older, before = world.shards.text(), world.shards
    world.add("d")
    world.play(10)
    line = world.shards.lines["namespace"]
    a = world.nodes[0]
    run = a.begin(min(a.names))
    match loss:
        case "deleted":
            world.server.delete(MAP)
        case "an older copy":
            world.rewrite(older)
        case "a gap":
            world.rewrite(ShardMap("id", 99, {"namespace": line[1:]}).text())
        case "an overlap":
            world.rewrite(ShardMap("id", 99, {"namespace": (*line, ShardRange(5))}).text())
        case "an unknown owner":
            world.rewrite(world.shards.text().replace('"1":[', '"99":['))
        case _:
            world.rewrite("{")
    world.play(8)
    assert world.shards.id != before.id
    assert {entry.owner for entry in world.shards.lines["namespace"]} == {None}, "a run of the last map lasts"
    assert world.owned() == set()
    assert run.permitted
    leases = world.server.leases
    ids = {n.name: leases[n.member.name]["metadata"]["annotations"]["ctrlhost.dev/map"] for n in world.nodes}
    assert ids.pop("a") == before.id
    assert set(ids.values()) == {world.shards.id}
    a.ownership.end(run)
    world.play(5)
    assert world.owned() == set(NAMES)


@pytest.mark.behaviour("shards/SH41")
def test_a_map_of_a_later_version_makes_the_replica_leave():
    world = settled("a", "x")
    a, _ = world.nodes
    assert a.shards.unready() == ""
    world.rewrite('{"v": 2}')
    world.play(3)
    assert world.server.leases[MAP]["metadata"]["annotations"]["ctrlhost.dev/shards"] == '{"v": 2}'
    assert all(node.member.leaving and "version 2 is newer than 1" in node.shards.problem for node in world.nodes)
    assert "version 2 is newer than 1" in a.shards.unready()
    assert a.names == set()


def test_a_replica_is_ready_when_what_it_should_have_is_open_or_after_a_minute():
    world = World("a")
    [a] = world.nodes
    a.caches.slow = True
    assert a.shards.unready() == "shards: has not joined yet"
    world.play(3)
    assert a.shards.unready() == "shards: waits for 8 ranges"
    assert a.names == set()
    a.caches.list()
    world.play(1)
    assert a.shards.unready() == ""
    b = world.add("b")
    b.caches.slow = True
    world.play(10)
    assert "waits for" in b.shards.unready()
    assert a.names == set(NAMES), "nothing is claimed before it is listed"
    world.play(60)
    assert b.shards.unready() == ""


@pytest.mark.behaviour("shards/SH18")
def test_a_replica_that_should_have_nothing_is_ready():
    world = World(*(f"replica-{number}" for number in range(5)))
    for node in world.nodes:
        node.shards._hashes = lambda: HASHES[:2]
        node.caches.contents = lambda span: [(place, 1) for place in HASHES[:2] if span.start <= place < span.end]
    world.play(20)
    assert sorted(len(node.open) for node in world.nodes) == [0, 0, 0, 1, 1]
    assert [node.shards.unready() for node in world.nodes] == [""] * 5


@pytest.mark.behaviour("shards/SH42")
@pytest.mark.parametrize("moment", ["before its write", "after it", "after it was named"])
def test_the_death_of_a_claimant(moment):
    world = settled("a", "x", "y")
    a, x, y = world.nodes
    world.play(10)
    if moment == "before its write":
        name, opened = min(a.names), list(a.opened)
        world.play(40, a, y)
        assert name in a.names
        assert a.ownership.phases()
        assert a.opened[: len(opened)] == opened
        return
    name = min(a.names)
    run = a.begin(name) if moment == "after it" else None
    claim(x, name)
    if run:
        world.play(5, a, y)
        assert a.begin(name) is None
        world.play(CONFIG.lease_duration, a, y)
        assert name in a.names, "the claim is over, and the range has not been given"
        assert run.permitted
        a.ownership.end(run)
    else:
        world.play(1, a, y)
        assert name not in a.names | y.names
        world.play(CONFIG.lease_duration + 3, a, y)
        assert name in a.names | y.names
    assert a.names | y.names == set(NAMES)


@pytest.mark.behaviour("shards/SH43")
@pytest.mark.parametrize("first", ["owner", "taker"])
def test_of_an_owner_and_a_taker_that_write_at_once_one_wins(first):
    world = settled("a", "x")
    a, x = world.nodes
    before = world.shards
    for node in (a, x):
        node.client.watching = False
    order = [a, x] if first == "owner" else [x, a]
    results = [node.store.write(node.store.shards.next(before.lines)) for node in order]
    assert results == [True, False]
    assert world.server.conflicts[-1] == (order[1].name, MAP)
    assert order[1].store.stale
    order[1].store.refresh()
    assert order[1].store.shards == world.shards
    assert world.shards.epoch == before.epoch + 1


def storm(seed: int, edit: Callable[[World, random.Random], None] = lambda world, choose: None) -> None:
    """Let random faults happen to three members, and `edit` what somebody does by hand; check that they recover."""
    choose = random.Random(seed)
    world = World("a", "b", "c", seed=seed)
    runs: list = []
    for _ in range(400):
        node = choose.choice(world.nodes)
        match choose.randrange(14):
            case 0:
                node.client.watching = not node.client.watching
            case 1:
                node.client.away = not node.client.away
            case 2:
                faults = [choose.choice(["lost", "unanswered", None]) for _ in range(3)]
                node.client.fault = lambda verb, name, faults=faults: faults.pop() if faults else None
            case 3:
                world.play(choose.choice([3, 11, 17]), *choose.sample(world.nodes, 2))
            case 4 if choose.random() < 0.2 and MAP in world.server.leases:
                world.server.delete(MAP)
            case 5 if choose.random() < 0.3 and node.member.name in world.server.leases:
                world.server.delete(node.member.name)
            case 6 if node.names:
                runs.append((node, node.begin(choose.choice(sorted(node.names)))))
            case 7 if runs:
                owner, run = runs.pop(choose.randrange(len(runs)))
                owner.ownership.end(run)
            case 8:
                world.advance(choose.choice([0.5, 2, 6]))
            case 9:
                edit(world, choose)
            case _:
                node.step()
    for node in world.nodes:
        node.client.watching, node.client.away = True, False
        node.client.fault = lambda verb, name: None
    for owner, run in runs:
        owner.ownership.end(run)
    world.play(60)
    assert world.owned() == set(NAMES)
    assert max(len(node.names) for node in world.nodes) <= 1.15 * len(HASHES) / 3 + 1


#: Soak has more.
WALKS = range(int(os.environ.get("CTRLHOST_SHARD_WALKS", "4")))


@pytest.mark.parametrize("seed", WALKS)
def test_random_faults_lead_to_no_two_owners_and_each_name_has_one_in_the_end(seed):
    storm(seed)


def test_the_first_member_by_name_acts_at_once_and_the_others_later():
    clock = ManualClock()
    first, second = Turns(clock), Turns(clock)
    assert first.due(["fence"], first=True) == {"fence"}
    assert second.due(["fence"], first=False) == set()
    clock.advance(0.4)
    assert second.due(["fence"], first=False) == set()
    clock.advance(1.1)
    assert second.due(["fence", "free"], first=False) == {"fence"}
    assert second.due(["free"], first=True) == {"free"}, "the first one is gone"
    assert second.due([], first=False) == set()
    assert second.due(["fence"], first=False) == set(), "it is needed anew"
    needs = {f"free {number}" for number in range(20)}
    assert second.due(needs, first=False) == set()
    while not (due := second.due(needs, first=False)):
        clock.advance(0.01)
    assert due == needs, "what was seen at once is done at once"


def test_weights_alone_are_written_once_a_minute_and_only_if_they_count():
    world = settled("a")
    [a] = world.nodes
    plain = a.caches.contents

    def weigh(each: int) -> None:
        a.caches.contents = lambda span: [(place, each) for place, _ in plain(span)]

    weigh(100)
    world.play(62, tick=2)
    before, ranges = len(world.map_writes()), len(world.shards.lines["namespace"])
    for each, seconds, writes in ((105, 120, 0), (150, 2, 1), (200, 50, 1), (200, 12, 2), (201, 120, 2)):
        weigh(each)
        world.play(seconds, tick=2)
        assert len(world.map_writes()) == before + writes, each
    line = world.shards.lines["namespace"]
    assert sum(entry.weight for entry in line) == 200 * len(HASHES)
    assert len(line) == ranges, "what grows evenly is not cut"


def heavy(*names: str, min_members: int) -> World:
    """Return a new fleet whose namespaces have 20 objects each, which a new map does not know."""
    world = World(min_members=min_members)
    for name in names:
        start_heavy(world, name)
    return world


def start_heavy(world: World, name: str) -> Node:
    node = world.add(name)
    plain = node.caches.contents
    node.caches.contents = lambda span: [(place, 20) for place, _ in plain(span)]
    return node


def listed(world: World) -> list[int]:
    """Return how many names each member has listed."""
    return [sum(len(node.caches.contents(span)) for span in node.caches.lists) for node in world.nodes]


@pytest.mark.behaviour("shards/SH21")
@pytest.mark.parametrize("late", [0, 1, 2, 3])
def test_members_that_start_together_list_nothing_twice_though_one_takes_long(late):
    world = heavy("a", "b", "c", "d", min_members=4)
    slow = world.nodes[late]
    slow.caches.slow = True
    world.play(10)
    assert not slow.names
    for node in world.nodes:
        assert node is slow or 20 <= len(node.names) <= 28
    slow.caches.list()
    slow.caches.slow = False
    world.play(20)
    assert world.owned() == set(NAMES)
    assert sum(listed(world)) == len(NAMES)
    assert {entry.weight % 20 for entry in world.shards.lines["namespace"]} == {0}, "all have reported"


def test_what_has_no_owner_is_given_at_once(monkeypatch):
    world = World("a")
    [a] = world.nodes
    # All have accepted the map between two looks of one step.
    looks = iter([False])
    monkeypatch.setattr(a.fleet, "accepted", lambda _: next(looks, True))
    written: list[ShardMap] = []
    write = a.store.write
    monkeypatch.setattr(a.store, "write", lambda shards: written.append(shards) or write(shards))
    world.play(5)
    owners = [{entry.owner for entry in shards.lines["namespace"]} for shards in written]
    # The last ones are weights.
    assert owners[:2] == [{None}, {a.member.incarnation}]


@pytest.mark.behaviour("shards/SH20")
def test_a_member_that_comes_late_takes_no_more_than_its_part():
    world, most = heavy(min_members=4), 0
    for number in range(4):
        start_heavy(world, f"replica-{number}")
        world.play(90)
        most = max(most, *(len(node.names) for node in world.nodes))
        assert len(world.owned()) >= 20 * (number + 1)
    assert most <= 28
    assert world.owned() == set(NAMES)


def test_a_map_that_would_be_too_long_stays_as_it_is():
    world = settled("a")
    [a] = world.nodes
    before = world.shards
    line = tuple(ShardRange(place) for place in range(10_000))
    assert not a.store.write(before.next({"namespace": line}))
    assert world.shards == before
    assert not a.store.stale
