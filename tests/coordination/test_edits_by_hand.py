"""What members of a fleet make of Leases and of a map that somebody has edited by hand."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from ctrlhost.coordination.fleet import FLEET, SHARDS
from tests.coordination.fleet_world import CONFIG, MAP, NAMES, Node, World
from tests.coordination.test_shards import WALKS, settled, storm


def edit(world: World, name: str, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change a Lease."""
    lease = world.server.get(name)
    change(lease)
    world.server.replace(lease)


def fenced_once() -> World:
    """Return a fleet whose first member is in its second incarnation."""
    world = settled("a", "x")
    a, x = world.nodes
    world.play(CONFIG.lease_duration + 4, x)
    world.play(30)
    assert a.member.incarnation.transitions == 1
    assert a.names
    return world


def rests(world: World) -> None:
    """Check that each name gets an owner, all members are ready, and then nothing is written to the map."""
    world.play(16)
    world.play(40, tick=2)
    assert world.owned() == set(NAMES)
    assert [node.shards.unready() for node in world.nodes] == [""] * len(world.nodes)
    assert not any(node.member.leaving for node in world.nodes)
    writes = world.map_writes()
    world.play(20, tick=2)
    assert world.map_writes() == writes


@pytest.mark.behaviour("shards/SH39")
@pytest.mark.parametrize("hand", ["deletes", "empties", "counts on"])
def test_a_member_whose_lease_somebody_takes_renews_at_once_and_no_claims_go_to_and_fro(hand):
    world = settled("a", "b", "c")
    a, *_ = world.nodes
    before, writes, renewals = a.member.incarnation, len(world.map_writes()), len(world.server.writes)
    match hand:
        case "deletes":
            world.server.delete(a.member.name)
        case "empties":
            edit(world, a.member.name, lambda lease: lease["spec"].update(holderIdentity=""))
        case _:
            edit(world, a.member.name, lambda lease: lease["spec"].update(leaseTransitions=7))
    a.watch()
    a.renew()
    assert [who for who, _, name in world.server.writes[renewals:] if name == a.member.name] == ["a"]
    assert a.member.incarnation != before
    for _ in range(100):
        for node in world.nodes:
            node.step()
        world.advance(0.01)
    assert len(world.map_writes()) - writes < 10
    rests(world)


@pytest.mark.behaviour("shards/SH39")
def test_a_claim_of_a_member_whose_lease_is_gone_closes_nothing():
    """It does not know it yet: it gives what others claim, and would claim it back for as long."""
    world = settled("a", "b", "c")
    a, *_ = world.nodes
    writes = len(world.map_writes())
    a.client.watching = False
    world.server.delete(a.member.name)
    for _ in range(100):
        for node in world.nodes:
            node.watch()
            node.shards.step()
            world.check()
        world.advance(0.01)
    assert len(world.map_writes()) - writes < 20
    a.client.watching = True
    rests(world)


@pytest.mark.behaviour("shards/SH39a")
def test_a_lease_without_its_label_is_still_held():
    world = settled("a", "x")
    a, x = world.nodes
    names, writes = a.names, world.map_writes()
    edit(world, a.member.name, lambda lease: lease["metadata"]["labels"].pop(FLEET))
    world.play(1, x)
    world.play(60)
    assert (a.names, world.map_writes()) == (names, writes)
    assert world.server.get(a.member.name)["metadata"]["labels"] == {FLEET: "shop"}
    world.play(CONFIG.lease_duration + 5, x)
    assert x.names == set(NAMES), "it is fenced as before"


@pytest.mark.behaviour("shards/SH39a")
def test_a_lease_without_its_label_is_fenced_if_its_holder_is_dead():
    world = settled("a", "x")
    a, x = world.nodes
    edit(world, a.member.name, lambda lease: lease["metadata"]["labels"].pop(FLEET))
    world.play(CONFIG.lease_duration + 5, x)
    assert x.names == set(NAMES)
    assert world.server.get(a.member.name)["spec"]["holderIdentity"] == ""


