"""Invalid claims, and several claims for one hostname, on the sandbox."""

from __future__ import annotations

import pytest

from plugins.hostname.tests.objects import IMPOSSIBLE, LONGEST, encode_address

SHOP = "shop.example.com"


def invalid(world, reason):
    return world.metric("ctrlhost_hostname_invalid_objects_total", kind="ProviderHost", reason=reason)


@pytest.mark.behaviour("hostname/32")
@pytest.mark.parametrize(
    "owner",
    [
        "akash1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelq",
        encode_address("cosmos", bytes(20)),
        "  ",
        "akash1Qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx",
    ],
)
def test_an_invalid_owner_touches_nothing(world, objects, owner):
    world.lease(objects.first)
    world.declare("other.example", objects.first)
    world.declare(SHOP, objects.first)
    world.start()
    live = world.route(SHOP, objects.first)
    assert live is not None
    world.change_host(SHOP, owner=owner)
    world.idle()
    assert invalid(world, "address") == 1
    assert world.route(SHOP, objects.first) == live
    assert world.ignored() == {}
    world.declare("third.example", objects.first, owner=owner)
    world.idle()
    assert invalid(world, "address") == 2
    world.release("third.example")
    world.idle()
    assert world.routes() == {(objects.first.namespace, "other.example"), (objects.first.namespace, SHOP)}


@pytest.mark.behaviour("hostname/32")
def test_an_invalid_claim_that_goes_leaves_a_route_that_it_never_had(world, objects):
    world.lease(objects.first)
    world.create(objects.route(SHOP, objects.first))
    world.declare(SHOP, objects.first, owner="nobody")
    world.start()
    live = world.route(SHOP, objects.first)
    world.release(SHOP)
    world.idle()
    assert world.route(SHOP, objects.first) == live


@pytest.mark.parametrize("hostname", IMPOSSIBLE)
def test_an_impossible_hostname_makes_no_call(world, objects, hostname):
    world.lease(objects.first)
    world.start()
    before = world.revision()
    world.declare(hostname, objects.first, name="declared")
    world.idle()
    assert invalid(world, "hostname") == 1
    assert world.revision() == before
    assert world.metric("provider_kube_calls", action="networking-ingresses-create", result="fail") == 0
    assert world.ignored() == {}
    world.touch("declared", "again")
    world.idle()
    assert invalid(world, "hostname") == 2


@pytest.mark.behaviour("hostname/37")
@pytest.mark.parametrize("hostname", [LONGEST, "a" * 64 + ".example.com"])
def test_a_long_hostname_is_a_valid_claim(world, objects, hostname):
    world.lease(objects.first)
    world.start()
    world.declare(hostname, objects.first, name="declared")
    world.idle()
    assert invalid(world, "hostname") == 0
    calls = [
        world.metric("provider_kube_calls", action="networking-ingresses-create", result=result)
        for result in ("success", "fail")
    ]
    assert sum(calls) == 1


@pytest.mark.behaviour("hostname/39")
@pytest.mark.parametrize("canonical_first", [True, False])
def test_the_claim_named_after_the_hostname_holds_it(world, objects, canonical_first):
    for lease in (objects.first, objects.second):
        world.lease(lease)
    declarations = [(objects.first, SHOP), (objects.second, "another")]
    world.start()
    for lease, name in declarations if canonical_first else reversed(declarations):
        world.declare(SHOP, lease, name=name)
        world.idle()
    assert world.routes() == {(objects.first.namespace, SHOP)}
    assert world.metric("ctrlhost_hostname_conflicts") == 1
    (event,) = world.host.events("lease")
    assert event["reason"] == "HostnameConflict"
    assert event["type"] == "Warning"
    assert event["regarding"]["name"] == "another"
    world.stop()
    world.start()
    assert world.routes() == {(objects.first.namespace, SHOP)}
    assert world.managed()[SHOP]["LeaseID"]["dseq"] == objects.first.dseq


@pytest.mark.behaviour("hostname/40")
def test_the_next_claim_gets_the_route_when_the_holder_goes(world, objects):
    for lease in (objects.first, objects.second):
        world.lease(lease)
    world.start()
    world.declare(SHOP, objects.first)
    world.declare(SHOP, objects.second, name="another")
    world.idle()
    assert world.routes() == {(objects.first.namespace, SHOP)}
    world.release(SHOP)
    world.idle()
    assert world.routes() == {(objects.second.namespace, SHOP)}
    assert world.metric("ctrlhost_hostname_conflicts") == 0


@pytest.mark.behaviour("hostname/41")
def test_the_claim_that_has_the_live_route_keeps_it_over_a_restart(world, objects):
    for lease in (objects.first, objects.second):
        world.lease(lease)
    world.start()
    world.declare(SHOP, objects.second, name="b")
    world.idle()
    assert world.routes() == {(objects.second.namespace, SHOP)}
    world.declare(SHOP, objects.first, name="a")
    world.idle()
    before = world.route(SHOP, objects.second)
    world.stop()
    world.start()
    assert world.routes() == {(objects.second.namespace, SHOP)}
    assert world.route(SHOP, objects.second) == before


@pytest.mark.behaviour("hostname/67")
def test_one_bad_host_does_not_hold_up_a_hundred_good_ones(world, objects):
    world.lease(objects.first)
    for number in range(50):
        world.declare(f"h{number}.example", objects.first)
    world.declare("bad.example", objects.first, owner="nobody")
    for number in range(50, 100):
        world.declare(f"h{number}.example", objects.first)
    world.start()
    assert world.routes() == {(objects.first.namespace, f"h{number}.example") for number in range(100)}
    assert invalid(world, "address") == 1
    assert len(world.managed()) == 100
