"""Where the address comes from: the one Service, and what it has to say."""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, Any

import pytest
from ctrlhost_ingress_status.discovery import addresses_of, kind_of

from ctrlhost.cache import Object

if TYPE_CHECKING:
    pass

HOST = [{"hostname": "projectcontour.io"}]
HTTPS = {"port": 443, "protocol": "TCP"}
ONE, TWO = {"ip": "1.1.1.1"}, {"hostname": "a.example.com"}


@pytest.fixture
def replica(world: Any) -> Any:
    """A host that has an address, and an Ingress to publish it on."""
    world.service([ONE, TWO])
    world.ingress("web")
    made = world.start()
    made.forget()
    return made


@pytest.fixture
def entries(world: Any) -> Any:
    """What is published, after everything has settled."""

    def known() -> list[Any] | None:
        world.idle()
        world.after(6)
        found = world.replicas[0].plugin.desired.known
        return None if found is None else list(found.entries)

    return known


def test_nothing_but_a_service_has_addresses() -> None:
    status = {"loadBalancer": {"ingress": HOST}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "envoy"}, "status": status}
    assert addresses_of(Object(pod)) == ()
    assert addresses_of(Object({**pod, "kind": "Service"})) == tuple(HOST)
    assert addresses_of(None) == ()


@pytest.mark.parametrize("name", ["potato", "elephant"])
def test_services_of_other_names_are_not_followed(world: Any, replica: Any, entries: Any, name: str) -> None:
    runs = replica.runs("address")
    world.service(HOST, name=name)
    world.service([*HOST, ONE], name=name)
    world.client.delete("v1", "Service", name, "projectcontour")
    assert entries() == [ONE, TWO]
    assert replica.runs("address") == runs
    assert replica.writes() == []


def test_the_service_is_followed_when_it_appears_changes_and_goes(world: Any, entries: Any) -> None:
    world.start()
    assert entries() == []
    world.service(HOST)
    assert entries() == HOST
    world.service([ONE])
    assert entries() == [ONE]
    world.unserve()
    assert entries() == []


def test_a_service_of_that_name_elsewhere_is_not_followed(world: Any, replica: Any, entries: Any) -> None:
    world.service(HOST, namespace="default")
    assert entries() == [ONE, TWO]
    watched = {one.path for one in replica.sent if "/services" in one.path}
    assert not any("/namespaces/default/" in path for path in watched)


def test_ingresses_outside_of_the_chosen_namespaces_are_left_alone(world: Any) -> None:
    for name in ("ns1", "ns2", "ns3"):
        world.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    world.service([ONE])
    replica = world.start(watch_namespaces=["ns1", "ns2"])
    for name in ("ns1", "ns2", "ns3"):
        ingress = world.ingress(f"in-{name}") | {"metadata": {"name": "web", "namespace": name}}
        world.client.create({key: ingress[key] for key in ("apiVersion", "kind", "metadata", "spec")})
        world.client.patch("networking.k8s.io/v1", "Ingress", "web", name, {"metadata": {"labels": {"a": "b"}}})
    world.idle()
    assert sorted(one.path.split("/")[5] for one in replica.writes()) == ["ns1", "ns2"]


def test_a_service_that_went_while_the_watch_was_down_is_noticed(world: Any, replica: Any, entries: Any) -> None:
    with replica.host.faults.hold_watches():
        world.unserve()
        world.service(None, name="other")
    assert entries() == []


def test_a_change_of_labels_is_no_change(world: Any, replica: Any, entries: Any) -> None:
    changes = replica.metric("ctrlhost_ingress_status_address_changes_total")
    world.client.patch("v1", "Service", "envoy", "projectcontour", {"metadata": {"labels": {"a": "b"}}})
    assert entries() == [ONE, TWO]
    assert replica.metric("ctrlhost_ingress_status_address_changes_total") == changes
    assert replica.writes() == []


