"""Writes need leadership, and a stop removes nothing."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from ctrlhost.cache import Object

A, B, C = [{"ip": "203.0.113.1"}], [{"ip": "203.0.113.2"}], [{"hostname": "lb-3.example.net"}]
INGRESS = ("networking.k8s.io/v1", "Ingress")
OURS = "example.com/controller"


def test_the_writer_needs_to_lead_and_discovery_does_not(cluster: Any) -> None:
    replica = cluster.start()
    needs = {name: controller.options.needs_leader for name, controller in replica.host.controllers.items()}
    assert needs == {"ingress-status/ingress-status": True, "ingress-status/address": False}


def traced() -> int:
    """Return the traced bytes of the plugin and of what it calls; a host may still import pages beside it."""
    beside = [tracemalloc.Filter(False, pattern) for pattern in ("<frozen importlib*", "*/ctrlhost/status/*")]
    statistics = tracemalloc.take_snapshot().filter_traces(beside).statistics("filename")
    return sum(statistic.size for statistic in statistics)


@pytest.mark.behaviour("ingress-status/R16")
def test_a_follower_writes_nothing_keeps_nothing_and_begins_with_everything(cluster: Any) -> None:
    cluster.service(A)
    follower = cluster.start(leads=False)
    for number in range(20):
        cluster.ingress(f"i{number}")
    cluster.idle()
    discovery = follower.plugin.discovery
    (ref,) = discovery._addresses
    cached = follower.host.controllers["ingress-status/address"].informers[0].lister.get("envoy", "projectcontour")
    ingress = follower.host.controllers["ingress-status/ingress-status"].informers[0].lister.list()[0]
    queue = follower.host.controllers["ingress-status/ingress-status"].queue
    updated = cluster.client.get("v1", "Service", "envoy", "projectcontour")
    updated["status"]["loadBalancer"]["ingress"] = B
    versions = (Object(updated), cached)
    follower.forget()
    tracemalloc.start()
    for service in versions:
        discovery.observe(ref, service)
    before = traced()
    for number in range(10_000):
        discovery.observe(ref, versions[number % 2])
        assert follower.plugin.writer.wakes(None, ingress) is False
    grown = traced() - before
    tracemalloc.stop()
    assert grown < 64 * 1024
    assert len(queue) == 0
    assert follower.sent == []
    follower.elect()
    cluster.idle()
    assert len(follower.writes()) == 20
    assert all(cluster.status(f"i{number}") == A for number in range(20))


@pytest.mark.behaviour("ingress-status/R17")
def test_a_deposed_leader_stops_at_once_and_its_successor_finishes(cluster: Any) -> None:
    cluster.service(A)
    for number in range(20):
        cluster.ingress(f"i{number}")
    first = cluster.start(leads=False, status_workers=1)
    second = cluster.start(leads=False, status_workers=1)

    def deposed() -> None:
        # The eighth is refused when it would be sent.
        if len(first.writes()) == 8:
            first.leads = False

    first.at_write = deposed
    first.elect()
    first.host.wait_for(lambda: not first.plugin.desired.elected)
    cluster.after(10, step=1)
    assert len(first.writes()) == 8
    assert second.writes() == []
    second.elect()
    cluster.idle()
    assert len(second.writes()) == 13
    assert all(cluster.status(f"i{number}") == A for number in range(20))
    assert None not in first.written() + second.written()


def test_a_short_loss_of_leadership_loses_no_write(cluster: Any) -> None:
    cluster.service(A)
    leader = cluster.start()
    leader.leads = False
    cluster.ingress("web")
    leader.leads = True
    leader.host.wait_for(lambda: cluster.status("web") == A)


@pytest.mark.behaviour("ingress-status/R18")
@pytest.mark.parametrize("on_empty", ["keep", "clear"])
def test_a_stop_removes_nothing(cluster: Any, on_empty: str) -> None:
    cluster.service(A)
    for number in range(30):
        cluster.ingress(f"i{number}", status=A if number % 2 else None)
    leader = cluster.start(on_empty=on_empty, status_qps=1, status_burst=5)
    assert leader.host.host.stop(10.0)
    assert None not in leader.written()
    assert all(cluster.status(f"i{number}") in (A, None) for number in range(30))
    assert all(cluster.status(f"i{number}") == A for number in range(1, 30, 2))


@pytest.mark.behaviour("ingress-status/R20")
def test_without_an_address_old_statuses_stay_and_new_ingresses_wait(cluster: Any) -> None:
    cluster.service(A)
    cluster.ingress("old")
    leader = cluster.start()
    cluster.unserve()
    cluster.idle()
    cluster.after(600, step=60)
    cluster.ingress("new")
    cluster.idle()
    assert cluster.status("old") == A
    assert cluster.status("new") is None
    assert len(leader.writes()) == 1
    cluster.service(A)
    cluster.idle()
    cluster.after(2)
    assert cluster.status("old") == cluster.status("new") == A
    assert [write.name for write in leader.writes()] == ["old", "new"]


@pytest.mark.behaviour("ingress-status/R21")
def test_an_address_that_comes_back_in_time_is_not_cleared(cluster: Any) -> None:
    cluster.service(A)
    cluster.ingress("web")
    leader = cluster.start(on_empty="clear")
    cluster.service([])
    cluster.idle()
    cluster.after(240, step=30)
    cluster.service(A)
    cluster.idle()
    cluster.after(900, step=60)
    assert cluster.status("web") == A
    assert leader.written() == [A]


@pytest.mark.behaviour("ingress-status/R22")
def test_after_the_grace_only_what_this_process_published_is_cleared(cluster: Any) -> None:
    cluster.service(A)
    cluster.ingress("web")
    uid = cluster.ingress("by-hand")["metadata"]["uid"]
    assert uid
    leader = cluster.start(on_empty="clear")
    cluster.service([])
    cluster.idle()
    cluster.after(3, step=1)
    cluster.edit_status("by-hand", C)
    cluster.ingress("foreign", field="nginx", status=A)
    cluster.idle()
    leader.forget()
    cluster.after(290, step=10)
    assert leader.writes() == []
    cluster.after(20, step=5)
    (sent,) = leader.writes()
    assert sent.name == "web"
    assert sent.body["status"] == {"loadBalancer": {"ingress": None}}
    assert not cluster.status("web")
    assert cluster.status("by-hand") == C
    assert cluster.status("foreign") == A
    cluster.service(B)
    cluster.idle()
    cluster.after(2)
    assert cluster.status("web") == cluster.status("by-hand") == B


@pytest.mark.behaviour("ingress-status/R23")
def test_a_process_that_saw_no_address_clears_nothing(cluster: Any) -> None:
    cluster.service(None)
    cluster.ingress("web", status=A)
    leader = cluster.start(on_empty="clear")
    cluster.after(3600, step=120)
    assert leader.writes() == []
    assert cluster.status("web") == A


def test_the_ingresses_of_a_class_object_follow_its_creation_and_deletion(cluster: Any) -> None:
    cluster.service(A)
    cluster.ingress("web", field="ext")
    leader = cluster.start(class_mode="controller", ingress_class_controller=OURS)
    assert leader.writes() == []
    spec = {"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "ext"}}
    cluster.client.create({**spec, "spec": {"controller": OURS}})
    cluster.idle()
    assert cluster.status("web") == A
    cluster.client.delete("networking.k8s.io/v1", "IngressClass", "ext")
    cluster.idle()
    cluster.service(B)
    cluster.idle()
    cluster.after(2)
    assert cluster.status("web") == A
    assert len(leader.writes()) == 1
