"""What no balance can change is in a metric and once in the log, with the real classes; a manual clock."""

from __future__ import annotations

import logging

import pytest

from ctrlhost.coordination.unbalanced import LASTING
from tests.coordination.fleet_world import NAMES, World
from tests.coordination.shard_simulator import fnv1a
from tests.coordination.test_shards import settled

HUGE = "team-7"


def weigh(world: World, name: str, weight: int) -> None:
    """Let one name have a weight, the others 10 each."""
    for node in world.nodes:
        plain = type(node.caches).contents.__get__(node.caches)
        node.caches.contents = lambda span, plain=plain: [
            (place, weight if place == fnv1a(name) else 10) for place, _ in plain(span)
        ]


def said(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if text in record.getMessage()]


@pytest.mark.behaviour("shards/SH17")
def test_a_namespace_with_half_of_all_is_named_once_by_its_owner(caplog):
    caplog.set_level(logging.WARNING)
    world = settled("a", "b", "c", "d")
    weigh(world, HUGE, 990)
    world.play(LASTING / 2, tick=4)
    assert said(caplog, "the share of a replica") == [], "what others have may not be known yet"
    world.play(2 * LASTING, tick=4)
    [owner] = [node for node in world.nodes if HUGE in node.names]
    assert 10 * (len(owner.names) - 1) <= 0.1 * 990, "it has given what it had besides"
    others = [len(node.names) for node in world.nodes if node is not owner]
    assert max(others) <= 1.15 * sum(others) / 3
    assert owner.shards.unbalanced.heaviest_share == pytest.approx(2.0, abs=0.02)
    assert all(node.shards.unbalanced.heaviest_share < 0.1 for node in world.nodes if node is not owner)
    [line] = said(caplog, "the share of a replica")
    assert f"namespace {HUGE} has 2.00 times the share of a replica" in line
    # Another one is said, too; the same one when it was light meanwhile.
    for name, weight, lines in ((HUGE, 1100, 1), ("team-8", 990, 2), ("team-8", 10, 2), ("team-8", 990, 3)):
        weigh(world, name, weight)
        world.play(3 * LASTING, tick=4)
        assert len(said(caplog, "the share of a replica")) == lines, (name, weight)


@pytest.mark.behaviour("shards/SH20")
def test_what_min_members_leaves_over_has_no_owner_and_is_said_until_it_changes(caplog):
    caplog.set_level(logging.INFO)
    world = World("a", min_members=3)
    for count in (1, 2, 3):
        world.play(60, tick=1)
        owned = len(world.owned())
        assert owned <= count * len(NAMES) / 3 + 1
        for node in world.nodes:
            assert node.shards.unowned == len(NAMES) - owned
            assert node.shards.unready() == ""
        lines = said(caplog, f"{count} of min_members = 3 replicas run")
        if count == 3:
            assert (owned, lines) == (len(NAMES), [])
        else:
            free = sum(entry.owner is None for entry in world.shards.lines["namespace"])
            assert len(lines) == count, "each replica says it once"
            assert f"{free} ranges with {len(NAMES) - owned} objects have no owner" in lines[-1]
        assert len(said(caplog, "all ranges have owners")) == (2 if count == 3 else 0)
        if count < 3:
            world.add("bc"[count - 1])


def test_what_a_dead_owner_has_is_unowned_until_another_has_it():
    world = settled("a", "x")
    a, x = world.nodes
    had = len(x.names)
    x.ownership.close()
    x.member.elector.release()
    a.watch()
    assert a.shards.unowned == had
    world.play(5, a)
    assert a.shards.unowned == 0
