"""Hostnames connected, moved and released, on the sandbox."""

from __future__ import annotations

import pytest

import ctrlhost

SHOP = "shop.example.com"
WEB_OPTIONS = {
    "max_body_size": 2097152,
    "read_timeout": 60000,
    "send_timeout": 60000,
    "next_tries": 3,
    "next_timeout": 30000,
    "next_cases": ["error"],
}


def backend(route):
    service = route["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    return service["name"], service["port"]["number"]


def test_a_declared_hostname_gets_the_ingress_of_its_directive(cluster, objects):
    cluster.lease(objects.first)
    cluster.start()
    cluster.declare(SHOP, objects.first)
    cluster.idle()
    route = cluster.route(SHOP, objects.first)
    assert route["spec"] == {
        "ingressClassName": "akash-ingress-class",
        "rules": [
            {
                "host": SHOP,
                "http": {
                    "paths": [
                        {
                            "path": "/",
                            "pathType": "Prefix",
                            "backend": {"service": {"name": "web", "port": {"number": 80}}},
                        }
                    ]
                },
            }
        ],
    }
    assert route["metadata"]["labels"] == objects.first.labels
    assert len(route["metadata"]["annotations"]) == 6
    assert not {"ownerReferences", "finalizers"} & set(route["metadata"])


@pytest.mark.behaviour("hostname/9")
def test_a_claim_for_an_exposed_port_is_connected_and_shown(cluster, objects):
    expose = {"port": 3321, "external_port": 41333, "global": True}
    cluster.lease(objects.first, [objects.service(expose)])
    cluster.start()
    cluster.declare("h.example", objects.first, port=41333)
    cluster.idle()
    assert backend(cluster.route("h.example", objects.first)) == ("web", 41333)
    assert cluster.metric("provider_kube_calls", action="networking-ingresses-create", result="success") == 1
    assert cluster.managed()["h.example"]["LeaseID"]["dseq"] == objects.first.dseq
    assert cluster.managed()["h.example"]["ExternalPort"] == 41333
    assert cluster.get("/ignore-list").status == 204


@pytest.mark.behaviour("hostname/4")
def test_deleting_a_claim_removes_its_route_and_its_entry(cluster, objects):
    cluster.lease(objects.first)
    cluster.declare("qux.test", objects.first)
    cluster.start()
    assert list(cluster.managed()) == ["qux.test"]
    cluster.release("qux.test")
    cluster.idle()
    assert cluster.routes() == set()
    assert cluster.managed() == {}


@pytest.mark.behaviour("hostname/5")
def test_the_entry_is_kept_until_a_removal_succeeds(cluster, objects):
    cluster.lease(objects.first)
    cluster.declare("lsn.test", objects.first)
    cluster.start()
    cluster.host.faults.next("delete_collection", ctrlhost.TransportError("EOF"), resource="ingresses")
    cluster.release("lsn.test")
    cluster.idle()
    assert cluster.host.faults.left() == 0
    assert list(cluster.managed()) == ["lsn.test"]
    assert cluster.routes() == {(objects.first.namespace, "lsn.test")}
    assert cluster.metric("ctrlhost_hostname_reconcile_total", result="error") == 1
    cluster.after(3)
    assert cluster.routes() == set()
    assert cluster.managed() == {}


@pytest.mark.behaviour("hostname/11")
@pytest.mark.behaviour("hostname/56")
def test_a_move_removes_the_old_route_before_writing_the_new_one(cluster, objects, history):
    cluster.lease(objects.first)
    cluster.lease(objects.second, [objects.service({"port": 8443, "global": True}, name="other")])
    cluster.declare(SHOP, objects.first)
    cluster.start()
    recorded = history()
    recorded.wait_for([("add", objects.first.namespace)])
    cluster.move(SHOP, objects.second, service_name="other", external_port=8443)
    cluster.idle()
    recorded.wait_for(
        [("add", objects.first.namespace), ("delete", objects.first.namespace), ("add", objects.second.namespace)]
    )
    assert backend(cluster.route(SHOP, objects.second)) == ("other", 8443)
    assert cluster.managed()[SHOP]["Namespace"] == objects.second.namespace
    assert cluster.metric("provider_kube_calls", action="networking-ingresses-deletecollection", result="success") == 1


@pytest.mark.behaviour("hostname/25")
def test_only_the_host_that_moves_is_moved(cluster, objects):
    for lease in (objects.first, objects.second):
        cluster.lease(lease)
    cluster.declare("a.example", objects.first)
    cluster.declare("b.example", objects.first)
    cluster.start()
    stays = cluster.route("a.example", objects.first)
    cluster.move("b.example", objects.second)
    cluster.idle()
    assert cluster.routes() == {(objects.first.namespace, "a.example"), (objects.second.namespace, "b.example")}
    assert cluster.route("a.example", objects.first) == stays


@pytest.mark.behaviour("hostname/28")
def test_a_new_service_and_port_of_the_same_lease_are_one_put(cluster, objects):
    services = [*objects.web_services(), objects.service({"port": 8443, "global": True}, name="other")]
    cluster.lease(objects.first, services)
    cluster.declare(SHOP, objects.first)
    cluster.start()
    before = cluster.route(SHOP, objects.first)
    cluster.change_host(SHOP, service_name="other", external_port=8443)
    cluster.idle()
    after = cluster.route(SHOP, objects.first)
    assert backend(after) == ("other", 8443)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert cluster.metric("provider_kube_calls", action="networking-ingresses-update", result="success") == 1
    assert cluster.metric("provider_kube_calls", action="networking-ingresses-update", result="fail") == 0


@pytest.mark.behaviour("hostname/29")
def test_new_http_options_change_only_the_annotations(cluster, objects):
    cluster.lease(objects.first)
    cluster.declare(SHOP, objects.first)
    cluster.start()
    before = cluster.route(SHOP, objects.first)
    cluster.change_manifest(objects.first, objects.web_services(WEB_OPTIONS))
    cluster.idle()
    after = cluster.route(SHOP, objects.first)
    assert after["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-body-size"] == "2097152"
    assert after["spec"] == before["spec"]
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert cluster.metric("provider_kube_calls", action="networking-ingresses-update", result="success") == 1


@pytest.mark.behaviour("hostname/33")
def test_an_owner_in_upper_case_is_normalised_to_lower_case(cluster, objects):
    cluster.lease(objects.first)
    cluster.start()
    cluster.declare(SHOP, objects.first, owner=objects.owner.upper())
    cluster.idle()
    assert cluster.route(SHOP, objects.first)["metadata"]["labels"] == objects.first.labels


@pytest.mark.behaviour("hostname/57")
def test_a_move_to_a_lease_without_manifest_keeps_the_old_route(cluster, objects):
    cluster.lease(objects.first)
    cluster.declare(SHOP, objects.first)
    cluster.start()
    before = cluster.route(SHOP, objects.first)
    cluster.move(SHOP, objects.second)
    cluster.idle()
    assert cluster.route(SHOP, objects.first) == before
    assert list(cluster.ignored()) == [str(objects.second)]
    assert cluster.managed()[SHOP]["Namespace"] == objects.first.namespace


@pytest.mark.behaviour("hostname/58")
def test_a_move_whose_removal_fails_creates_nothing_yet(cluster, objects):
    for lease in (objects.first, objects.second):
        cluster.lease(lease)
    cluster.declare(SHOP, objects.first)
    cluster.start()
    cluster.host.faults.next("delete_collection", ctrlhost.ServerError("boom"), resource="ingresses")
    cluster.move(SHOP, objects.second)
    cluster.idle()
    assert cluster.routes() == {(objects.first.namespace, SHOP)}
    assert cluster.managed()[SHOP]["Namespace"] == objects.first.namespace
    cluster.after(3)
    assert cluster.routes() == {(objects.second.namespace, SHOP)}
    assert cluster.managed()[SHOP]["Namespace"] == objects.second.namespace
    assert cluster.ignored() == {}


@pytest.mark.behaviour("hostname/59")
def test_a_move_whose_creation_fails_is_finished_by_the_next_retry(cluster, objects):
    for lease in (objects.first, objects.second):
        cluster.lease(lease)
    cluster.declare(SHOP, objects.first)
    cluster.start()
    # Twice, since the event of the removal enqueues the hostname at once.
    cluster.host.faults.next("create", ctrlhost.ServerError("boom"), resource="ingresses", times=2)
    cluster.move(SHOP, objects.second)
    cluster.idle()
    assert cluster.routes() == set()
    assert cluster.managed() == {}
    cluster.after(3)
    assert cluster.routes() == {(objects.second.namespace, SHOP)}
    assert list(cluster.managed()) == [SHOP]


@pytest.mark.behaviour("hostname/60")
def test_a_webhook_that_still_sees_the_old_route_is_retried_after_the_retry_delay(cluster, objects):
    for lease in (objects.first, objects.second):
        cluster.lease(lease)
    cluster.declare(SHOP, objects.first)
    cluster.start()
    text = f'admission webhook denied: host "{SHOP}" and path "/" is already defined in ingress x/{SHOP}'
    # Twice, since the event of the removal enqueues the hostname at once.
    cluster.host.faults.next("create", ctrlhost.BadRequest(text), resource="ingresses", times=2)
    cluster.move(SHOP, objects.second)
    cluster.idle()
    assert cluster.routes() == set()
    cluster.after(2.9)
    assert cluster.routes() == set()
    cluster.after(0.1)
    assert cluster.routes() == {(objects.second.namespace, SHOP)}
    assert cluster.ignored() == {}


@pytest.mark.behaviour("hostname/66")
def test_a_hostname_changed_in_place_moves_the_route(cluster, objects):
    cluster.lease(objects.first)
    cluster.declare("a.example", objects.first)
    cluster.start()
    cluster.change_host("a.example", hostname="b.example")
    cluster.idle()
    assert cluster.routes() == {(objects.first.namespace, "b.example")}
    assert list(cluster.managed()) == ["b.example"]


@pytest.mark.behaviour("hostname/69")
def test_a_conflict_is_read_again_and_not_counted(cluster, objects):
    cluster.lease(objects.first)
    cluster.declare(SHOP, objects.first)
    cluster.start()
    cluster.host.faults.next("replace", ctrlhost.Conflict("the object has been modified"), resource="ingresses")
    cluster.change_manifest(objects.first, objects.web_services(WEB_OPTIONS))
    cluster.idle()
    annotations = cluster.route(SHOP, objects.first)["metadata"]["annotations"]
    assert annotations["nginx.ingress.kubernetes.io/proxy-body-size"] == "2097152"
    assert cluster.host.faults.left() == 0
    assert cluster.ignored() == {}
    assert cluster.metric("ctrlhost_hostname_reconcile_total", result="error") == 0


@pytest.mark.behaviour("hostname/55")
def test_a_foreign_ingress_of_the_name_is_taken_over(cluster, objects):
    cluster.lease(objects.first)
    foreign = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": SHOP, "namespace": objects.first.namespace, "labels": {"app": "foreign"}},
        "spec": {"defaultBackend": {"service": {"name": "old", "port": {"number": 1}}}},
    }
    uid = cluster.create(foreign)["metadata"]["uid"]
    cluster.start()
    cluster.declare(SHOP, objects.first)
    cluster.idle()
    route = cluster.route(SHOP, objects.first)
    assert route["metadata"]["uid"] == uid
    assert route["metadata"]["labels"] == objects.first.labels
    assert "defaultBackend" not in route["spec"]
    assert backend(route) == ("web", 80)
    assert cluster.managed()[SHOP]["ServiceName"] == "web"
