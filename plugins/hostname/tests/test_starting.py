"""Starting on what exists, stopping, and the pages of a running host."""

from __future__ import annotations

import copy
import logging

import pytest

import ctrlhost

SHOP = "shop.example.com"


@pytest.mark.behaviour("hostname/79")
def test_an_empty_cluster_gives_an_empty_state(world):
    world.start()
    health = world.get("/health")
    assert (health.status, health.data) == (200, b"OK")
    assert world.get("/ignore-list").status == 204
    assert world.get("/managed-hostnames").status == 204
    world.tick(5, lambda: world.get("/managed-hostnames").status == 200)
    assert world.get("/managed-hostnames").data == b"{}\n"
    assert world.get("/ignore-list").status == 204
    assert world.routes() == set()


@pytest.mark.behaviour("hostname/26")
def test_the_map_is_rebuilt_from_the_routes(world, objects):
    world.lease(objects.first)
    world.create(objects.route(SHOP, objects.first))
    world.start()
    assert world.get("/managed-hostnames").status == 204
    world.tick(5, lambda: world.get("/managed-hostnames").status == 200)
    entry = world.managed()[SHOP]
    assert entry["LastUpdate"] == "0001-01-01 00:00:00 +0000 UTC"
    assert entry["ServiceName"] == "web"
    assert entry["Namespace"] == objects.first.namespace


@pytest.mark.behaviour("hostname/27")
def test_a_start_on_what_is_right_already_writes_nothing(world, objects):
    world.lease(objects.first)
    world.create(objects.route(SHOP, objects.first))
    world.declare(SHOP, objects.first)
    before = world.revision()
    world.start()
    assert world.metric("ctrlhost_hostname_reconcile_total", result="connected") >= 1
    assert world.revision() == before
    assert list(world.managed()) == [SHOP]


@pytest.mark.behaviour("hostname/30")
def test_a_route_whose_labels_name_no_lease_is_skipped(world, objects, caplog):
    world.lease(objects.first)
    for name, label, value in (("a", "dseq", None), ("b", "dseq", "abc"), ("c", "gseq", "4294967296")):
        route = objects.route(f"{name}.example", objects.first)
        route["metadata"]["labels"][f"akash.network/lease.id.{label}"] = value
        route["metadata"]["labels"] = {k: v for k, v in route["metadata"]["labels"].items() if v is not None}
        world.create(route)
    world.create(objects.route(SHOP, objects.first))
    with caplog.at_level(logging.WARNING):
        world.start()
    assert list(world.managed()) == [SHOP]
    assert len(world.routes()) == 4
    for text in (
        'kube: missing label: "akash.network/lease.id.dseq"',
        'kube: invalid label value: dseq "abc" not a uint',
        'kube: invalid label value: gseq "4294967296" not a uint',
    ):
        assert sum(text in record.getMessage() for record in caplog.records) == 1


def odd(route, kind):
    spec = route["spec"]
    match kind:
        case "no rules":
            spec["rules"] = []
            spec["defaultBackend"] = {"service": {"name": "web", "port": {"number": 80}}}
        case "two rules":
            spec["rules"].append({**copy.deepcopy(spec["rules"][0]), "host": "second.example"})
        case "two paths":
            paths = spec["rules"][0]["http"]["paths"]
            paths.append({**copy.deepcopy(paths[0]), "path": "/second"})
        case "no http":
            del spec["rules"][0]["http"]
            spec["defaultBackend"] = {"service": {"name": "web", "port": {"number": 80}}}
        case _:
            resource = {"apiGroup": "example.com", "kind": "Bucket", "name": "b"}
            spec["rules"][0]["http"]["paths"][0]["backend"] = {"resource": resource}
    return route


@pytest.mark.behaviour("hostname/31")
def test_odd_routes_are_skipped_and_counted(world, objects):
    world.lease(objects.first)
    kinds = ["no rules", "two rules", "two paths", "no http", "resource"]
    for kind in kinds:
        world.create(odd(objects.route(f"{kind.replace(' ', '-')}.example", objects.first), kind))
    world.create(objects.route(SHOP, objects.first))
    world.start()
    assert list(world.managed()) == [SHOP]
    assert world.metric("ctrlhost_hostname_invalid_objects_total", kind="Ingress", reason="connection") == len(kinds)
    assert len(world.routes()) == len(kinds) + 1


