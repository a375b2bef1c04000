"""Invalid claims, and several claims for one hostname, on the sandbox."""

from __future__ import annotations

import pytest

from plugins.hostname.tests.objects import IMPOSSIBLE, LONGEST, SHOP, encode_address
from tests.support.waiting import eventually


def invalid(cluster, reason):
    return cluster.metric("ctrlhost_hostname_invalid_objects_total", kind="ProviderHost", reason=reason)


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
def test_an_invalid_owner_changes_nothing(connected, objects, owner):
    live = connected.route(SHOP, objects.first)
    connected.change_host(SHOP, owner=owner)
    connected.declare("third.example", objects.first, owner=owner)
    connected.idle()
    assert invalid(connected, "address") == 2
    assert connected.route(SHOP, objects.first) == live
    assert connected.ignored() == {}
    connected.release("third.example")
    connected.idle()
    assert connected.routes() == {(objects.first.namespace, SHOP)}


@pytest.mark.behaviour("hostname/32")
def test_deleting_an_invalid_claim_keeps_a_route_that_it_never_had(cluster, objects):
    cluster.lease(objects.first)
    cluster.create(objects.route(SHOP, objects.first))
    cluster.declare(SHOP, objects.first, owner="nobody")
    cluster.start()
    live = cluster.route(SHOP, objects.first)
    cluster.release(SHOP)
    cluster.idle()
    assert cluster.route(SHOP, objects.first) == live


@pytest.mark.parametrize("hostname", IMPOSSIBLE)
def test_an_impossible_hostname_makes_no_call(cluster, objects, hostname):
    cluster.lease(objects.first)
    cluster.start()
    before = cluster.revision()
    cluster.declare(hostname, objects.first, name="declared")
    cluster.idle()
    assert invalid(cluster, "hostname") == 1
    assert cluster.revision() == before
    assert cluster.metric("provider_kube_calls", action="networking-ingresses-apply", result="fail") == 0
    assert cluster.ignored() == {}


@pytest.mark.behaviour("hostname/37")
@pytest.mark.parametrize("hostname", [LONGEST, "a" * 64 + ".example.com"])
def test_a_long_hostname_is_a_valid_claim(cluster, objects, hostname):
    cluster.lease(objects.first)
    cluster.start()
    cluster.declare(hostname, objects.first, name="declared")
    cluster.idle()
    assert invalid(cluster, "hostname") == 0
    assert cluster.metric("provider_kube_calls", action="networking-ingresses-apply", result="success") == 1


@pytest.mark.behaviour("hostname/39")
@pytest.mark.parametrize("canonical_first", [True, False])
def test_the_claim_named_after_the_hostname_holds_it(cluster, objects, canonical_first):
    for lease in (objects.first, objects.second):
        cluster.lease(lease)
    declarations = [(objects.first, SHOP), (objects.second, "another")]
    cluster.start()
    for lease, name in declarations if canonical_first else reversed(declarations):
        cluster.declare(SHOP, lease, name=name)
        cluster.idle()
    assert cluster.routes() == {(objects.first.namespace, SHOP)}
    assert cluster.metric("ctrlhost_hostname_conflicts") == 1
    (event,) = [event for event in cluster.host.events("lease") if event["reason"] == "HostnameConflict"]
    assert event["type"] == "Warning"
    assert event["regarding"]["name"] == "another"
    cluster.stop()
    cluster.start()
    assert cluster.routes() == {(objects.first.namespace, SHOP)}
    assert cluster.managed()[SHOP]["LeaseID"]["dseq"] == objects.first.dseq


def test_runs_for_one_hostname_exclude_each_other(connected, objects):
    with connected.state.exclusive("third.example"):
        connected.declare("third.example", objects.first)
        controller = connected.host.controllers["hostname/hostname"]
        eventually(lambda: controller.status().active)
        assert "third.example" not in {name for _, name in connected.routes()}
    connected.idle()
    assert (objects.first.namespace, "third.example") in connected.routes()


@pytest.mark.behaviour("hostname/40")
def test_the_next_claim_gets_the_route_when_the_holder_is_deleted(connected, objects):
    connected.declare(SHOP, objects.second, name="another")
    connected.idle()
    assert connected.routes() == {(objects.first.namespace, SHOP)}
    assert connected.metric("ctrlhost_hostname_conflicts") == 1
    connected.release(SHOP)
    connected.idle()
    assert connected.routes() == {(objects.second.namespace, SHOP)}
    assert connected.metric("ctrlhost_hostname_conflicts") == 0


@pytest.mark.behaviour("hostname/41")
def test_the_claim_with_the_live_route_keeps_it_across_a_restart(cluster, objects):
    for lease in (objects.first, objects.second):
        cluster.lease(lease)
    cluster.start()
    cluster.declare(SHOP, objects.second, name="b")
    cluster.idle()
    assert cluster.routes() == {(objects.second.namespace, SHOP)}
    cluster.declare(SHOP, objects.first, name="a")
    cluster.idle()
    before = cluster.route(SHOP, objects.second)
    cluster.stop()
    cluster.start()
    assert cluster.routes() == {(objects.second.namespace, SHOP)}
    assert cluster.route(SHOP, objects.second) == before


@pytest.mark.behaviour("hostname/67")
def test_one_invalid_host_does_not_block_a_hundred_valid_ones(cluster, objects):
    cluster.lease(objects.first)
    for number in range(50):
        cluster.declare(f"h{number}.example", objects.first)
    cluster.declare("bad.example", objects.first, owner="nobody")
    for number in range(50, 100):
        cluster.declare(f"h{number}.example", objects.first)
    cluster.start()
    assert cluster.routes() == {(objects.first.namespace, f"h{number}.example") for number in range(100)}
    assert invalid(cluster, "address") == 1
    assert len(cluster.managed()) == 100
