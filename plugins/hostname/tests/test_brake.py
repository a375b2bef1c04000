"""The mass-removal brake."""

from __future__ import annotations

import pytest
from ctrlhost_hostname.routes import CONFIRM

from plugins.hostname.tests.cluster import INGRESS
from tests.support.waiting import eventually

NAMES = [f"h{number}.example" for number in range(10)]
PROVIDER_HOSTS = "providerhosts.akash.network"
CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")


@pytest.fixture
def ten(cluster, objects):
    """A running cluster with ten hostnames."""
    cluster.lease(objects.first)
    for name in NAMES:
        cluster.declare(name, objects.first)
    return cluster.start()


def connected(cluster):
    return sorted(name for _, name in cluster.routes())


def held(cluster):
    return cluster.metric("ctrlhost_hostname_held_removals")


def release(cluster, *names):
    for name in names:
        cluster.release(name)
        cluster.idle()


def mass_removals(cluster):
    return [event for event in cluster.host.events("lease") if event["reason"] == "MassRemoval"]


@pytest.mark.behaviour("findings/FP4")
def test_removals_stop_when_over_a_fifth_of_the_hosts_vanish_within_a_minute_until_they_return(ten, objects):
    release(ten, *NAMES[:2])
    assert connected(ten) == NAMES[2:]
    assert held(ten) == 0
    release(ten, *NAMES[2:5])
    assert connected(ten) == NAMES[2:]
    assert held(ten) == 3
    (event,) = mass_removals(ten)
    assert (event["type"], event["regarding"]["kind"], event["regarding"]["name"]) == (
        "Warning",
        "ProviderHost",
        NAMES[2],
    )
    assert "3 of 10 ProviderHosts vanished within a minute" in event["note"]
    assert CONFIRM in event["note"]
    page = {"engaged": True, "hosts-before": 10, "hosts": 5, "held": NAMES[2:5]}
    assert ten.page("/removal-brake") == page
    before = ten.revision()
    for _ in range(3):
        ten.after(1800)
    assert (held(ten), ten.revision()) == (3, before)
    for name in NAMES[:5]:
        ten.declare(name, objects.first)
    ten.idle()
    assert connected(ten) == NAMES
    assert held(ten) == 0
    assert ten.page("/removal-brake") == {"engaged": False, "hosts-before": 0, "hosts": 10, "held": []}
    ten.after(61)
    release(ten, NAMES[0])
    assert connected(ten) == NAMES[1:]


@pytest.mark.behaviour("findings/FP4")
def test_a_host_that_did_not_return_loses_its_route_when_the_others_are_back(ten, objects):
    release(ten, *NAMES[:4])
    assert held(ten) == 2
    for name in NAMES[:3]:
        ten.declare(name, objects.first)
    ten.idle()
    ten.after(60)
    assert connected(ten) == [*NAMES[:3], *NAMES[4:]]
    assert held(ten) == 0


@pytest.mark.behaviour("findings/FP4")
def test_the_routes_stay_when_the_crd_is_deleted(ten, objects):
    crd = ten.client.get(*CRD, PROVIDER_HOSTS)
    ten.client.delete(*CRD, PROVIDER_HOSTS)
    ten.host.wait_for(lambda: held(ten) >= 8)
    ten.idle()
    kept = connected(ten)
    assert len(kept) >= 8, "a fifth may be removed before the others vanish"
    assert len(mass_removals(ten)) == 1
    assert ten.page("/removal-brake")["held"] == kept
    fresh = {key: crd["metadata"][key] for key in ("name", "annotations")}
    ten.install({"apiVersion": crd["apiVersion"], "kind": crd["kind"], "metadata": fresh, "spec": crd["spec"]})
    for name in NAMES:
        ten.declare(name, objects.first)
    ten.tick(5, lambda: held(ten) == 0)
    ten.idle()
    assert connected(ten) == NAMES


@pytest.mark.behaviour("findings/FP4")
def test_a_confirmed_removal_is_carried_out(ten, objects):
    release(ten, *NAMES[:5])
    assert held(ten) == 3
    confirm = {"metadata": {"annotations": {CONFIRM: "true"}}}
    ten.edit_route(NAMES[2], objects.first, confirm)
    ten.idle()
    assert connected(ten) == NAMES[3:]
    assert held(ten) == 2
    for name in NAMES[3:5]:
        ten.edit_route(name, objects.first, confirm)
    ten.idle()
    assert connected(ten) == NAMES[5:]
    assert held(ten) == 0
    assert ten.page("/removal-brake")["engaged"] is False


@pytest.mark.behaviour("findings/FP4")
def test_a_connected_route_keeps_no_confirmation(ten, objects):
    ten.edit_route(NAMES[0], objects.first, {"metadata": {"annotations": {CONFIRM: "true"}}})
    ten.idle()
    assert CONFIRM not in ten.route(NAMES[0], objects.first)["metadata"]["annotations"]


@pytest.mark.behaviour("findings/FP4")
def test_a_restart_does_not_confirm(ten):
    release(ten, *NAMES[:5])
    kept = connected(ten)
    assert held(ten) == 3
    ten.stop()
    ten.start()
    for _ in range(3):
        ten.after(60)
    assert connected(ten) == kept
    assert held(ten) == 3


@pytest.mark.behaviour("findings/FP4")
def test_a_brake_of_zero_is_off(ten):
    ten.stop()
    ten.start(removal_brake_percent=0)
    release(ten, *NAMES)
    assert connected(ten) == []
    assert held(ten) == 0
    assert mass_removals(ten) == []
    assert ten.page("/removal-brake") is None


def test_hosts_that_go_one_by_one_are_no_mass_removal(ten):
    for name in NAMES:
        release(ten, name)
        ten.after(31)
    assert connected(ten) == []


def test_a_route_that_was_removed_by_hand_is_not_held_any_longer(ten, objects):
    release(ten, *NAMES[:3])
    assert held(ten) == 1
    ten.client.delete(*INGRESS, NAMES[2], objects.first.namespace)
    eventually(lambda: held(ten) == 0)
    assert NAMES[2] not in ten.managed()
