"""Failures, their counts and their retries, on the sandbox."""

from __future__ import annotations

import pytest

import ctrlhost
from plugins.hostname.tests.objects import SHOP, encode_address


def failures(cluster, lease):
    return cluster.ignored().get(str(lease), {}).get("failure-count", 0)


def reconciles(cluster, result):
    return cluster.metric("ctrlhost_hostname_reconcile_total", result=result)


def flagged(cluster):
    return cluster.metric("ctrlhost_hostname_flagged_leases")


@pytest.fixture
def waiting(cluster, objects):
    """A running cluster with a hostname of a lease that has no Manifest."""
    cluster.namespace(objects.first.namespace)
    cluster.declare(SHOP, objects.first)
    return cluster.start()


def flag(cluster):
    """Fail a hostname that has failed once until its lease is flagged."""
    cluster.after(3)
    cluster.after(3)
    assert flagged(cluster) == 1


@pytest.mark.behaviour("hostname/6")
def test_a_missing_manifest_is_counted_and_shown(waiting, objects):
    entry = waiting.ignored()[str(objects.first)]
    assert entry["failure-count"] == 1
    assert entry["last-error"] == f"observation stopped: resource not found: manifest for {objects.first}"
    assert entry["last-error-type"] == "*fmt.wrapError"
    assert entry["hostnames"] == [SHOP]
    assert waiting.managed() == {}


@pytest.mark.behaviour("hostname/7")
def test_an_unreadable_manifest_is_retried_for_ever_and_never_counted(cluster, objects, caplog):
    cluster.start(max_retry_delay="3s")
    # More than the retries, since the client itself retries too.
    cluster.host.faults.next("get", ctrlhost.TransportError("EOF"), resource="manifests", times=1000)
    cluster.declare(SHOP, objects.first)
    for failed in range(1, 101):
        cluster.idle()
        assert reconciles(cluster, "error") == failed
        cluster.clock.advance(3)
    failed = [record.getMessage() for record in caplog.records if "reconcile failed" in record.getMessage()]
    assert len(failed) >= 100
    assert all("EOF" in text for text in failed)
    assert flagged(cluster) == 0
    assert cluster.ignored() == cluster.managed() == {}


@pytest.mark.behaviour("hostname/8")
def test_a_lease_without_manifest_is_ignored_after_three_failures(waiting, objects):
    counts = []
    for turn in range(10):
        waiting.idle()
        counts.append(failures(waiting, objects.first))
        waiting.touch(SHOP, f"{turn}")
    assert counts == [1, 2, 3, 3, 3, 3, 3, 3, 3, 3]
    assert flagged(waiting) == 1
    waiting.after(3600)
    assert failures(waiting, objects.first) == 3


@pytest.mark.parametrize(
    ("interval", "steps"),
    [
        pytest.param("30m", ((1799, 0), (1, 1), (1799, 1)), marks=pytest.mark.behaviour("findings/FP1")),
        # A round begins after 60 s, and its requests are spread over a tenth of that.
        pytest.param("60s", ((59, 0), (7, 1), (53, 1)), marks=pytest.mark.behaviour("authoring/AU20")),
    ],
)
def test_the_first_resync_comes_after_one_interval_and_reconciles_every_hostname_once(
    cluster, objects, interval, steps
):
    cluster.lease(objects.first)
    for number in range(20):
        cluster.declare(f"h{number}.example", objects.first)
    cluster.start(resync_interval=interval)
    before = reconciles(cluster, "connected")
    for seconds, rounds in steps:
        cluster.after(seconds)
        assert reconciles(cluster, "connected") == before + 20 * rounds


def test_a_counted_failure_is_retried_after_the_retry_delay_until_the_lease_is_flagged(waiting, objects):
    for count in (1, 2):
        assert failures(waiting, objects.first) == count
        waiting.after(2.9)
        assert failures(waiting, objects.first) == count
        waiting.after(0.1)
    assert failures(waiting, objects.first) == 3
    waiting.after(60)
    assert failures(waiting, objects.first) == 3