def test_the_same_addresses_in_another_order_keep_the_old_one(world: Any, replica: Any, entries: Any) -> None:
    world.service([TWO, ONE])
    assert entries() == [ONE, TWO]
    assert replica.writes() == []
    world.ingress("later")
    world.idle()
    assert world.status("later") == [ONE, TWO]


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
def test_an_entry_is_published_with_all_that_an_ingress_has_a_place_for(
    world: Any, assigned: list[Any], published: list[Any]
) -> None:
    world.service(assigned)
    world.ingress("web")
    world.start()
    assert world.status("web") == published


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"type": "NodePort"}, "NodePort"),
        ({"type": "ClusterIP", "clusterIP": "None"}, "headless ClusterIP"),
        ({"type": "ExternalName", "externalName": "a.example.com"}, "ExternalName"),
        ({"type": "LoadBalancer"}, "LoadBalancer"),
    ],
)
def test_a_service_without_addresses_is_warned_of_once(
    world: Any, entries: Any, caplog: pytest.LogCaptureFixture, spec: dict[str, Any], told: str
) -> None:
    world.service(None, **spec)
    replica = world.start()
    assert entries() == []
    world.client.patch("v1", "Service", "envoy", "projectcontour", {"metadata": {"labels": {"a": "b"}}})
    assert entries() == []
    warnings = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    (warning,) = [text for text in warnings if "no address" in text]
    assert f"projectcontour/envoy ({told})" in warning
    assert "ingress-status-address" in warning
    assert replica.writes() == []


def test_an_absent_service_is_told_as_such() -> None:
    assert kind_of(None) == "absent"


def test_a_service_that_is_made_anew_with_another_address_is_one_change(world: Any, replica: Any) -> None:
    changes = replica.metric("ctrlhost_ingress_status_address_changes_total")
    world.unserve()
    world.service(HOST)
    world.idle()
    world.after(6, step=0.5)
    assert replica.metric("ctrlhost_ingress_status_address_changes_total") == changes + 1
    assert replica.written() == [HOST]


def test_five_changes_within_a_second_are_one_pass(world: Any, replica: Any) -> None:
    for number in range(5):
        world.service([{"ip": f"9.9.9.{number}"}])
        world.idle()
        world.clock.advance(0.15)
    assert replica.writes() == []
    world.after(2)
    assert replica.written() == [[{"ip": "9.9.9.4"}]]


def test_an_address_that_never_stands_still_is_published_every_five_seconds(world: Any, replica: Any) -> None:
    times = []
    for step in range(40):
        before = len(replica.writes())
        world.service([{"ip": f"9.9.{step}.9"}])
        world.idle()
        world.after(0.5)
        if len(replica.writes()) > before:
            times.append(world.clock.now())
    assert len(times) >= 3
    assert all(later - earlier <= 6 for earlier, later in itertools.pairwise(times))


def test_there_and_back_within_the_hold_off_writes_nothing(world: Any, replica: Any) -> None:
    world.service(HOST)
    world.idle()
    world.clock.advance(0.5)
    world.service([ONE, TWO])
    world.idle()
    world.after(10)
    assert replica.writes() == []


def test_several_services_are_published_in_their_order(world: Any, entries: Any) -> None:
    world.service([ONE], name="zone-b")
    world.service([TWO, ONE], name="zone-a")
    world.start(envoy_services=["projectcontour/zone-b", "projectcontour/zone-a", "projectcontour/absent"])
    assert entries() == [ONE, TWO]
    world.client.delete("v1", "Service", "zone-b", "projectcontour")
    world.service([TWO], name="zone-a")
    assert entries() == [TWO]


@pytest.mark.behaviour("ingress-status/R26")
def test_a_static_address_wins_and_no_service_is_watched(world: Any, caplog: pytest.LogCaptureFixture) -> None:
    world.service([ONE])
    world.ingress("web")
    replica = world.start(ingress_status_address="10.0.0.1, 2001:db8::1, edge.example.com", envoy_service_name="envoy")
    assert world.status("web") == [{"ip": "10.0.0.1"}, {"ip": "2001:db8::1"}, {"hostname": "edge.example.com"}]
    assert not any("/services" in one.path for one in replica.sent)
    assert any("ignoring the Service" in record.getMessage() for record in caplog.records)
