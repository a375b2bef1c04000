"""What fails, what is counted, and when it is tried again, on the sandbox."""

from __future__ import annotations

import pytest

import ctrlhost
from plugins.hostname.tests.objects import encode_address

SHOP = "shop.example.com"


def failures(world, lease):
    return world.ignored().get(str(lease), {}).get("failure-count", 0)


@pytest.mark.behaviour("hostname/6")
def test_a_missing_manifest_is_counted_and_shown(world, objects):
    world.start()
    world.declare(SHOP, objects.first)
    world.idle()
    entry = world.ignored()[str(objects.first)]
    assert entry["failure-count"] == 1
    assert entry["last-error"] == f"observation stopped: resource not found: manifest for {objects.first}"
    assert entry["last-error-type"] == "*fmt.wrapError"
    assert entry["hostnames"] == [SHOP]
    assert world.managed() == {}


@pytest.mark.behaviour("hostname/7")
def test_a_manifest_that_can_not_be_read_is_tried_for_ever_and_never_counted(world, objects):
    world.start(max_retry_delay="3s")
    # More than the tries, since the client itself asks again.
    world.host.faults.next("get", ctrlhost.TransportError("EOF"), resource="manifests", times=1000)
    world.declare(SHOP, objects.first)
    for failed in range(1, 101):
        world.idle()
        assert world.metric("ctrlhost_hostname_reconcile_total", result="error") == failed
        world.clock.advance(3)
    assert world.metric("ctrlhost_hostname_flagged_leases") == 0
    assert world.managed() == {}


@pytest.mark.behaviour("hostname/8")
def test_a_lease_without_manifest_fails_three_times_and_is_ignored_then(world, objects):
    world.start()
    world.declare(SHOP, objects.first)
    counts = []
    for turn in range(10):
        world.idle()
        counts.append(failures(world, objects.first))
        world.touch(SHOP, f"{turn}")
    assert counts == [1, 2, 3, 3, 3, 3, 3, 3, 3, 3]
    assert world.metric("ctrlhost_hostname_flagged_leases") == 1
    world.after(3600)
    assert failures(world, objects.first) == 3


def test_a_start_counts_a_failure_once(world, objects):
    world.declare(SHOP, objects.first)
    world.start()
    assert failures(world, objects.first) == 1


def test_a_resync_looks_at_every_hostname_again(world, objects):
    world.lease(objects.first)
    world.declare(SHOP, objects.first)
    world.start(resync_interval="30m")
    before = world.metric("ctrlhost_hostname_reconcile_total", result="connected")
    world.tick(1800, lambda: world.metric("ctrlhost_hostname_reconcile_total", result="connected") > before)


def test_a_counted_failure_is_tried_again_after_the_retry_delay_until_the_lease_is_flagged(world, objects):
    world.start()
    world.declare(SHOP, objects.first)
    world.idle()
    for count in (1, 2):
        assert failures(world, objects.first) == count
        world.after(2.9)
        assert failures(world, objects.first) == count
        world.after(0.1)
    assert failures(world, objects.first) == 3
    world.after(60)
    assert failures(world, objects.first) == 3


@pytest.mark.parametrize(
    ("services", "port", "text"),
    [
        pytest.param(None, 70000, "service expose for {} - web - 70000", marks=pytest.mark.behaviour("hostname/42")),
        pytest.param(None, 0, "service expose for {} - web - 0", marks=pytest.mark.behaviour("hostname/42")),
        pytest.param(None, 9100, "service expose for {} - web - 9100", marks=pytest.mark.behaviour("hostname/44")),
        pytest.param(
            [{"name": "web", "count": 0, "expose": [{"port": 80, "global": True}]}],
            80,
            "service for {} - web",
            marks=pytest.mark.behaviour("hostname/45"),
        ),
    ],
)
def test_what_the_manifest_does_not_have_is_not_found_and_counted(world, objects, services, port, text):
    world.lease(objects.first, services)
    world.start()
    world.declare(SHOP, objects.first, port=port)
    world.idle()
    entry = world.ignored()[str(objects.first)]
    assert entry["last-error"] == "observation stopped: resource not found: " + text.format(objects.first)
    assert world.routes() == set()