@pytest.mark.behaviour("findings3/NC18")
@pytest.mark.parametrize(
    ("services", "port", "text"),
    [
        pytest.param(None, 70000, "service expose for {} - web - 70000", marks=pytest.mark.behaviour("hostname/42")),
        pytest.param(None, 0, "service expose for {} - web - 0", marks=pytest.mark.behaviour("hostname/42")),
        pytest.param(None, 9100, "service expose for {} - web - 9100", marks=pytest.mark.behaviour("hostname/44")),
        pytest.param([{"name": "web"}], 80, "service for {} - web", marks=pytest.mark.behaviour("hostname/45")),
    ],
)
def test_a_service_or_port_missing_from_the_manifest_is_counted(cluster, objects, services, port, text):
    cluster.lease(objects.first, services)
    cluster.declare(SHOP, objects.first, port=port)
    cluster.start()
    entry = cluster.ignored()[str(objects.first)]
    assert entry["last-error"] == "observation stopped: resource not found: " + text.format(objects.first)
    assert cluster.routes() == set()
    # Counted: what is connected before the first lists is tried once more after them.
    assert failures(cluster, objects.first) in (1, 2)
    cluster.after(6)
    assert (failures(cluster, objects.first), flagged(cluster)) == (3, 1)
    assert cluster.routes() == set()


@pytest.mark.behaviour("hostname/43")
def test_an_expose_without_external_port_is_connected_on_its_own_port(cluster, objects):
    cluster.lease(objects.first, [objects.service({"port": 8081, "global": True})])
    cluster.declare(SHOP, objects.first, port=8081)
    cluster.start()
    assert cluster.routes() == {(objects.first.namespace, SHOP)}


@pytest.mark.behaviour("hostname/46")
@pytest.mark.parametrize("port", [70000, -1])
def test_an_undecodable_manifest_parks_the_host_until_it_changes(cluster, objects, port):
    cluster.lease(objects.first, [objects.service({"port": port, "global": True})])
    cluster.declare(SHOP, objects.first)
    cluster.start()
    cluster.after(600)
    assert cluster.routes() == set()
    assert cluster.ignored() == {}
    assert cluster.metric("ctrlhost_hostname_invalid_objects_total", kind="Manifest", reason="decode") == 1
    assert reconciles(cluster, "error") >= 1
    before = reconciles(cluster, "error")
    cluster.after(600)
    assert reconciles(cluster, "error") == before
    cluster.change_manifest(objects.first, objects.web_services())
    cluster.idle()
    assert cluster.routes() == {(objects.first.namespace, SHOP)}


@pytest.mark.behaviour("hostname/34")
def test_an_owner_too_long_for_a_label_is_rejected_once_and_parked(cluster, objects):
    lease = objects.lease(7001, owner=encode_address("akash", bytes(32)))
    assert len(lease.owner) == 64
    cluster.lease(lease)
    cluster.start()
    declared = objects.provider_host(SHOP, lease)
    del declared["metadata"]["labels"]
    cluster.create(declared)
    cluster.idle()
    cluster.after(600)
    assert cluster.metric("provider_kube_calls", action="networking-ingresses-apply", result="fail") == 1
    assert cluster.routes() == set()
    assert cluster.ignored() == {}


@pytest.mark.behaviour("hostname/47")
def test_a_late_manifest_connects_its_hostname_at_once(waiting, objects):
    assert failures(waiting, objects.first) == 1
    waiting.clock.advance(2)
    waiting.create(objects.manifest(objects.first))
    waiting.idle()
    assert waiting.routes() == {(objects.first.namespace, SHOP)}


@pytest.mark.behaviour("hostname/48")
@pytest.mark.parametrize("forgive", ["manifest-change", "never"])
def test_a_new_manifest_forgives_a_flagged_lease_unless_disabled(cluster, objects, forgive):
    cluster.namespace(objects.first.namespace)
    cluster.declare(SHOP, objects.first)
    cluster.start(ignore_list_forgive=forgive)
    flag(cluster)
    cluster.create(objects.manifest(objects.first))
    cluster.idle()
    if forgive == "never":
        assert cluster.routes() == set()
        assert failures(cluster, objects.first) == 3
    else:
        assert cluster.routes() == {(objects.first.namespace, SHOP)}
        assert cluster.ignored() == {}
        assert cluster.get("/ignore-list").data == b"{}\n"


