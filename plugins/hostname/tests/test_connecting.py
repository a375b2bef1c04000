"""Hostnames connected, moved and released, on the sandbox."""

from __future__ import annotations

import pytest

import ctrlhost
from plugins.hostname.tests.objects import SHOP

WEB_OPTIONS = {"max_body_size": 2097152, "next_cases": ["error"]}


def backend(route):
    service = route["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    return service["name"], service["port"]["number"]


def writes(cluster):
    return cluster.metric("provider_kube_calls", action="networking-ingresses-apply", result="success")


def test_a_declared_hostname_gets_the_ingress_of_its_claim(connected, objects):
    route, expected = connected.route(SHOP, objects.first), objects.route(SHOP, objects.first)
    assert route["spec"] == expected["spec"]
    assert route["metadata"]["labels"] == objects.first.labels
    applied = route["metadata"]["annotations"].pop("applied.ctrlhost.dev/hostname")
    assert applied
    assert route["metadata"]["annotations"] == expected["metadata"]["annotations"]
    assert not {"ownerReferences", "finalizers"} & set(route["metadata"])


@pytest.mark.behaviour("hostname/9")
def test_a_claim_for_an_exposed_port_is_connected_and_shown(cluster, objects):
    cluster.lease(objects.first, [objects.service({"port": 3321, "external_port": 41333, "global": True})])
    cluster.start()
    cluster.declare("h.example", objects.first, port=41333)
    cluster.idle()
    assert backend(cluster.route("h.example", objects.first)) == ("web", 41333)
    assert writes(cluster) == 1
    assert cluster.managed()["h.example"]["LeaseID"]["dseq"] == objects.first.dseq
    assert cluster.managed()["h.example"]["ExternalPort"] == 41333
    assert cluster.get("/ignore-list").status == 204


@pytest.mark.behaviour("hostname/4")
@pytest.mark.behaviour("hostname/5")
@pytest.mark.parametrize("fails", [False, True])
def test_a_released_hostname_keeps_its_entry_until_its_route_is_removed(connected, objects, fails):
    if fails:
        connected.host.faults.next("delete", ctrlhost.TransportError("EOF"), resource="ingresses")
    connected.release(SHOP)
    connected.idle()
    assert connected.host.faults.left() == 0
    assert connected.metric("ctrlhost_hostname_reconcile_total", result="error") == fails
    if fails:
        assert list(connected.managed()) == [SHOP]
        assert connected.routes() == {(objects.first.namespace, SHOP)}
        connected.after(3)
    assert connected.routes() == set()
    assert connected.managed() == {}


@pytest.mark.behaviour("hostname/11")
@pytest.mark.behaviour("hostname/56")
def test_a_move_removes_the_old_route_before_writing_the_new_one(connected, objects, history):
    connected.change_manifest(objects.second, [objects.service({"port": 8443, "global": True}, name="other")])
    recorded = history()
    recorded.wait_for([("add", objects.first.namespace)])
    connected.move(SHOP, objects.second, service_name="other", external_port=8443)
    connected.idle()
    recorded.wait_for(
        [("add", objects.first.namespace), ("delete", objects.first.namespace), ("add", objects.second.namespace)]
    )
    assert backend(connected.route(SHOP, objects.second)) == ("other", 8443)
    assert connected.managed()[SHOP]["Namespace"] == objects.second.namespace
    assert connected.metric("provider_kube_calls", action="networking-ingresses-delete", result="success") == 1


@pytest.mark.behaviour("hostname/25")
def test_only_the_host_that_moves_is_moved(connected, objects):
    connected.declare("b.example", objects.first)
    connected.idle()
    stays = connected.route(SHOP, objects.first)
    connected.move("b.example", objects.second)
    connected.idle()
    assert connected.routes() == {(objects.first.namespace, SHOP), (objects.second.namespace, "b.example")}
    assert connected.route(SHOP, objects.first) == stays


@pytest.mark.behaviour("hostname/28")
def test_a_new_service_and_port_of_the_same_lease_are_one_write(connected, objects):
    services = [*objects.web_services(), objects.service({"port": 8443, "global": True}, name="other")]
    connected.change_manifest(objects.first, services)
    connected.idle()
    before = connected.route(SHOP, objects.first)
    connected.change_host(SHOP, service_name="other", external_port=8443)
    connected.idle()
    after = connected.route(SHOP, objects.first)
    assert backend(after) == ("other", 8443)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert writes(connected) == 2
    assert connected.metric("provider_kube_calls", action="networking-ingresses-apply", result="fail") == 0


@pytest.mark.behaviour("hostname/29")
def test_new_http_options_change_only_the_annotations(connected, objects):
    before = connected.route(SHOP, objects.first)
    connected.change_manifest(objects.first, objects.web_services(WEB_OPTIONS))
    connected.idle()
    after = connected.route(SHOP, objects.first)
    assert after["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-body-size"] == "2097152"
    assert after["spec"] == before["spec"]
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert writes(connected) == 2


@pytest.mark.behaviour("hostname/33")
def test_an_owner_in_upper_case_is_normalised_to_lower_case(connected, objects):
    connected.declare("b.example", objects.first, owner=objects.owner.upper())
    connected.idle()
    assert connected.route("b.example", objects.first)["metadata"]["labels"] == objects.first.labels


@pytest.mark.behaviour("hostname/57")
def test_a_move_to_a_lease_without_manifest_keeps_the_old_route(connected, objects):
    before = connected.route(SHOP, objects.first)
    connected.move(SHOP, objects.third)
    connected.idle()
    assert connected.route(SHOP, objects.first) == before
    assert list(connected.ignored()) == [str(objects.third)]
    assert connected.managed()[SHOP]["Namespace"] == objects.first.namespace


@pytest.mark.behaviour("hostname/58")
def test_a_move_whose_removal_fails_creates_nothing_yet(connected, objects):
    connected.host.faults.next("delete", ctrlhost.ServerError("boom"), resource="ingresses")
    connected.move(SHOP, objects.second)
    connected.idle()
    assert connected.routes() == {(objects.first.namespace, SHOP)}
    assert connected.managed()[SHOP]["Namespace"] == objects.first.namespace
    connected.after(3)
    assert connected.routes() == {(objects.second.namespace, SHOP)}
    assert connected.managed()[SHOP]["Namespace"] == objects.second.namespace
    assert connected.ignored() == {}


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ctrlhost.ServerError("boom"), marks=pytest.mark.behaviour("hostname/59"), id="creation fails"),
        pytest.param(
            ctrlhost.BadRequest(f'webhook denied: host "{SHOP}" and path "/" is already defined in ingress x/{SHOP}'),
            marks=pytest.mark.behaviour("hostname/60"),
            id="webhook still sees the old route",
        ),
    ],
)
def test_a_move_whose_creation_fails_is_finished_after_the_retry_delay(connected, objects, error):
    # Twice, since the event of the removal enqueues the hostname at once.
    connected.host.faults.next("apply", error, resource="ingresses", times=2)
    connected.move(SHOP, objects.second)
    connected.idle()
    assert connected.routes() == set()
    assert connected.managed() == {}
    connected.after(2.9)
    assert connected.routes() == set()
    connected.after(3.1)
    assert connected.routes() == {(objects.second.namespace, SHOP)}
    assert list(connected.managed()) == [SHOP]
    assert connected.ignored() == {}