@pytest.mark.behaviour("hostname/63")
@pytest.mark.parametrize("gc_orphans", [True, False])
def test_a_route_whose_claim_went_while_the_controller_was_down_is_collected_after_the_grace(
    world, objects, gc_orphans
):
    world.lease(objects.first)
    world.create(objects.route(SHOP, objects.first))
    world.declare("other.example", objects.first)
    world.start(gc_orphans=gc_orphans)
    both = {(objects.first.namespace, SHOP), (objects.first.namespace, "other.example")}
    assert world.routes() == both
    world.after(59)
    assert world.routes() == both
    world.after(1)
    if gc_orphans:
        assert world.routes() == {(objects.first.namespace, "other.example")}
        assert list(world.managed()) == ["other.example"]
    else:
        world.after(3600)
        assert world.routes() == both
        world.release("other.example")
        world.idle()
        assert world.routes() == {(objects.first.namespace, SHOP)}


def test_a_route_that_is_claimed_within_the_grace_stays(world, objects):
    world.lease(objects.first)
    world.create(objects.route(SHOP, objects.first))
    world.declare("other.example", objects.first)
    world.start()
    world.after(59)
    before = world.route(SHOP, objects.first)
    world.declare(SHOP, objects.first)
    world.idle()
    world.after(3600)
    assert world.route(SHOP, objects.first) == before


@pytest.mark.behaviour("hostname/64")
def test_a_wrong_manifest_namespace_removes_nothing(world, objects, caplog):
    world.lease(objects.first)
    world.namespace("wrong")
    for number in range(5):
        world.create(objects.route(f"h{number}.example", objects.first))
        world.declare(f"h{number}.example", objects.first)
    before = world.revision()
    with caplog.at_level(logging.ERROR):
        world.start(k8s_manifest_ns="wrong")
        for _ in range(10):
            world.after(60)
    assert len(world.routes()) == 5
    assert world.revision() == before
    assert any("no ProviderHost does" in record.getMessage() for record in caplog.records)


@pytest.mark.behaviour("hostname/65")
def test_a_route_outside_of_its_leases_namespace_is_left_alone(world, objects):
    world.lease(objects.first)
    world.namespace(objects.second.namespace)
    stray = objects.route(SHOP, objects.first)
    stray["metadata"]["namespace"] = objects.second.namespace
    world.create(stray)
    world.declare("other.example", objects.first)
    world.start()
    world.after(60)
    world.after(60)
    assert (objects.second.namespace, SHOP) in world.routes()
    assert world.metric("ctrlhost_hostname_orphans_total") == 1


@pytest.mark.behaviour("hostname/80")
def test_a_server_that_is_away_costs_tries_and_nothing_else(world, objects):
    world.lease(objects.first)
    world.declare("up.example", objects.first)
    world.declare("missing.example", objects.second)
    world.start()
    away = ctrlhost.TransportError("connection refused")
    world.host.faults.next("watch", away, resource="ingresses", times=2)
    world.server.drop_watches()
    world.tick(1, lambda: world.host.faults.left() == 0)
    world.host.faults.next("create", away, resource="ingresses", times=3)
    world.declare(SHOP, objects.first)
    world.idle()
    for tries, delay in ((1, 3), (2, 6), (3, 12)):
        assert world.host.faults.left() == 3 - tries
        world.after(delay - 0.1)
        assert world.host.faults.left() == 3 - tries
        world.after(0.1)
    assert (objects.first.namespace, SHOP) in world.routes()
    assert sorted(world.managed()) == [SHOP, "up.example"]
    assert list(world.ignored()) == [str(objects.second)]


@pytest.mark.behaviour("hostname/81")
def test_the_timers_prune_the_ignore_list_and_refresh_the_pages(world, objects):
    world.start(ignore_list_entry_limit=1, web_refresh_interval="5s", prune_interval="10m", retry_delay="24h")
    for lease in (objects.first, objects.second, objects.third):
        world.declare(f"h{lease.dseq}.example", lease)
    world.idle()
    world.tick(5, lambda: world.get("/ignore-list").data.count(b"failure-count") == 3)
    assert len(world.state.ignore_list) == 3
    world.tick(600, lambda: len(world.state.ignore_list) == 1)
    world.tick(5, lambda: world.get("/ignore-list").data.count(b"failure-count") == 1)


@pytest.mark.behaviour("hostname/74")
def test_the_page_of_hostnames_is_an_empty_object_once_the_last_one_is_gone(world, objects):
    world.lease(objects.first)
    world.declare(SHOP, objects.first)
    world.start()
    assert list(world.managed()) == [SHOP]
    world.release(SHOP)
    world.idle()
    world.state.pages.refresh()
    answer = world.get("/managed-hostnames")
    assert (answer.status, answer.data) == (200, b"{}\n")
    assert world.get("/managed-hostnames", "HEAD").status == 405
    assert world.get("/managed-hostnames", "POST").status == 405


@pytest.mark.behaviour("hostname/82")
def test_stopping_removes_no_route(world, objects):
    world.lease(objects.first)
    for number in range(20):
        world.declare(f"h{number}.example", objects.first)
    world.start()
    before = world.revision()
    world.stop()
    assert len(world.routes()) == 20
    assert world.revision() == before
