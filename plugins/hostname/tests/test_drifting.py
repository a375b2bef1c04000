"""Routes that another client changed, and broken watches, on the sandbox."""

from __future__ import annotations

import threading

import pytest

import ctrlhost
from ctrlhost.testing import Fault, NotIdle
from plugins.hostname.tests.objects import SHOP, Objects

PREFIX = "nginx.ingress.kubernetes.io/"


def content(route):
    return route["metadata"]["labels"], route["metadata"]["annotations"], route["spec"]


def updates(cluster, created=1):
    return cluster.metric("provider_kube_calls", action="networking-ingresses-apply", result="success") - created


@pytest.mark.behaviour("hostname/51")
def test_a_deleted_route_is_created_again_unchanged(connected, objects):
    before = connected.route(SHOP, objects.first)
    connected.client.delete("networking.k8s.io/v1", "Ingress", SHOP, objects.first.namespace)
    connected.idle()
    after = connected.route(SHOP, objects.first)
    assert content(after) == content(before)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]


@pytest.mark.behaviour("hostname/52")
@pytest.mark.parametrize(
    "patch",
    [
        {"metadata": {"annotations": {f"{PREFIX}proxy-body-size": "1"}}},
        {"metadata": {"annotations": {f"{PREFIX}proxy-body-size": None}}},
        {"spec": {"rules": [{"host": "elsewhere.example"}]}},
        {"spec": {"ingressClassName": "nginx"}},
        {"spec": {"tls": [{"hosts": [SHOP]}]}},
        {"spec": Objects.route(SHOP, Objects.first, "db")["spec"]},
    ],
)
def test_an_edit_of_our_own_parts_is_reverted(connected, objects, patch):
    before = connected.route(SHOP, objects.first)
    connected.edit_route(SHOP, objects.first, patch)
    connected.idle()
    assert content(connected.route(SHOP, objects.first)) == content(before)
    assert updates(connected) == 1


@pytest.mark.behaviour("hostname/53")
def test_a_foreign_annotation_is_kept(connected, objects):
    # The row drops it at the next write, which replaced the whole route; now routes are applied server-side.
    connected.edit_route(SHOP, objects.first, {"metadata": {"annotations": {"foreign": "yes"}}})
    connected.idle()
    assert updates(connected) == 0
    assert connected.route(SHOP, objects.first)["metadata"]["annotations"]["foreign"] == "yes"
    connected.change_manifest(objects.first, objects.web_services({"max_body_size": 5}))
    connected.idle()
    assert connected.route(SHOP, objects.first)["metadata"]["annotations"]["foreign"] == "yes"
    assert updates(connected) == 1


@pytest.mark.behaviour("hostname/54")
@pytest.mark.parametrize("label", ["akash.network", "akash.network/lease.id.dseq"])
def test_a_removed_label_is_restored(connected, objects, label):
    before = connected.route(SHOP, objects.first)
    connected.edit_route(SHOP, objects.first, {"metadata": {"labels": {label: None}}})
    connected.idle()
    after = connected.route(SHOP, objects.first)
    assert content(after) == content(before)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert updates(connected) == 1
    assert connected.ignored() == {}


@pytest.mark.behaviour("hostname/68")
@pytest.mark.parametrize(
    "error",
    [ctrlhost.Expired("too old resource version"), ctrlhost.TransportError("connection reset")],
    ids=["410", "cut"],
)
def test_a_broken_watch_is_restored_without_a_write(connected, objects, error):
    before, asleep = connected.revision(), connected.clock.waiters()
    connected.host.faults.next("watch", error, resource="ingresses", times=1)
    connected.server.drop_watches()
    # The reflector waits before its retry; time that passes before it waits has no effect.
    connected.host.wait_for(lambda: connected.host.faults.left() == 0 and connected.clock.waiters() > asleep)
    connected.clock.advance(60)
    connected.idle()
    assert connected.revision() == before
    connected.edit_route(SHOP, objects.first, {"spec": {"ingressClassName": "nginx"}})
    connected.idle()
    assert updates(connected) == 1


def work_of(host):
    """Return what keeps the host from being idle."""
    try:
        host.run_until_idle(timeout=0)
    except NotIdle as error:
        return str(error)
    return ""


def test_a_claim_that_is_deleted_while_its_route_is_written_leaves_nothing(cluster, objects, monkeypatch):
    cluster.lease(objects.first)
    cluster.start()
    written, released = threading.Event(), threading.Event()
    connected = cluster.state.connected

    def note_later(*arguments, **options):
        written.set()
        assert released.wait(30)
        connected(*arguments, **options)

    monkeypatch.setattr(cluster.state, "connected", note_later)
    cluster.declare(SHOP, objects.first)
    assert written.wait(30)
    cluster.release(SHOP)
    cluster.host.wait_for(
        lambda: not cluster.state.hosts.lister.list() and "release: 0 queued, 1 active" in work_of(cluster.host)
    )
    released.set()
    cluster.idle()
    assert cluster.routes() == set()
    assert cluster.managed() == {}


@pytest.mark.behaviour("hostname/68")
@pytest.mark.behaviour("findings/FT2")
def test_an_event_that_is_delivered_twice_causes_no_write(cluster, objects, faults):
    cluster.lease(objects.first)
    cluster.declare(SHOP, objects.first)
    proxy = faults(cluster.server)
    for resource in ("ingresses", "providerhosts", "manifests"):
        proxy.next(Fault.duplicate(after=1), verb="watch", resource=resource)
    cluster.start(through=proxy)
    cluster.host.wait_for(lambda: proxy.left() == 0)
    for turn in range(3):
        cluster.touch(SHOP, f"{turn}")
        cluster.idle()
    cluster.declare("second.example", objects.first)
    cluster.change_manifest(objects.first, objects.web_services())
    cluster.idle()
    assert proxy.counts == {"duplicate": 3}
    assert cluster.routes() == {(objects.first.namespace, name) for name in (SHOP, "second.example")}
    assert updates(cluster, created=2) == 0
    assert cluster.metric("provider_kube_calls", action="networking-ingresses-apply", result="fail") == 0
