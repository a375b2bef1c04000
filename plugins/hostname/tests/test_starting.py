"""Starting with existing routes, stopping, and the pages of a running host."""

from __future__ import annotations

import logging

import pytest

import ctrlhost
from ctrlhost.testing import Fault
from plugins.hostname.tests.objects import SHOP
from tests.support.waiting import eventually


@pytest.mark.behaviour("hostname/79")
def test_an_empty_cluster_gives_an_empty_state(cluster):
    cluster.start()
    health = cluster.get("/health")
    assert (health.status, health.data) == (200, b"OK")
    assert cluster.get("/ignore-list").status == 204
    assert cluster.get("/managed-hostnames").status == 204
    cluster.tick(5, lambda: cluster.get("/managed-hostnames").status == 200)
    assert cluster.get("/managed-hostnames").data == b"{}\n"
    assert cluster.get("/ignore-list").status == 204
    assert cluster.routes() == set()


@pytest.mark.behaviour("hostname/26")
def test_the_map_is_rebuilt_from_the_routes(cluster, objects):
    cluster.lease(objects.first)
    cluster.create(objects.route(SHOP, objects.first))
    cluster.start()
    assert cluster.get("/managed-hostnames").status == 204
    cluster.tick(5, lambda: cluster.get("/managed-hostnames").status == 200)
    entry = cluster.managed()[SHOP]
    assert entry["LastUpdate"] == "0001-01-01 00:00:00 +0000 UTC"
    assert entry["ServiceName"] == "web"
    assert entry["Namespace"] == objects.first.namespace


@pytest.mark.behaviour("hostname/27")
def test_a_start_on_correct_routes_writes_nothing(connected):
    connected.stop()
    before = len(connected.server.audit)
    connected.start()
    assert connected.metric("ctrlhost_hostname_reconcile_total", result="connected") >= 1
    assert list(connected.managed()) == [SHOP]
    # Before its start the host applies its CRDs and rights; nothing else is written: no route, no status, no Event.
    written = {record.resource for record in connected.server.audit[before:]}
    rights = {"serviceaccounts", "clusterroles", "clusterrolebindings", "roles", "rolebindings"}
    assert written <= {"customresourcedefinitions", *rights}


@pytest.mark.behaviour("hostname/30")
def test_a_route_whose_labels_name_no_lease_is_skipped(cluster, objects, caplog):
    cluster.lease(objects.first)
    for name, label, value in (("a", "dseq", None), ("b", "dseq", "abc"), ("c", "gseq", "4294967296")):
        route = objects.route(f"{name}.example", objects.first)
        route["metadata"]["labels"][f"akash.network/lease.id.{label}"] = value
        route["metadata"]["labels"] = {k: v for k, v in route["metadata"]["labels"].items() if v is not None}
        cluster.create(route)
    cluster.create(objects.route(SHOP, objects.first))
    with caplog.at_level(logging.WARNING):
        cluster.start()
    assert list(cluster.managed()) == [SHOP]
    assert len(cluster.routes()) == 4
    for text in (
        'kube: missing label: "akash.network/lease.id.dseq"',
        'kube: invalid label value: dseq "abc" not a uint',
        'kube: invalid label value: gseq "4294967296" not a uint',
    ):
        assert sum(text in record.getMessage() for record in caplog.records) == 1