@pytest.mark.behaviour("hostname/66")
def test_a_hostname_changed_in_place_moves_the_route(connected, objects):
    connected.change_host(SHOP, hostname="b.example")
    connected.idle()
    assert connected.routes() == {(objects.first.namespace, "b.example")}
    assert list(connected.managed()) == ["b.example"]


@pytest.mark.behaviour("hostname/55")
def test_a_foreign_ingress_of_the_name_is_taken_over(connected, objects):
    foreign = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "b.example", "namespace": objects.first.namespace, "labels": {"app": "foreign"}},
        "spec": {"defaultBackend": {"service": {"name": "old", "port": {"number": 1}}}},
    }
    uid = connected.create(foreign)["metadata"]["uid"]
    connected.declare("b.example", objects.first)
    connected.idle()
    route = connected.route("b.example", objects.first)
    assert route["metadata"]["uid"] == uid
    assert route["metadata"]["labels"].items() >= objects.first.labels.items()
    assert "defaultBackend" not in route["spec"]
    assert backend(route) == ("web", 80)
    assert connected.managed()["b.example"]["ServiceName"] == "web"


@pytest.mark.behaviour("oncall/OC22")
def test_calls_are_counted_under_our_name_and_under_that_of_upstream(connected):
    labels = {"action": "networking-ingresses-apply", "result": "success"}
    assert connected.metric("ctrlhost_hostname_kube_calls_total", **labels) == writes(connected) == 1
