"""Members of a fleet on Leases in memory, with a manual clock: who lives, who is over, who is fenced."""

from __future__ import annotations

from typing import Any

import pytest

from ctrlhost.config.settings import LeaderElectionConfig
from ctrlhost.coordination.fleet import FLEET, Fleet
from ctrlhost.coordination.membership import Membership
from ctrlhost.coordination.shard_map import Incarnation
from ctrlhost.testing import ManualClock
from tests.coordination.lease_server import LeaseClient, LeaseServer

CONFIG = LeaderElectionConfig(lease_duration=15, renew_deadline=10, retry_period=2)


class Replica:
    """A member that watches the others; `attempt` is what its elector does on its thread."""

    def __init__(self, server: LeaseServer, clock: ManualClock, name: str) -> None:
        self.client: Any = LeaseClient(server, name)
        self.terms: list[int | None] = []
        self.clock = clock
        self.member = Membership(
            self.client, "default", "shop", clock, CONFIG, changed=lambda: self.terms.append(self.member.tenure.term)
        )
        self.fleet = Fleet(self.client, "default", "shop", clock, CONFIG, self.member.name)

    def attempt(self) -> None:
        self.member.elector.attempt()
        self.client.deliver(self.fleet.seen, self.fleet.removed)

    @property
    def incarnation(self) -> Incarnation:
        assert self.member.incarnation
        return self.member.incarnation

    def fence(self) -> list[bool]:
        return [self.fleet.fence(seen, self.member.lasted) for seen in self.fleet.silent()]


class World:
    def __init__(self) -> None:
        self.server, self.clock = LeaseServer(), ManualClock()
        self.a, self.b = (Replica(self.server, self.clock, name) for name in "ab")
        self.replicas = [self.a, self.b]
        self.play(0)

    def play(self, seconds: float, *replicas: Replica) -> None:
        """Let these replicas renew every two seconds, as long as the others rest."""
        for replica in replicas or self.replicas:
            replica.attempt()
        for _ in range(round(seconds / 2)):
            self.clock.advance(2)
            for replica in replicas or self.replicas:
                replica.attempt()
        for replica in replicas or self.replicas:
            replica.client.deliver(replica.fleet.seen, replica.fleet.removed)

    def lease(self, replica: Replica) -> dict[str, Any]:
        return self.server.leases[replica.member.name]


@pytest.fixture
def world() -> World:
    return World()


def test_each_start_is_a_member_with_a_lease_of_its_own(world):
    names = {world.a.member.name, world.b.member.name}
    assert len(names) == 2
    assert all(name.startswith("shop-member-") and len(name) == 20 for name in names)
    lease = world.lease(world.a)
    assert lease["metadata"]["labels"] == {FLEET: "shop"}
    assert world.a.incarnation == Incarnation(world.a.member.name, lease["metadata"]["uid"], 0)
    world.play(0)
    for replica in world.replicas:
        assert [member.incarnation.lease for member in replica.fleet.members()] == sorted(names)
        assert not any(member.leaving for member in replica.fleet.members())
        assert not any(replica.fleet.over(member.incarnation) for member in replica.fleet.members())


def test_a_member_says_that_it_leaves_and_which_map_it_has_accepted(world):
    world.a.member.leave()
    world.a.member.accept("id-1")
    world.play(0)
    world.play(0)
    flags = {member.incarnation.lease: member.leaving for member in world.b.fleet.members()}
    assert flags == {world.a.member.name: True, world.b.member.name: False}
    assert not world.b.fleet.accepted("id-1")
    world.b.member.accept("id-1")
    world.play(0)
    assert world.a.fleet.accepted("id-1")
    world.a.member.leave(False)
    world.play(0)
    assert not any(member.leaving for member in world.b.fleet.members())
    assert world.lease(world.a)["metadata"]["labels"] == {FLEET: "shop"}