@pytest.mark.behaviour("hostname/49")
@pytest.mark.behaviour("hostname/50")
def test_a_change_of_a_flagged_lease_is_ignored_and_a_release_is_not(connected, objects):
    connected.client.delete("akash.network/v2beta2", "Manifest", objects.first.namespace, "lease")
    connected.idle()
    flag(connected)
    before = connected.route(SHOP, objects.first)
    connected.change_host(SHOP, service_name="db")
    connected.idle()
    assert connected.route(SHOP, objects.first) == before
    assert failures(connected, objects.first) == 3
    connected.release(SHOP)
    connected.idle()
    assert connected.routes() == set()
    assert connected.managed() == {}


@pytest.mark.behaviour("hostname/61")
def test_a_terminating_namespace_is_retried_with_growing_delays_until_the_claim_is_deleted(cluster, objects):
    cluster.lease(objects.first)
    cluster.start()
    terminating = ctrlhost.Forbidden(
        f'ingresses.networking.k8s.io "{SHOP}" is forbidden: unable to create new content in namespace '
        f"{objects.first.namespace} because it is being terminated",
        causes=[{"reason": "NamespaceTerminating", "field": "metadata.namespace"}],
    )
    cluster.host.faults.next("apply", terminating, resource="ingresses", times=100)
    cluster.declare(SHOP, objects.first)
    cluster.idle()
    for tries, delay in ((1, 3), (2, 6), (3, 12)):
        assert reconciles(cluster, "error") == tries
        cluster.after(delay - 0.1)
        assert reconciles(cluster, "error") == tries
        cluster.after(0.1)
    assert cluster.ignored() == {}
    left = cluster.host.faults.left()
    cluster.release(SHOP)
    cluster.idle()
    cluster.after(600)
    assert cluster.host.faults.left() == left


@pytest.mark.behaviour("hostname/62")
def test_a_missing_namespace_is_counted_and_flags_the_lease(cluster, objects):
    cluster.create(objects.manifest(objects.first))
    cluster.declare(SHOP, objects.first)
    cluster.start()
    flag(cluster)
    entry = cluster.ignored()[str(objects.first)]
    assert entry["failure-count"] == 3
    assert entry["last-error"] == f'namespaces "{objects.first.namespace}" not found'
    assert entry["last-error-type"] == "*errors.StatusError"


@pytest.mark.behaviour("hostname/77")
def test_two_hostnames_of_a_lease_share_its_count(waiting, objects):
    waiting.declare("b.example", objects.first)
    waiting.idle()
    assert failures(waiting, objects.first) == 2
    waiting.after(3)
    entry = waiting.ignored()[str(objects.first)]
    assert entry["failure-count"] == 3
    assert entry["hostnames"] == ["b.example", SHOP]
    assert flagged(waiting) == 1
    waiting.after(60)
    assert failures(waiting, objects.first) == 3


def test_a_retry_after_of_the_server_is_respected(cluster, objects):
    cluster.lease(objects.first)
    cluster.start()
    cluster.host.faults.next("apply", ctrlhost.Forbidden("no", retry_after=7.0), resource="ingresses")
    cluster.declare(SHOP, objects.first)
    cluster.idle()
    cluster.after(6.9)
    assert cluster.routes() == set()
    cluster.after(0.1)
    assert cluster.routes() == {(objects.first.namespace, SHOP)}


def test_registry_credentials_of_a_manifest_are_not_cached(connected, objects):
    service = {**objects.web_services()[1], "credentials": {"host": "registry.example", "password": "hunter2"}}
    connected.change_manifest(objects.first, [service])
    connected.idle()
    (informer,) = [candidate for candidate in connected.host.host.factory.informers() if candidate.kind == "Manifest"]
    cached = informer.lister.get(objects.first.namespace, "lease")
    assert sorted(cached["spec"]["group"]["services"][0]) == ["count", "expose", "name"]
    assert b"hunter2" not in cached.to_json()