@pytest.mark.behaviour("hostname/31")
def test_invalid_routes_are_skipped_and_counted(cluster, objects):
    cluster.lease(objects.first)
    (rule,) = objects.route(SHOP, objects.first)["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    resource = {"resource": {"apiGroup": "example.com", "kind": "Bucket", "name": "b"}}
    specs = [
        {"rules": [], "defaultBackend": path["backend"]},
        {"rules": [rule, {**rule, "host": "second.example"}]},
        {"rules": [{"host": SHOP}], "defaultBackend": path["backend"]},
        {"rules": [{**rule, "http": {"paths": [path, {**path, "path": "/second"}]}}]},
        {"rules": [{**rule, "http": {"paths": [{**path, "backend": resource}]}}]},
    ]
    for number, spec in enumerate(specs):
        cluster.create({**objects.route(f"invalid-{number}.example", objects.first), "spec": spec})
    cluster.create(objects.route(SHOP, objects.first))
    cluster.start()
    assert list(cluster.managed()) == [SHOP]
    assert cluster.metric("ctrlhost_hostname_invalid_objects_total", kind="Ingress", reason="connection") == 5
    assert len(cluster.routes()) == 6


@pytest.mark.behaviour("hostname/63")
@pytest.mark.parametrize("gc_orphans", [True, False])
def test_a_route_whose_claim_was_deleted_during_downtime_is_collected_after_the_grace(cluster, objects, gc_orphans):
    cluster.lease(objects.first)
    cluster.create(objects.route(SHOP, objects.first))
    cluster.declare("other.example", objects.first)
    cluster.start(gc_orphans=gc_orphans)
    both = {(objects.first.namespace, SHOP), (objects.first.namespace, "other.example")}
    assert cluster.routes() == both
    cluster.after(59)
    assert cluster.routes() == both
    cluster.after(1)
    if gc_orphans:
        assert cluster.routes() == {(objects.first.namespace, "other.example")}
        assert list(cluster.managed()) == ["other.example"]
    else:
        cluster.after(3600)
        assert cluster.routes() == both
        cluster.release("other.example")
        cluster.idle()
        assert cluster.routes() == {(objects.first.namespace, SHOP)}


def test_a_route_that_is_claimed_within_the_grace_is_kept(cluster, objects):
    cluster.lease(objects.first)
    cluster.create(objects.route(SHOP, objects.first))
    cluster.declare("other.example", objects.first)
    cluster.start()
    cluster.after(59)
    before = cluster.route(SHOP, objects.first)
    cluster.declare(SHOP, objects.first)
    cluster.idle()
    cluster.after(3600)
    assert cluster.route(SHOP, objects.first)["metadata"]["uid"] == before["metadata"]["uid"]


@pytest.mark.behaviour("hostname/64")
def test_a_wrong_manifest_namespace_removes_nothing(cluster, objects, caplog):
    cluster.lease(objects.first)
    cluster.namespace("wrong")
    for number in range(5):
        cluster.create(objects.route(f"h{number}.example", objects.first))
        cluster.declare(f"h{number}.example", objects.first)
    before = cluster.revision()
    with caplog.at_level(logging.ERROR):
        cluster.start(k8s_manifest_ns="wrong")
        for _ in range(10):
            cluster.after(60)
    assert len(cluster.routes()) == 5
    assert cluster.revision() == before
    assert any("no ProviderHost does" in record.getMessage() for record in caplog.records)


@pytest.mark.behaviour("hostname/65")
def test_a_route_outside_its_leases_namespace_is_kept(cluster, objects):
    cluster.lease(objects.first)
    cluster.namespace(objects.second.namespace)
    stray = objects.route(SHOP, objects.first)
    stray["metadata"]["namespace"] = objects.second.namespace
    cluster.create(stray)
    cluster.declare("other.example", objects.first)
    cluster.start()
    cluster.after(60)
    cluster.after(60)
    assert (objects.second.namespace, SHOP) in cluster.routes()
    assert cluster.metric("ctrlhost_hostname_orphans_total") == 1


@pytest.mark.behaviour("hostname/80")
def test_an_unreachable_server_costs_only_retries(cluster, objects):
    cluster.lease(objects.first)
    cluster.declare("up.example", objects.first)
    cluster.declare("missing.example", objects.second)
    cluster.start()
    away = ctrlhost.TransportError("connection refused")
    cluster.host.faults.next("watch", away, resource="ingresses", times=2)
    cluster.server.drop_watches()
    cluster.tick(1, lambda: cluster.host.faults.left() == 0)
    cluster.host.faults.next("apply", away, resource="ingresses", times=3)
    cluster.declare(SHOP, objects.first)
    cluster.idle()
    for tries, delay in ((1, 3), (2, 6), (3, 12)):
        assert cluster.host.faults.left() == 3 - tries
        cluster.after(delay - 0.1)
        assert cluster.host.faults.left() == 3 - tries
        cluster.after(0.1)
    assert (objects.first.namespace, SHOP) in cluster.routes()
    assert sorted(cluster.managed()) == [SHOP, "up.example"]
    assert list(cluster.ignored()) == [str(objects.second)]


@pytest.mark.behaviour("hostname/81")
def test_the_timers_prune_the_ignore_list_and_refresh_the_pages(cluster, objects):
    cluster.start(ignore_list_entry_limit=1, web_refresh_interval="5s", prune_interval="10m", retry_delay="24h")
    for lease in (objects.first, objects.second, objects.third):
        cluster.declare(f"h{lease.dseq}.example", lease)
    cluster.idle()
    cluster.tick(5, lambda: cluster.get("/ignore-list").data.count(b"failure-count") == 3)
    assert len(cluster.state.ignore_list) == 3
    cluster.tick(600, lambda: len(cluster.state.ignore_list) == 1)
    cluster.tick(5, lambda: cluster.get("/ignore-list").data.count(b"failure-count") == 1)


@pytest.mark.behaviour("hostname/74")
def test_the_page_of_hostnames_is_an_empty_object_without_hostnames(connected):
    assert list(connected.managed()) == [SHOP]
    connected.release(SHOP)
    connected.idle()
    connected.state.pages.refresh()
    answer = connected.get("/managed-hostnames")
    assert (answer.status, answer.data) == (200, b"{}\n")
    assert [connected.get("/managed-hostnames", method).status for method in ("HEAD", "POST")] == [405, 405]


@pytest.mark.behaviour("hostname/82")
def test_stopping_removes_no_route(cluster, objects):
    cluster.lease(objects.first)
    for number in range(20):
        cluster.declare(f"h{number}.example", objects.first)
    cluster.start()
    before = cluster.revision()
    cluster.stop()
    assert len(cluster.routes()) == 20
    assert cluster.revision() == before


@pytest.mark.behaviour("hostname/82")
@pytest.mark.behaviour("findings/FT1")
@pytest.mark.parametrize("what", ["apply", "delete"])
def test_stopping_lets_the_key_in_flight_finish(cluster, objects, faults, what):
    cluster.lease(objects.first)
    if what == "delete":
        cluster.declare(SHOP, objects.first)
    proxy = faults(cluster.server)
    cluster.start(through=proxy)
    # The plugin's write of the route is in flight when the host stops.
    proxy.next(Fault.delay(1.0), verb=what, resource="ingresses")
    if what == "apply":
        cluster.declare(SHOP, objects.first)
    else:
        cluster.release(SHOP)
    eventually(lambda: proxy.left() == 0)
    cluster.stop()
    assert len(cluster.routes()) == (1 if what == "apply" else 0)
