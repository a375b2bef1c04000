"""Gateway API mode on the sandbox."""

from __future__ import annotations

import pytest
from ctrlhost_hostname.manifest import DEFAULT_HTTP_OPTIONS

import ctrlhost
from tests.support.go_modules import gateway_api_crds

SHOP = "shop.example.com"
HTTP_ROUTE = ("gateway.networking.k8s.io/v1", "HTTPRoute")


@pytest.fixture
def gateway(cluster, objects):
    cluster.install(objects.http_route_crd())
    return cluster


@pytest.mark.behaviour("hostname/24")
def test_a_hostname_gets_its_http_route_and_loses_it_with_the_lease(gateway, objects):
    options = {
        "read_timeout": 60000,
        "send_timeout": 60000,
        "max_body_size": 2097152,
        "next_tries": 3,
        "next_timeout": 30000,
    }
    gateway.lease(objects.first, objects.web_services(options))
    gateway.start(ingress_mode="gateway-api")
    gateway.declare(SHOP, objects.first)
    gateway.idle()
    route = gateway.route(SHOP, objects.first, HTTP_ROUTE)
    assert route["metadata"]["labels"] == objects.first.labels
    (parent,) = route["spec"]["parentRefs"]
    assert (parent["namespace"], parent["name"]) == ("akash-gateway", "akash-gateway")
    annotations = {key.removeprefix("nginx.org/"): value for key, value in route["metadata"]["annotations"].items()}
    del annotations["applied.ctrlhost.dev/hostname"]
    assert annotations == {
        "proxy-read-timeout": "60",
        "proxy-send-timeout": "60",
        "client-max-body-size": "2097152",
        "proxy-next-upstream-tries": "3",
        "proxy-next-upstream-timeout": "30s",
        "proxy-buffer-size": "16k",
    }
    assert gateway.metric("provider_kube_calls", action="gateway-httproutes-apply", result="success") == 1
    assert list(gateway.managed()) == [SHOP]
    gateway.release(SHOP)
    gateway.client.delete("akash.network/v2beta2", "Manifest", objects.first.namespace, "lease")
    gateway.idle()
    assert gateway.route(SHOP, objects.first, HTTP_ROUTE) is None
    assert gateway.managed() == {}


def undeclared(value, schema, path=""):
    """Return the paths of the fields of `value` that a structural schema would prune."""
    if isinstance(value, list):
        return [field for item in value for field in undeclared(item, schema["items"], f"{path}[]")]
    if not isinstance(value, dict):
        return []
    known = schema.get("properties", {})
    return [
        field
        for key, item in value.items()
        for field in (undeclared(item, known[key], f"{path}.{key}") if key in known else [f"{path}.{key}"])
    ]


@pytest.mark.real
@pytest.mark.behaviour("findings/FP6")
def test_the_published_schema_has_every_field_that_is_written(gateway, objects):
    published = next(crd for crd in gateway_api_crds() if crd["spec"]["names"]["kind"] == "HTTPRoute")
    schema = published["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    gateway.lease(objects.first)
    gateway.declare(SHOP, objects.first)
    gateway.start(ingress_mode="gateway-api")
    built = gateway.state.routes.build(objects.claim(SHOP, objects.first), DEFAULT_HTTP_OPTIONS)
    assert undeclared(built["spec"], schema) == []
    assert undeclared({"parentRefs": [{"namespac": "x"}]}, schema) == [".parentRefs[].namespac"]
    (parent,) = gateway.route(SHOP, objects.first, HTTP_ROUTE)["spec"]["parentRefs"]
    assert parent == built["spec"]["parentRefs"][0]


@pytest.mark.behaviour("findings/FP6")
def test_two_hundred_routes_are_written_once_each(gateway, objects):
    gateway.lease(objects.first)
    names = [f"h{number}.example" for number in range(200)]
    for name in names:
        gateway.declare(name, objects.first)
    gateway.start(ingress_mode="gateway-api", resync_interval="30m")
    assert gateway.routes(HTTP_ROUTE) == {(objects.first.namespace, name) for name in names}
    gateway.after(1800)

    def calls(action):
        results = ("success", "fail")
        return sum(gateway.metric("provider_kube_calls", action=action, result=result) for result in results)

    assert calls("gateway-httproutes-apply") == 200
    assert calls("gateway-httproutes-update") == 0
    assert calls("gateway-httproutes-delete") == 0
    assert {route["metadata"]["generation"] for route in gateway.client.list(*HTTP_ROUTE, objects.first.namespace)} == {
        1
    }


@pytest.mark.behaviour("hostname/78")
def test_a_move_removes_the_old_http_route_or_finds_it_gone(gateway, objects):
    for lease in (objects.first, objects.second):
        gateway.lease(lease)
    gateway.declare(SHOP, objects.first)
    gateway.start(ingress_mode="gateway-api")
    gateway.move(SHOP, objects.second)
    gateway.idle()
    assert gateway.routes(HTTP_ROUTE) == {(objects.second.namespace, SHOP)}
    gone = ctrlhost.NotFound(f'httproutes.gateway.networking.k8s.io "{SHOP}" not found')
    gateway.host.faults.next("delete", gone, resource="httproutes")
    gateway.move(SHOP, objects.first)
    gateway.idle()
    assert gateway.host.faults.left() == 0
    assert gateway.route(SHOP, objects.first, HTTP_ROUTE) is not None
    assert gateway.managed()[SHOP]["LeaseID"]["dseq"] == objects.first.dseq
    assert gateway.ignored() == {}


def test_a_restart_reads_the_http_routes_and_writes_none(gateway, objects):
    gateway.lease(objects.first)
    gateway.declare(SHOP, objects.first)
    gateway.start(ingress_mode="gateway-api")
    before = gateway.revision(HTTP_ROUTE)
    gateway.touch(SHOP, "again")
    gateway.idle()
    gateway.stop()
    gateway.start(ingress_mode="gateway-api")
    assert list(gateway.managed()) == [SHOP]
    assert gateway.revision(HTTP_ROUTE) == before


def test_without_the_crds_of_the_gateway_api_the_plugin_waits(cluster, objects):
    cluster.lease(objects.first)
    cluster.declare(SHOP, objects.first)
    cluster.start(ingress_mode="gateway-api")
    (runtime,) = cluster.host.host.plugins
    assert runtime.state == "waiting"
    assert "HTTPRoute" in runtime.reason or "httproutes" in runtime.reason
    assert cluster.get("/health").status == 200