def test_a_silent_member_is_over_when_it_is_fenced_and_not_before(world):
    world.play(20)
    before = world.a.incarnation
    world.play(14, world.b)
    assert world.b.fleet.silent() == []
    world.play(2, world.b)
    assert [seen.name for seen in world.b.fleet.silent()] == [world.a.member.name]
    assert not world.b.fleet.over(before), "silence ends nothing"
    assert world.a.member.tenure.term is None, "its deadline has passed"
    assert world.b.fence() == [True]
    assert world.b.fleet.over(before)
    assert [member.incarnation for member in world.b.fleet.members()] == [world.b.incarnation]
    assert world.lease(world.a)["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize("answer", ["lost", "unanswered"])
def test_a_fence_whose_answer_is_lost_counts_when_it_is_seen(world, answer):
    world.play(20)
    before = world.a.incarnation
    world.play(16, world.b)
    world.b.client.fault = lambda verb, name: answer
    assert world.b.fence() == [False]
    assert world.b.fleet.over(before) is (answer == "unanswered"), "it reads the Lease after the failure"
    world.b.client.fault = lambda verb, name: None
    world.b.fence()
    assert world.b.fleet.over(before)


def test_a_fenced_member_joins_again_at_once_as_another_incarnation(world):
    world.play(20)
    before = world.a.incarnation
    world.play(16, world.b)
    world.b.fence()
    world.a.terms.clear()
    world.a.attempt()
    assert world.a.incarnation == before._replace(transitions=1)
    assert world.a.terms == [None, 2]
    world.play(0)
    assert world.b.fleet.over(before)
    assert not world.b.fleet.over(world.a.incarnation)
    assert world.a.incarnation in [member.incarnation for member in world.b.fleet.members()]


def test_an_incarnation_that_ends_while_it_is_read_is_not_joined_with_the_next_term(world, monkeypatch):
    world.play(20)
    before = world.a.incarnation
    assert world.a.member.standing() == (before, world.a.member.tenure.current)

    def fenced_meanwhile(member: Membership) -> Incarnation:
        world.play(16, world.b)
        world.b.fence()
        world.a.attempt()
        return before

    monkeypatch.setattr(Membership, "incarnation", property(fenced_meanwhile))
    assert world.a.member.standing() is None
    monkeypatch.undo()
    assert world.a.member.standing() == (before._replace(transitions=1), world.a.member.tenure.current)
    world.clock.advance(12)
    assert world.a.member.standing() is None, "lapsed"


def test_a_term_that_lapsed_and_goes_on_has_the_same_incarnation(world):
    world.play(4)
    before, term = world.a.incarnation, world.a.member.tenure.term
    world.clock.advance(12)
    assert world.a.member.tenure.term is None
    assert world.a.member.lasted == 0
    world.play(0)
    assert world.a.incarnation == before
    assert world.a.member.tenure.term == term + 1
    assert world.a.member.lasted == 0
    world.play(6)
    assert world.a.member.lasted == 6


@pytest.mark.behaviour("shards/SH36")
def test_a_member_whose_watch_has_stopped_fences_nobody(world):
    world.play(20)
    world.b.client.watching = False
    world.play(60)
    assert [seen.name for seen in world.b.fleet.silent()] == [world.a.member.name]
    conflicts = len(world.server.conflicts)
    assert world.b.fence() == [False]
    assert world.server.conflicts[conflicts:] == [("b", world.a.member.name)]
    assert not world.b.fleet.over(world.a.incarnation)
    assert world.b.fleet.silent() == [], "it has read the Lease, and counts anew"
    assert world.a.member.tenure.term == 1
    world.play(4)
    assert world.a.incarnation.transitions == 0


def test_nobody_is_fenced_after_the_api_server_was_away(world):
    world.play(20)
    for replica in world.replicas:
        replica.client.away = True
    world.play(60)
    assert all(replica.fleet.silent() and replica.member.tenure.term is None for replica in world.replicas)
    before = [replica.incarnation for replica in world.replicas]
    assert [replica.fence() for replica in world.replicas] == [[False]] * 2
    for replica in world.replicas:
        replica.client.away = False
    world.a.attempt()
    assert world.a.member.tenure.term == 2
    assert world.a.fence() in ([], [False]), "its own term has begun just now"
    assert ("a", "update", world.b.member.name) not in world.server.writes
    world.play(2)
    assert [replica.incarnation for replica in world.replicas] == before
    assert all(replica.member.tenure.term for replica in world.replicas)
    assert all(replica.fleet.silent() == [] for replica in world.replicas)


def test_a_released_lease_ends_its_incarnation_at_once(world):
    before = world.a.incarnation
    world.a.member.elector.withdraw()
    world.a.member.elector.release()
    world.play(0, world.b)
    assert world.b.fleet.over(before)


def test_a_deleted_lease_ends_its_incarnation_after_its_duration(world):
    world.play(4)
    before = world.a.incarnation
    world.server.delete(world.a.member.name)
    world.play(0, world.b)
    assert world.b.fleet.incomplete
    world.b.fleet.relist()
    assert not world.b.fleet.incomplete
    assert not world.b.fleet.over(before)
    world.a.attempt()
    world.clock.advance(2)
    world.a.attempt()
    assert world.a.incarnation.uid != before.uid
    assert world.a.incarnation.transitions == 0
    world.play(12)
    assert not world.b.fleet.over(before)
    assert not world.b.fleet.over(world.a.incarnation)
    world.play(2)
    assert world.b.fleet.over(before)
    assert not world.b.fleet.over(world.a.incarnation)


def test_a_lease_that_was_never_seen_is_gone_only_by_a_list_made_after_the_map_named_it(world):
    fleet, gone = world.b.fleet, Incarnation("shop-member-00000000", "uid-gone", 0)
    world.b.client.watching = False
    newcomer = Replica(world.server, world.clock, "c")
    newcomer.attempt()
    assert not fleet.incomplete
    assert not fleet.over(gone)
    assert fleet.incomplete
    served = world.b.client.list

    def named_meanwhile(*arguments: Any, **options: Any) -> Any:
        leases = [lease for lease in served(*arguments, **options) if lease["metadata"]["name"] != newcomer.member.name]
        assert not fleet.over(newcomer.incarnation)
        return leases

    world.b.client.list = named_meanwhile
    fleet.relist()
    assert fleet.incomplete, "a list from before a map named it shows nothing"
    world.b.client.list = served
    fleet.relist()
    assert not fleet.incomplete
    assert not fleet.over(gone)
    world.clock.advance(CONFIG.lease_duration)
    assert fleet.over(gone)
    assert not fleet.over(newcomer.incarnation)


def test_an_older_look_at_a_lease_changes_nothing(world):
    world.play(4)
    older = {**world.lease(world.a)}
    world.play(20)
    silent_since = world.b.fleet._seen[world.a.incarnation.uid].since
    world.b.fleet.seen(older)
    world.b.fleet.seen(world.lease(world.a))
    assert world.b.fleet._seen[world.a.incarnation.uid].since == silent_since
    later = Incarnation(world.a.member.name, world.a.incarnation.uid, 1)
    assert not world.b.fleet.over(later), "fewer transitions say nothing"


@pytest.mark.behaviour("shards/SH45")
def test_leases_of_ended_members_are_deleted_after_an_hour_but_not_those_in_the_map(world):
    ended = [Replica(world.server, world.clock, f"ended-{number}") for number in range(100)]
    for replica in ended:
        replica.attempt()
        replica.member.elector.release()
    named = ended[0].incarnation
    world.play(0)
    world.clock.advance(3598)
    world.play(0)
    assert world.b.fleet.left([named]) == []
    world.play(2)
    left = world.b.fleet.left([named])
    assert len(left) == 99
    for seen in left:
        world.b.fleet.clean(seen)
    assert set(world.server.leases) == {world.a.member.name, world.b.member.name, named.lease}
    assert world.b.fleet.left([named]) == []


def test_a_lease_that_somebody_took_again_is_not_deleted(world):
    world.a.member.elector.release()
    world.clock.advance(1)
    world.b.client.deliver(world.b.fleet.seen, world.b.fleet.removed)
    world.clock.advance(3600)
    [left] = world.b.fleet.left([])
    world.b.client.watching = False
    world.a.attempt()
    world.b.fleet.clean(left)
    assert world.lease(world.a)["spec"]["holderIdentity"]
    assert world.b.fleet.left([]) == []
