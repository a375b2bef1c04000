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


def test_a_declared_hostname_gets_the_ingress_of_its_directive(world, objects):
    world.lease(objects.first)
    world.start()
    world.declare(SHOP, objects.first)
    world.idle()
    route = world.route(SHOP, objects.first)
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
def test_a_claim_for_an_exposed_port_is_connected_and_shown(world, objects):
    expose = {"port": 3321, "external_port": 41333, "global": True}
    world.lease(objects.first, [objects.service(expose)])
    world.start()
    world.declare("h.example", objects.first, port=41333)
    world.idle()
    assert backend(world.route("h.example", objects.first)) == ("web", 41333)
    assert world.metric("provider_kube_calls", action="networking-ingresses-create", result="success") == 1
    assert world.managed()["h.example"]["LeaseID"]["dseq"] == objects.first.dseq
    assert world.managed()["h.example"]["ExternalPort"] == 41333
    assert world.get("/ignore-list").status == 204


@pytest.mark.behaviour("hostname/4")
def test_a_deleted_claim_takes_its_route_and_its_entry_along(world, objects):
    world.lease(objects.first)
    world.declare("qux.test", objects.first)
    world.start()
    assert list(world.managed()) == ["qux.test"]
    world.release("qux.test")
    world.idle()
    assert world.routes() == set()
    assert world.managed() == {}


@pytest.mark.behaviour("hostname/5")
def test_a_failed_removal_keeps_the_entry_until_one_works(world, objects):
    world.lease(objects.first)
    world.declare("lsn.test", objects.first)
    world.start()
    world.host.faults.next("delete_collection", ctrlhost.TransportError("EOF"), resource="ingresses")
    world.release("lsn.test")
    world.idle()
    assert world.host.faults.left() == 0
    assert list(world.managed()) == ["lsn.test"]
    assert world.routes() == {(objects.first.namespace, "lsn.test")}
    assert world.metric("ctrlhost_hostname_reconcile_total", result="error") == 1
    world.after(3)
    assert world.routes() == set()
    assert world.managed() == {}


@pytest.mark.behaviour("hostname/11")
@pytest.mark.behaviour("hostname/56")
def test_a_move_removes_the_old_route_before_it_writes_the_new_one(world, objects, history):
    world.lease(objects.first)
    world.lease(objects.second, [objects.service({"port": 8443, "global": True}, name="other")])
    world.declare(SHOP, objects.first)
    world.start()
    recorded = history()
    recorded.wait_for([("add", objects.first.namespace)])
    world.move(SHOP, objects.second, service_name="other", external_port=8443)
    world.idle()
    recorded.wait_for(
        [("add", objects.first.namespace), ("delete", objects.first.namespace), ("add", objects.second.namespace)]
    )
    assert backend(world.route(SHOP, objects.second)) == ("other", 8443)
    assert world.managed()[SHOP]["Namespace"] == objects.second.namespace
    assert world.metric("provider_kube_calls", action="networking-ingresses-deletecollection", result="success") == 1


@pytest.mark.behaviour("hostname/25")
def test_only_the_host_that_moves_is_moved(world, objects):
    for lease in (objects.first, objects.second):
        world.lease(lease)
    world.declare("a.example", objects.first)
    world.declare("b.example", objects.first)
    world.start()
    stays = world.route("a.example", objects.first)
    world.move("b.example", objects.second)
    world.idle()
    assert world.routes() == {(objects.first.namespace, "a.example"), (objects.second.namespace, "b.example")}
    assert world.route("a.example", objects.first) == stays


@pytest.mark.behaviour("hostname/28")
def test_another_service_and_port_of_the_same_lease_are_one_put(world, objects):
    services = [*objects.web_services(), objects.service({"port": 8443, "global": True}, name="other")]
    world.lease(objects.first, services)
    world.declare(SHOP, objects.first)
    world.start()
    before = world.route(SHOP, objects.first)
    world.change_host(SHOP, service_name="other", external_port=8443)
    world.idle()
    after = world.route(SHOP, objects.first)
    assert backend(after) == ("other", 8443)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert world.metric("provider_kube_calls", action="networking-ingresses-update", result="success") == 1
    assert world.metric("provider_kube_calls", action="networking-ingresses-update", result="fail") == 0


@pytest.mark.behaviour("hostname/29")
def test_other_http_options_change_the_annotations_only(world, objects):
    world.lease(objects.first)
    world.declare(SHOP, objects.first)
    world.start()
    before = world.route(SHOP, objects.first)
    world.change_manifest(objects.first, objects.web_services(WEB_OPTIONS))
    world.idle()
    after = world.route(SHOP, objects.first)
    assert after["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-body-size"] == "2097152"
    assert after["spec"] == before["spec"]
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert world.metric("provider_kube_calls", action="networking-ingresses-update", result="success") == 1