@pytest.mark.behaviour("hostname/43")
def test_an_expose_that_names_no_external_port_is_reached_on_its_own(world, objects):
    world.lease(objects.first, [objects.service({"port": 8081, "global": True})])
    world.start()
    world.declare(SHOP, objects.first, port=8081)
    world.idle()
    assert world.routes() == {(objects.first.namespace, SHOP)}


@pytest.mark.behaviour("hostname/46")
@pytest.mark.parametrize("port", [70000, -1])
def test_a_manifest_that_can_not_be_decoded_parks_the_host_until_it_changes(world, objects, port):
    world.lease(objects.first, [objects.service({"port": port, "global": True})])
    world.start()
    world.declare(SHOP, objects.first)
    world.idle()
    world.after(600)
    assert world.routes() == set()
    assert world.ignored() == {}
    assert world.metric("ctrlhost_hostname_invalid_objects_total", kind="Manifest", reason="decode") == 1
    assert world.metric("ctrlhost_hostname_reconcile_total", result="error") == 1
    world.change_manifest(objects.first, objects.web_services())
    world.idle()
    assert world.routes() == {(objects.first.namespace, SHOP)}


@pytest.mark.behaviour("hostname/34")
def test_an_owner_that_no_label_can_hold_is_refused_once_and_parked(world, objects):
    lease = objects.lease(7001, owner=encode_address("akash", bytes(32)))
    assert len(lease.owner) == 64
    world.lease(lease)
    world.start()
    declared = objects.provider_host(SHOP, lease)
    del declared["metadata"]["labels"]
    world.create(declared)
    world.idle()
    world.after(600)
    assert world.metric("provider_kube_calls", action="networking-ingresses-create", result="fail") == 1
    assert world.routes() == set()
    assert world.ignored() == {}


@pytest.mark.behaviour("hostname/47")
def test_a_manifest_that_comes_late_connects_its_hostname_at_once(world, objects):
    world.namespace(objects.first.namespace)
    world.start()
    world.declare(SHOP, objects.first)
    world.idle()
    assert failures(world, objects.first) == 1
    world.clock.advance(2)
    world.create(objects.manifest(objects.first))
    world.idle()
    assert world.routes() == {(objects.first.namespace, SHOP)}


def flag(world, lease, hostname=SHOP):
    """Declare a hostname of a lease without Manifest, and let it fail until the lease is flagged."""
    world.declare(hostname, lease)
    world.idle()
    world.after(3)
    world.after(3)
    assert world.metric("ctrlhost_hostname_flagged_leases") == 1


@pytest.mark.behaviour("hostname/48")
@pytest.mark.parametrize("forgive", ["manifest-change", "never"])
def test_a_manifest_forgives_a_flagged_lease_unless_that_is_off(world, objects, forgive):
    world.namespace(objects.first.namespace)
    world.start(ignore_list_forgive=forgive)
    flag(world, objects.first)
    world.create(objects.manifest(objects.first))
    world.idle()
    if forgive == "never":
        assert world.routes() == set()
        assert failures(world, objects.first) == 3
    else:
        assert world.routes() == {(objects.first.namespace, SHOP)}
        assert world.ignored() == {}
        assert world.get("/ignore-list").data == b"{}\n"


def flag_with_route(world, lease):
    """Flag a lease whose hostname is connected, by taking its Manifest away."""
    world.lease(lease)
    world.declare(SHOP, lease)
    world.start()
    world.client.delete("akash.network/v2beta2", "Manifest", lease.namespace, "lease")
    world.idle()
    world.after(3)
    world.after(3)
    assert world.metric("ctrlhost_hostname_flagged_leases") == 1
    assert world.routes() == {(lease.namespace, SHOP)}