@pytest.mark.behaviour("shards/SH39a")
@pytest.mark.parametrize("duration", [0, None])
def test_a_lease_without_a_duration_is_held_for_that_of_others(duration):
    world = settled("a", "x")
    a, x = world.nodes
    edit(world, a.member.name, lambda lease: lease["spec"].update(leaseDurationSeconds=duration))
    world.play(CONFIG.renew_deadline - CONFIG.retry_period, x)
    assert a.member.incarnation.transitions == 0
    a.step()
    assert world.server.get(a.member.name)["spec"]["leaseDurationSeconds"] == CONFIG.lease_duration
    rests(world)


@pytest.mark.behaviour("shards/SH39a")
def test_a_label_by_hand_lets_nobody_leave():
    world = settled("a", "x")
    a, _ = world.nodes
    edit(world, a.member.name, lambda lease: lease["metadata"]["labels"].update({SHARDS: "leaving"}))
    rests(world)
    assert a.names
    assert world.server.get(a.member.name)["metadata"]["labels"] == {FLEET: "shop"}


@pytest.mark.behaviour("shards/SH39a")
def test_a_member_without_its_label_comes_back_after_it_was_fenced():
    world = settled("a", "x")
    a, x = world.nodes
    edit(world, a.member.name, lambda lease: lease["metadata"]["labels"].pop(FLEET))
    world.play(CONFIG.lease_duration + 5, x)
    x.fleet.relist()
    rests(world)
    assert a.names
    assert x.names


@pytest.mark.behaviour("shards/SH39a")
def test_a_newcomer_waits_for_a_member_without_its_label():
    world = settled("a")
    [a] = world.nodes
    edit(world, a.member.name, lambda lease: lease["metadata"]["labels"].pop(FLEET))
    world.server.delete(MAP)
    a.client.away = True
    b = world.add("b")
    world.play(CONFIG.renew_deadline - 4, b)
    assert a.names == set(NAMES)
    assert b.names == set()
    world.play(CONFIG.lease_duration, b)
    assert b.names == set(NAMES)


@pytest.mark.behaviour("shards/SH39a")
def test_a_member_takes_no_number_of_transitions_again():
    """By what others have seen last, an earlier one is over."""
    world = fenced_once()
    a, x = world.nodes
    x.client.watching = False
    edit(world, a.member.name, lambda lease: lease["spec"].update(leaseTransitions=0))
    world.play(CONFIG.retry_period + 0.5, a)
    assert world.server.get(a.member.name)["spec"]["leaseTransitions"] == 1
    assert a.member.incarnation.transitions == 1
    x.client.watching = True
    rests(world)
    assert a.names


@pytest.mark.behaviour("shards/SH39a")
def test_a_map_that_names_more_transitions_than_a_lease_has_counts_as_lost():
    world = fenced_once()
    a, x = world.nodes
    before = world.shards.id
    edit(world, a.member.name, lambda lease: lease["spec"].update(leaseTransitions=0))
    world.play(60, x)
    assert x.names == set(NAMES)
    assert world.shards.id != before