@pytest.mark.behaviour("hostname/33")
def test_an_owner_in_upper_case_gives_the_route_of_lower_case(world, objects):
    world.lease(objects.first)
    world.start()
    world.declare(SHOP, objects.first, owner=objects.owner.upper())
    world.idle()
    assert world.route(SHOP, objects.first)["metadata"]["labels"] == objects.first.labels


@pytest.mark.behaviour("hostname/57")
def test_a_move_to_a_lease_without_manifest_leaves_the_old_route_alone(world, objects):
    world.lease(objects.first)
    world.declare(SHOP, objects.first)
    world.start()
    before = world.route(SHOP, objects.first)
    world.move(SHOP, objects.second)
    world.idle()
    assert world.route(SHOP, objects.first) == before
    assert list(world.ignored()) == [str(objects.second)]
    assert world.managed()[SHOP]["Namespace"] == objects.first.namespace


@pytest.mark.behaviour("hostname/58")
def test_a_move_whose_removal_fails_creates_nothing_yet(world, objects):
    for lease in (objects.first, objects.second):
        world.lease(lease)
    world.declare(SHOP, objects.first)
    world.start()
    world.host.faults.next("delete_collection", ctrlhost.ServerError("boom"), resource="ingresses")
    world.move(SHOP, objects.second)
    world.idle()
    assert world.routes() == {(objects.first.namespace, SHOP)}
    assert world.managed()[SHOP]["Namespace"] == objects.first.namespace
    world.after(3)
    assert world.routes() == {(objects.second.namespace, SHOP)}
    assert world.managed()[SHOP]["Namespace"] == objects.second.namespace
    assert world.ignored() == {}


@pytest.mark.behaviour("hostname/59")
def test_a_move_whose_creation_fails_is_finished_by_the_next_try(world, objects):
    for lease in (objects.first, objects.second):
        world.lease(lease)
    world.declare(SHOP, objects.first)
    world.start()
    # Twice, since the event of the removal wakes the hostname at once.
    world.host.faults.next("create", ctrlhost.ServerError("boom"), resource="ingresses", times=2)
    world.move(SHOP, objects.second)
    world.idle()
    assert world.routes() == set()
    assert world.managed() == {}
    world.after(3)
    assert world.routes() == {(objects.second.namespace, SHOP)}
    assert list(world.managed()) == [SHOP]


@pytest.mark.behaviour("hostname/60")
def test_a_webhook_that_still_sees_the_old_route_is_asked_again_after_the_retry_delay(world, objects):
    for lease in (objects.first, objects.second):
        world.lease(lease)
    world.declare(SHOP, objects.first)
    world.start()
    text = f'admission webhook denied: host "{SHOP}" and path "/" is already defined in ingress x/{SHOP}'
    # Twice, since the event of the removal wakes the hostname at once.
    world.host.faults.next("create", ctrlhost.BadRequest(text), resource="ingresses", times=2)
    world.move(SHOP, objects.second)
    world.idle()
    assert world.routes() == set()
    world.after(2.9)
    assert world.routes() == set()
    world.after(0.1)
    assert world.routes() == {(objects.second.namespace, SHOP)}
    assert world.ignored() == {}


@pytest.mark.behaviour("hostname/66")
def test_a_hostname_changed_in_place_moves_the_route(world, objects):
    world.lease(objects.first)
    world.declare("a.example", objects.first)
    world.start()
    world.change_host("a.example", hostname="b.example")
    world.idle()
    assert world.routes() == {(objects.first.namespace, "b.example")}
    assert list(world.managed()) == ["b.example"]


@pytest.mark.behaviour("hostname/69")
def test_a_conflict_is_read_again_and_not_counted(world, objects):
    world.lease(objects.first)
    world.declare(SHOP, objects.first)
    world.start()
    world.host.faults.next("replace", ctrlhost.Conflict("the object has been modified"), resource="ingresses")
    world.change_manifest(objects.first, objects.web_services(WEB_OPTIONS))
    world.idle()
    annotations = world.route(SHOP, objects.first)["metadata"]["annotations"]
    assert annotations["nginx.ingress.kubernetes.io/proxy-body-size"] == "2097152"
    assert world.host.faults.left() == 0
    assert world.ignored() == {}
    assert world.metric("ctrlhost_hostname_reconcile_total", result="error") == 0


@pytest.mark.behaviour("hostname/55")
def test_a_foreign_ingress_of_the_name_is_taken_over(world, objects):
    world.lease(objects.first)
    foreign = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": SHOP, "namespace": objects.first.namespace, "labels": {"app": "foreign"}},
        "spec": {"defaultBackend": {"service": {"name": "old", "port": {"number": 1}}}},
    }
    uid = world.create(foreign)["metadata"]["uid"]
    world.start()
    world.declare(SHOP, objects.first)
    world.idle()
    route = world.route(SHOP, objects.first)
    assert route["metadata"]["uid"] == uid
    assert route["metadata"]["labels"] == objects.first.labels
    assert "defaultBackend" not in route["spec"]
    assert backend(route) == ("web", 80)
    assert world.managed()[SHOP]["ServiceName"] == "web"