@pytest.mark.behaviour("hostname/49")
def test_a_released_hostname_of_a_flagged_lease_loses_its_route(world, objects):
    flag_with_route(world, objects.first)
    world.release(SHOP)
    world.idle()
    assert world.routes() == set()
    assert world.managed() == {}


@pytest.mark.behaviour("hostname/50")
def test_a_change_of_a_flagged_lease_is_ignored(world, objects):
    flag_with_route(world, objects.first)
    before = world.route(SHOP, objects.first)
    world.change_host(SHOP, service_name="db")
    world.idle()
    assert world.route(SHOP, objects.first) == before
    assert failures(world, objects.first) == 3


@pytest.mark.behaviour("hostname/61")
def test_a_terminating_namespace_is_tried_with_growing_delays_until_the_claim_goes(world, objects):
    world.lease(objects.first)
    world.start()
    terminating = ctrlhost.Forbidden(
        f'ingresses.networking.k8s.io "{SHOP}" is forbidden: unable to create new content in namespace '
        f"{objects.first.namespace} because it is being terminated",
        causes=[{"reason": "NamespaceTerminating", "field": "metadata.namespace"}],
    )
    world.host.faults.next("create", terminating, resource="ingresses", times=100)
    world.declare(SHOP, objects.first)
    world.idle()
    for tries, delay in ((1, 3), (2, 6), (3, 12)):
        assert world.metric("ctrlhost_hostname_reconcile_total", result="error") == tries
        world.after(delay - 0.1)
        assert world.metric("ctrlhost_hostname_reconcile_total", result="error") == tries
        world.after(0.1)
    assert world.ignored() == {}
    left = world.host.faults.left()
    world.release(SHOP)
    world.idle()
    world.after(600)
    assert world.host.faults.left() == left


@pytest.mark.behaviour("hostname/62")
def test_a_missing_namespace_is_counted_and_flags_the_lease(world, objects):
    world.create(objects.manifest(objects.first))
    world.start()
    flag(world, objects.first)
    entry = world.ignored()[str(objects.first)]
    assert entry["failure-count"] == 3
    assert entry["last-error"] == f'namespaces "{objects.first.namespace}" not found'
    assert entry["last-error-type"] == "*errors.StatusError"


@pytest.mark.behaviour("hostname/77")
def test_two_hostnames_of_a_lease_share_its_count(world, objects):
    world.start()
    world.declare("a.example", objects.first)
    world.declare("b.example", objects.first)
    world.idle()
    assert failures(world, objects.first) == 2
    world.after(3)
    entry = world.ignored()[str(objects.first)]
    assert entry["failure-count"] == 3
    assert entry["hostnames"] == ["a.example", "b.example"]
    assert world.metric("ctrlhost_hostname_flagged_leases") == 1
    world.after(60)
    assert failures(world, objects.first) == 3


def test_a_server_that_asks_for_time_gets_it(world, objects):
    world.lease(objects.first)
    world.start()
    world.host.faults.next("create", ctrlhost.Forbidden("no", retry_after=7.0), resource="ingresses")
    world.declare(SHOP, objects.first)
    world.idle()
    world.after(6.9)
    assert world.routes() == set()
    world.after(0.1)
    assert world.routes() == {(objects.first.namespace, SHOP)}


def test_registry_credentials_of_a_manifest_are_not_kept(world, objects):
    service = {**objects.web_services()[1], "credentials": {"host": "registry.example", "password": "hunter2"}}
    world.lease(objects.first, [service])
    world.declare(SHOP, objects.first)
    world.start()
    assert world.routes() == {(objects.first.namespace, SHOP)}
    (informer,) = [one for one in world.host.host.factory.informers() if one.kind == "Manifest"]
    (cached,) = informer.lister.list()
    assert sorted(cached["spec"]["group"]["services"][0]) == ["count", "expose", "name"]
    assert b"hunter2" not in cached.to_json()
