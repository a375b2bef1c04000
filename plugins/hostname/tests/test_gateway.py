"""The HTTPRoute of a hostname and the annotations for NGINX."""

from __future__ import annotations

import copy

import pytest
import yaml
from ctrlhost_hostname.errors import InvalidConnectionError
from ctrlhost_hostname.gateway import GatewayRoutes, NginxProvider
from ctrlhost_hostname.manifest import DEFAULT_HTTP_OPTIONS, HTTPOptions, decode_services, find_expose
from ctrlhost_hostname.routes import Connection, Directive

from ctrlhost import Object

nginx = NginxProvider("16k")
routes = GatewayRoutes("akash-gateway", "akash-gateway", nginx)

CASE_E = """
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: api.example.com
  namespace: 455pddte7cjlsapmgbimn73go7gto717pfnmuk0fuh5d8
  labels:
    akash.network: "true"
    akash.network/lease.id.owner: akash19y4zktpd9chnqvfjxv6r2d3h8qun5weuymg2r6
    akash.network/lease.id.dseq: "9100"
    akash.network/lease.id.gseq: "2"
    akash.network/lease.id.oseq: "3"
    akash.network/lease.id.provider: akash1v4nxw6rfdf4kcmtwdac8zunnw36hvamcjpn8js
  annotations:
    nginx.org/client-max-body-size: "2097152"
    nginx.org/proxy-buffer-size: 16k
    nginx.org/proxy-next-upstream: "error timeout http_500 http_502 http_429"
    nginx.org/proxy-next-upstream-tries: "5"
    nginx.org/proxy-read-timeout: "2"
    nginx.org/proxy-send-timeout: "61"
spec:
  parentRefs: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: akash-gateway, name: akash-gateway}]
  hostnames: [api.example.com]
  rules: [{matches: [{path: {type: PathPrefix, value: /}}], backendRefs: [{name: api, port: 80}]}]
"""


def annotations(**options):
    given = nginx.annotations(HTTPOptions(**options))
    return {key.removeprefix("nginx.org/"): value for key, value in given.items()}


def directive(objects, port=80, options=DEFAULT_HTTP_OPTIONS):
    return Directive("shop.example.com", objects.first, "web", port, options)


def test_explicit_options_give_the_http_route_of_the_example(objects):
    services = decode_services({"group": {"services": objects.api_and_worker()}})
    options = find_expose(services, objects.third, "api", 80).http_options.or_defaults()
    built = routes.build(Directive("api.example.com", objects.third, "api", 80, options))
    assert built == yaml.safe_load(CASE_E)


@pytest.mark.behaviour("hostname/19")
def test_a_route_has_one_parent_one_hostname_and_one_rule_without_timeouts(objects):
    spec = routes.build(directive(objects, port=8080))["spec"]
    (parent,) = spec["parentRefs"]
    assert (parent["name"], parent["namespace"]) == ("akash-gateway", "akash-gateway")
    assert spec["hostnames"] == ["shop.example.com"]
    (rule,) = spec["rules"]
    assert rule == {
        "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
        "backendRefs": [{"name": "web", "port": 8080}],
    }


@pytest.mark.behaviour("hostname/20")
def test_the_next_timeout_has_a_unit_and_the_others_have_none():
    given = annotations(
        max_body_size=1048576,
        read_timeout=60000,
        send_timeout=60000,
        next_timeout=30000,
        next_tries=3,
        next_cases=("error", "timeout"),
    )
    assert given == {
        "client-max-body-size": "1048576",
        "proxy-buffer-size": "16k",
        "proxy-read-timeout": "60",
        "proxy-send-timeout": "60",
        "proxy-next-upstream-timeout": "30s",
        "proxy-next-upstream-tries": "3",
        "proxy-next-upstream": "error timeout",
    }


@pytest.mark.behaviour("hostname/21")
def test_status_codes_get_a_prefix_and_an_unlimited_next_timeout_is_absent():
    given = annotations(max_body_size=1, next_cases=("error", "502", "503", "504"), next_timeout=0)
    assert given["proxy-next-upstream"] == "error http_502 http_503 http_504"
    assert "proxy-next-upstream-timeout" not in given


@pytest.mark.behaviour("hostname/22")
def test_without_cases_the_annotation_is_absent():
    given = annotations(max_body_size=1048576, next_tries=3)
    assert "proxy-next-upstream" not in given
    assert given["client-max-body-size"] == "1048576"
    assert given["proxy-next-upstream-tries"] == "3"


@pytest.mark.behaviour("hostname/73")
@pytest.mark.parametrize(
    ("cases", "text"),
    [
        (("429", "", "http_500"), "http_429 http_500"),
        (("",), None),
    ],
)
def test_status_codes_get_a_prefix_and_empty_cases_are_skipped(cases, text):
    assert annotations(max_body_size=1, next_cases=cases).get("proxy-next-upstream") == text


def test_an_empty_buffer_size_leaves_its_annotation_out():
    assert "nginx.org/proxy-buffer-size" not in NginxProvider("").annotations(DEFAULT_HTTP_OPTIONS)


def test_defaults_of_the_server_are_no_difference(objects):
    desired = routes.build(directive(objects))
    live = copy.deepcopy(desired)
    live["spec"]["rules"][0]["backendRefs"][0].update({"group": "", "kind": "Service", "weight": 1})
    del live["spec"]["parentRefs"][0]["kind"]
    live["metadata"]["annotations"]["foreign"] = "yes"
    live["status"] = {"parents": []}
    assert not routes.differs(Object(live), desired)


@pytest.mark.parametrize("change", ["annotation", "label", "weight", "hostnames", "parent", "timeouts", "nothing left"])
def test_a_change_of_our_own_parts_is_a_difference(objects, change):
    desired = routes.build(directive(objects, options=HTTPOptions(max_body_size=1)))
    live = copy.deepcopy(desired)
    match change:
        case "annotation":
            live["metadata"]["annotations"]["nginx.org/proxy-next-upstream-timeout"] = "5s"
        case "label":
            del live["metadata"]["labels"]["akash.network"]
        case "weight":
            live["spec"]["rules"][0]["backendRefs"][0]["weight"] = 2
        case "hostnames":
            live["spec"]["hostnames"].append("other.example.com")
        case "parent":
            live["spec"]["parentRefs"][0]["name"] = "other"
        case "timeouts":
            live["spec"]["rules"][0]["timeouts"] = {"request": "5s"}
        case _:
            live = {"metadata": {"name": "shop.example.com"}}
    assert routes.differs(Object(live), desired)


def test_a_route_reads_as_its_connection(objects):
    built = routes.build(directive(objects))
    built["spec"]["hostnames"].append("second.example.com")
    built = Object(built)
    assert routes.connection(built) == Connection("shop.example.com", objects.first, "web", 80)
    assert not routes.is_plain(built, "shop.example.com")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "no hostnames specified"),
        ({"hostnames": ["a"]}, "no rules specified"),
        ({"hostnames": ["a"], "rules": [{}]}, "no backend refs"),
        ({"hostnames": ["a"], "rules": [{"backendRefs": [{"name": "web"}]}]}, "backend ref has no port"),
    ],
)
def test_the_error_of_a_foreign_route_names_the_invalid_part(objects, spec, message):
    live = Object({**routes.build(directive(objects)), "spec": spec})
    with pytest.raises(InvalidConnectionError) as caught:
        routes.connection(live)
    assert str(caught.value) == f"kube: invalid hostname connection: {message}"
