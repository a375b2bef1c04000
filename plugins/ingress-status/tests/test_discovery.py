"""Discovery of the address from the Service."""

from __future__ import annotations

import itertools
import logging
from typing import Any

import pytest
from ctrlhost_ingress_status.discovery import addresses_of, kind_of

from ctrlhost.cache import Object
from tests.support.cut_watches import cut_watches

HOST = [{"hostname": "projectcontour.io"}]
HTTPS = {"port": 443, "protocol": "TCP"}
ONE, TWO = {"ip": "1.1.1.1"}, {"hostname": "a.example.com"}


@pytest.fixture
def replica(cluster: Any) -> Any:
    """A host that has an address, and an Ingress to publish it on."""
    cluster.service([ONE, TWO])
    cluster.ingress("web")
    leader = cluster.start()
    leader.forget()
    return leader


@pytest.fixture
def entries(cluster: Any) -> Any:
    """The published address, once everything has settled."""

    def known() -> list[Any] | None:
        cluster.idle()
        cluster.after(6)
        addresses = cluster.replicas[0].plugin.desired.known
        return None if addresses is None else list(addresses.entries)

    return known


def test_nothing_but_a_service_has_addresses() -> None:
    status = {"loadBalancer": {"ingress": HOST}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "envoy"}, "status": status}
    assert addresses_of(Object(pod)) == ()
    assert addresses_of(Object({**pod, "kind": "Service"})) == tuple(HOST)
    assert addresses_of(None) == ()


@pytest.mark.parametrize("name", ["potato", "elephant"])
def test_services_of_other_names_are_not_followed(cluster: Any, replica: Any, entries: Any, name: str) -> None:
    runs = replica.runs("address")
    cluster.service(HOST, name=name)
    cluster.service([*HOST, ONE], name=name)
    cluster.client.delete("v1", "Service", name, "projectcontour")
    assert entries() == [ONE, TWO]
    assert replica.runs("address") == runs
    assert replica.writes() == []


def test_the_service_is_followed_when_it_appears_changes_and_goes(cluster: Any, entries: Any) -> None:
    cluster.start()
    assert entries() == []
    cluster.service(HOST)
    assert entries() == HOST
    cluster.service([ONE])
    assert entries() == [ONE]
    cluster.unserve()
    assert entries() == []


def test_a_service_of_that_name_elsewhere_is_not_followed(cluster: Any, replica: Any, entries: Any) -> None:
    cluster.service(HOST, namespace="default")
    assert entries() == [ONE, TWO]
    watched = {request.path for request in replica.sent if "/services" in request.path}
    assert not any("/namespaces/default/" in path for path in watched)


def test_ingresses_outside_the_watched_namespaces_are_ignored(cluster: Any) -> None:
    for name in ("ns1", "ns2", "ns3"):
        cluster.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    cluster.service([ONE])
    replica = cluster.start(watch_namespaces=["ns1", "ns2"])
    for name in ("ns1", "ns2", "ns3"):
        ingress = cluster.ingress(f"in-{name}") | {"metadata": {"name": "web", "namespace": name}}
        cluster.client.create({key: ingress[key] for key in ("apiVersion", "kind", "metadata", "spec")})
        cluster.client.patch("networking.k8s.io/v1", "Ingress", "web", name, {"metadata": {"labels": {"a": "b"}}})
    cluster.idle()
    assert sorted(write.path.split("/")[5] for write in replica.writes()) == ["ns1", "ns2"]


def test_a_service_deleted_while_the_watch_was_down_is_noticed(cluster: Any, replica: Any, entries: Any) -> None:
    cut_watches(replica.host, "services")
    cluster.unserve()
    cluster.service(None, name="other")
    cluster.after(60, step=10)
    assert replica.host.faults.left() == 0
    assert entries() == []


def test_a_change_of_labels_is_no_change(cluster: Any, replica: Any, entries: Any) -> None:
    changes = replica.metric("ctrlhost_ingress_status_address_changes_total")
    cluster.client.patch("v1", "Service", "envoy", "projectcontour", {"metadata": {"labels": {"a": "b"}}})
    assert entries() == [ONE, TWO]
    assert replica.metric("ctrlhost_ingress_status_address_changes_total") == changes
    assert replica.writes() == []


def test_the_same_addresses_in_another_order_keep_the_old_one(cluster: Any, replica: Any, entries: Any) -> None:
    cluster.service([TWO, ONE])
    assert entries() == [ONE, TWO]
    assert replica.writes() == []
    cluster.ingress("later")
    cluster.idle()
    assert cluster.status("later") == [ONE, TWO]


