"""Services that never rest, and other controllers that want the same statuses."""

from __future__ import annotations

from typing import Any

A, B = [{"ip": "203.0.113.1"}], [{"ip": "203.0.113.2"}]
THEIRS = [{"ip": "198.51.100.1"}]
NAMES = ("one", "two", "three")


def test_a_service_that_flaps_ten_times_a_second_costs_a_write_in_five_seconds(world: Any) -> None:
    world.service(A)
    for name in NAMES:
        world.ingress(name, status=A)
    leader = world.start()
    for _ in range(100):
        for addresses in (B, A):
            world.service(addresses)
            world.idle()
            world.after(0.1)
    # A change that is back within the hold-off is none, so what is left to tell is little.
    assert len(leader.writes()) <= len(NAMES) * (20 / 5 + 1)
    world.service(B)
    world.idle()
    world.after(1.1)
    assert [world.status(name) for name in NAMES] == [B] * len(NAMES)
    leader.forget()
    world.after(60, step=10)
    assert leader.writes() == []


def test_a_service_that_flaps_between_an_address_and_none_removes_nothing(world: Any) -> None:
    world.service(A)
    world.ingress("one")
    leader = world.start()
    for _ in range(50):
        for addresses in ([], A):
            world.service(addresses)
            world.idle()
            world.after(0.1)
    assert leader.written() == [A]
    assert world.status("one") == A


def test_two_controllers_that_want_the_same_ingresses_leave_each_other_alone_before_long(world: Any) -> None:
    for name in NAMES:
        world.ingress(name)
    ours = world.start(ingress_status_address="203.0.113.1")
    theirs = world.start(ingress_status_address="198.51.100.1", settle=False)
    theirs.host.wait_for(lambda: theirs.plugin.desired.elected)
    world.idle()
    # Each mends what the other did five times, and one of both gives up first.
    assert max(len(ours.writes(name)) for name in NAMES) <= 7
    assert max(len(theirs.writes(name)) for name in NAMES) <= 7
    contested = [one.metric("ctrlhost_ingress_status_contested_total") for one in (ours, theirs)]
    assert sum(contested) >= len(NAMES)
    assert all(world.status(name) in (A, THEIRS) for name in NAMES)
    reasons = [event["reason"] for event in world.client.list("events.k8s.io/v1", "Event", "default")]
    assert "IngressStatusContested" in reasons
    # A new Ingress of somebody else's class is no part of it, and one of ours is served as ever.
    ours.forget()
    theirs.forget()
    world.ingress("foreign", field="nginx")
    for _ in range(60):
        world.after(60)
    assert world.status("foreign") is None
    # Pauses of 1, 2, 4, … 30 minutes leave a few rounds in an hour.
    for one in (ours, theirs):
        assert max(len(one.writes(name)) for name in NAMES) <= 10