@pytest.mark.behaviour("shards/SH39a")
def test_leases_that_nobody_renews_are_fenced_and_own_nothing_for_long():
    world = settled("a", "x")
    metadata = {"namespace": "default", "labels": {FLEET: "shop"}}
    for number in range(50):
        lease = {"metadata": {**metadata, "name": f"shop-member-{number:08}z"}}
        world.server.create({**lease, "spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 15}})
    rests(world)


DEEP = '{"v": 1, "x": ' + "[" * 3000 + "]" * 3000 + "}"
#: In the format of a map, but longer than one can be.
LONG = json.dumps(
    {
        "v": 1, "id": "long", "epoch": 9999, "members": {}, "shard_by": {"plugin/controller": "namespace"},
        "lines": {"namespace": [[f"{(number << 64) // 7000:016x}", 0, 0, 1] for number in range(7000)]},
    }
)  # fmt: skip


@pytest.mark.behaviour("shards/SH41a")
@pytest.mark.parametrize(
    "edits",
    [
        "",
        DEEP,
        LONG,
        {"lines": {}},
        {"lines": {}, "id": "other"},
        {"lines": {}, "shard_by": {}},
        {"lines": {"other": [["0" * 16, 0, 0, 1]]}},
        {"shard_by": {}},
        {"shard_by": {"plugin/controller": "colour"}},
        {"shard_by": {"plugin/controller": "uid"}},
        {"shard_by": {"plugin/controller": "name"}},
        {"members": {str(number): ["shop-member-00000000", "uid", 99] for number in range(1, 40)}},
        {"members": {str(number): ["shop-member-00000000", "", -1] for number in range(1, 40)}},
        {"epoch": 1 << 70},
    ],
    ids=lambda edits: str(edits)[:60],
)
def test_of_any_map_by_hand_a_fleet_recovers_with_few_log_lines(edits, caplog):
    world = settled("a", "b", "c")
    if isinstance(edits, dict):
        fields = json.loads(world.shards.text())
        edits = json.dumps({**fields, "epoch": fields["epoch"] + 1, **edits})
    caplog.clear()
    world.rewrite(edits)
    rests(world)
    assert len([record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]) <= 12
    assert not any(record.exc_info for record in caplog.records)


@pytest.mark.behaviour("shards/SH41a")
def test_a_map_that_names_a_member_of_later_is_written_anew():
    world = settled("a", "x")
    fields = json.loads(world.shards.text())
    for member in fields["members"].values():
        member[2] += 99
    world.rewrite(json.dumps({**fields, "epoch": fields["epoch"] + 1}))
    rests(world)
    assert world.shards.id != fields["id"]


def unready(node: Node) -> bool:
    return "version 2" in node.shards.unready()


@pytest.mark.behaviour("shards/SH41a")
@pytest.mark.parametrize("how", ["deleted", "written back"])
def test_after_a_map_of_a_later_version_a_fleet_goes_on(how, caplog):
    world = settled("a", "x")
    text = world.shards.text()
    world.rewrite('{"v": 2}')
    world.play(20)
    assert all(node.member.leaving and unready(node) and not node.names for node in world.nodes)
    assert not any(node.shards.awaits_takers() for node in world.nodes), "they can stop at once"
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 2, "said once by each"
    if how == "deleted":
        world.server.delete(MAP)
    else:
        world.rewrite(text)
    rests(world)


@pytest.mark.behaviour("shards/SH41a")
def test_a_map_without_its_label_is_followed_by_its_name():
    world = settled("a", "x")
    a, x = world.nodes
    before = world.shards.id
    edit(world, MAP, lambda lease: lease["metadata"].pop("labels"))
    edit(world, MAP, lambda lease: lease["spec"].update(holderIdentity="somebody", leaseDurationSeconds=1000))
    rests(world)
    world.play(CONFIG.lease_duration + 5, x)
    assert x.names == set(NAMES)
    rests(world)
    assert a.names
    assert world.server.get(MAP)["metadata"]["labels"] == {FLEET: "shop"}
    assert world.shards.id == before


def edit_something(world: World, choose: random.Random) -> None:
    """Edit the Lease of a member or the map as in the tests above."""
    changes: list[Callable[[dict[str, Any]], Any]] = [
        lambda lease: lease["metadata"].pop("labels", None),
        lambda lease: lease["metadata"].setdefault("labels", {}).update({FLEET: "shop", SHARDS: "leaving"}),
        lambda lease: lease["metadata"].pop("annotations", None),
        lambda lease: lease["spec"].pop("leaseDurationSeconds", None),
        lambda lease: lease["spec"].update(leaseTransitions=0),
        lambda lease: lease["metadata"].setdefault("annotations", {}).update({"ctrlhost.dev/shards": "{"}),
    ]
    if leases := sorted(world.server.leases):
        edit(world, choose.choice(leases), choose.choice(changes))


@pytest.mark.behaviour("shards/SH39a")
@pytest.mark.parametrize("seed", WALKS[::2])
def test_random_edits_and_faults_lead_to_no_two_owners_and_each_name_has_one_in_the_end(seed):
    storm(seed, edit_something)