@pytest.mark.parametrize(
    ("assigned", "published"),
    [
        ([{"ip": "1.1.1.1", "ipMode": "VIP"}], [ONE]),
        ([{"ip": "1.1.1.1", "hostname": "a.example.com"}], [{"ip": "1.1.1.1", "hostname": "a.example.com"}]),
        (
            [{**ONE, "ports": [{"port": 443, "protocol": "TCP"}]}],
            [{**ONE, "ports": [{"port": 443, "protocol": "TCP"}]}],
        ),
        (
            [{**ONE, "ports": [{**HTTPS, "error": "example.com/Fail"}]}],
            [{**ONE, "ports": [{**HTTPS, "error": "example.com/Fail"}]}],
        ),
    ],
)
def test_an_entry_is_published_with_all_fields_that_an_ingress_has(
    cluster: Any, assigned: list[Any], published: list[Any]
) -> None:
    cluster.service(assigned)
    cluster.ingress("web")
    cluster.start()
    assert cluster.status("web") == published


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"type": "NodePort"}, "NodePort"),
        ({"type": "ClusterIP", "clusterIP": "None"}, "headless ClusterIP"),
        ({"type": "ExternalName", "externalName": "a.example.com"}, "ExternalName"),
        ({"type": "LoadBalancer"}, "LoadBalancer"),
    ],
)
def test_a_service_without_addresses_is_logged_once(
    cluster: Any, entries: Any, caplog: pytest.LogCaptureFixture, spec: dict[str, Any], told: str
) -> None:
    cluster.service(None, **spec)
    replica = cluster.start()
    assert entries() == []
    cluster.client.patch("v1", "Service", "envoy", "projectcontour", {"metadata": {"labels": {"a": "b"}}})
    assert entries() == []
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    (warning,) = [text for text in warnings if "no address" in text]
    assert f"projectcontour/envoy ({told})" in warning
    assert "ingress-status-address" in warning
    assert replica.writes() == []


def test_a_missing_service_is_logged_as_absent() -> None:
    assert kind_of(None) == "absent"


def test_a_recreated_service_with_another_address_is_one_change(cluster: Any, replica: Any) -> None:
    changes = replica.metric("ctrlhost_ingress_status_address_changes_total")
    cluster.unserve()
    cluster.service(HOST)
    cluster.idle()
    cluster.after(6, step=0.5)
    assert replica.metric("ctrlhost_ingress_status_address_changes_total") == changes + 1
    assert replica.written() == [HOST]


def test_five_changes_within_a_second_are_one_pass(cluster: Any, replica: Any) -> None:
    for number in range(5):
        cluster.service([{"ip": f"9.9.9.{number}"}])
        cluster.idle()
        cluster.clock.advance(0.15)
    assert replica.writes() == []
    cluster.after(2)
    assert replica.written() == [[{"ip": "9.9.9.4"}]]


def test_an_address_that_keeps_changing_is_published_every_five_seconds(cluster: Any, replica: Any) -> None:
    times = []
    for step in range(40):
        before = len(replica.writes())
        cluster.service([{"ip": f"9.9.{step}.9"}])
        cluster.idle()
        cluster.after(0.5)
        if len(replica.writes()) > before:
            times.append(cluster.clock.now())
    assert len(times) >= 3
    assert all(later - earlier <= 6 for earlier, later in itertools.pairwise(times))


def test_there_and_back_within_the_hold_off_writes_nothing(cluster: Any, replica: Any) -> None:
    cluster.service(HOST)
    cluster.idle()
    cluster.clock.advance(0.5)
    cluster.service([ONE, TWO])
    cluster.idle()
    cluster.after(10)
    assert replica.writes() == []


def test_several_services_are_published_in_their_order(cluster: Any, entries: Any) -> None:
    cluster.service([ONE], name="zone-b")
    cluster.service([TWO, ONE], name="zone-a")
    cluster.start(envoy_services=["projectcontour/zone-b", "projectcontour/zone-a", "projectcontour/absent"])
    assert entries() == [ONE, TWO]
    cluster.client.delete("v1", "Service", "zone-b", "projectcontour")
    cluster.service([TWO], name="zone-a")
    assert entries() == [TWO]


@pytest.mark.behaviour("ingress-status/R26")
def test_a_static_address_wins_and_no_service_is_watched(cluster: Any, caplog: pytest.LogCaptureFixture) -> None:
    cluster.service([ONE])
    cluster.ingress("web")
    replica = cluster.start(
        ingress_status_address="10.0.0.1, 2001:db8::1, edge.example.com", envoy_service_name="envoy"
    )
    assert cluster.status("web") == [{"ip": "10.0.0.1"}, {"ip": "2001:db8::1"}, {"hostname": "edge.example.com"}]
    assert not any("/services" in request.path for request in replica.sent)
    assert any("ignoring the Service" in record.getMessage() for record in caplog.records)
