"""The routes of a hostname, Ingress and HTTPRoute: their exact content, what others added to them, and reading them."""

from __future__ import annotations

import copy

import pytest
import yaml
from ctrlhost_hostname.errors import InvalidConnectionError
from ctrlhost_hostname.gateway import GatewayRoutes
from ctrlhost_hostname.ingress import IngressRoutes
from ctrlhost_hostname.lease import LabelError
from ctrlhost_hostname.manifest import DEFAULT_HTTP_OPTIONS, HTTPOptions
from ctrlhost_hostname.routes import CONFIRM, Connection

from ctrlhost import Object

INGRESS, GATEWAY = IngressRoutes(), GatewayRoutes("akash-gateway", "akash-gateway", "16k")
BOTH = pytest.mark.parametrize("routes", [INGRESS, GATEWAY], ids=["ingress", "gateway"])
SHOP = "shop.example.com"
PREFIX = "nginx.ingress.kubernetes.io/proxy-"
KEYS = ("body-size", "next-upstream", "next-upstream-timeout", "next-upstream-tries", "read-timeout", "send-timeout")

CASE_A = """
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: shop.example.com
  namespace: ruglnkmpn88701se50j89lc8fntjk36kui864sjn5fjvm
  labels:
    akash.network: "true"
    akash.network/lease.id.owner: akash1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx
    akash.network/lease.id.dseq: "7001"
    akash.network/lease.id.gseq: "1"
    akash.network/lease.id.oseq: "1"
    akash.network/lease.id.provider: akash1v4nxw6rfdf4kcmtwdac8zunnw36hvamcjpn8js
  annotations:
    nginx.ingress.kubernetes.io/proxy-body-size: "1048576"
    nginx.ingress.kubernetes.io/proxy-next-upstream: "error timeout"
    nginx.ingress.kubernetes.io/proxy-next-upstream-timeout: "60"
    nginx.ingress.kubernetes.io/proxy-next-upstream-tries: "3"
    nginx.ingress.kubernetes.io/proxy-read-timeout: "60"
    nginx.ingress.kubernetes.io/proxy-send-timeout: "60"
spec:
  ingressClassName: akash-ingress-class
  rules:
  - host: shop.example.com
    http:
      paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]
"""
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
  rules:
  - matches: [{path: {type: PathPrefix, value: /}}]
    # The server adds group, kind and weight if they are absent.
    backendRefs: [{group: "", kind: Service, weight: 1, name: api, port: 80}]
"""


def shop(objects, routes, options=DEFAULT_HTTP_OPTIONS):
    return routes.build(objects.claim(SHOP, objects.first), options)


def from_manifest(objects, routes, hostname, lease, services, service, port):
    expose = objects.read_manifest(services).find_expose(lease, service, port)
    return routes.build(objects.claim(hostname, lease, service, port), expose.http_options.or_defaults())


def ingress(**options):
    """Return the annotations of an Ingress without their prefix."""
    return {key.removeprefix(PREFIX): value for key, value in INGRESS.annotations(HTTPOptions(**options)).items()}


def gateway(**options):
    """Return the annotations of an HTTPRoute without their prefix."""
    return {key.removeprefix("nginx.org/"): value for key, value in GATEWAY.annotations(HTTPOptions(**options)).items()}


def test_manifests_give_the_routes_of_the_examples(objects):
    built = from_manifest(objects, INGRESS, SHOP, objects.first, objects.web_services(), "web", 80)
    assert built == yaml.safe_load(CASE_A)
    built = from_manifest(objects, GATEWAY, "api.example.com", objects.third, objects.api_and_worker(), "api", 80)
    assert built == yaml.safe_load(CASE_E)


@pytest.mark.parametrize(
    ("hostname", "service", "port", "annotations"),
    [
        ("api.example.com", "api", 80, ("2097152", "error timeout http_500 http_502 http_429", "0", "5", "2", "61")),
        ("jobs.example.com", "worker", 8081, ("104857600", "off", "1", "3", "60", "30")),
    ],
)
def test_explicit_options_are_used_literally(objects, hostname, service, port, annotations):
    built = from_manifest(objects, INGRESS, hostname, objects.third, objects.api_and_worker(), service, port)
    assert built["metadata"]["annotations"] == {
        f"{PREFIX}{key}": value for key, value in zip(KEYS, annotations, strict=True)
    }
    assert built["metadata"]["namespace"] == "455pddte7cjlsapmgbimn73go7gto717pfnmuk0fuh5d8"
    backend = built["spec"]["rules"][0]["http"]["paths"][0]["backend"]
    assert backend == {"service": {"name": service, "port": {"number": port}}}


@pytest.mark.behaviour("hostname/1")
@pytest.mark.behaviour("hostname/2")
def test_a_route_has_the_port_of_the_provider_host_and_small_options_round_up(objects):
    names = ("max_body_size", "read_timeout", "send_timeout", "next_tries", "next_timeout")
    options = {**dict(zip(names, range(1, 6), strict=True)), "next_cases": ["off"]}
    expose = {"port": 80, "external_port": 22713, "global": True, "http_options": options}
    built = from_manifest(objects, INGRESS, SHOP, objects.first, [objects.service(expose)], "web", 22713)
    (path,) = built["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"] == {"name": "web", "port": {"number": 22713}}
    assert sorted(built["metadata"]["annotations"].values()) == ["1", "1", "1", "1", "4", "off"]


@pytest.mark.behaviour("hostname/19")
def test_an_http_route_has_one_parent_one_hostname_and_one_rule_without_timeouts(objects):
    spec = GATEWAY.build(objects.claim(SHOP, objects.first, port=8080), DEFAULT_HTTP_OPTIONS)["spec"]
    (parent,), (rule,) = spec["parentRefs"], spec["rules"]
    assert (parent["name"], parent["namespace"]) == ("akash-gateway", "akash-gateway")
    assert spec["hostnames"] == [SHOP]
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/"}}]
    assert [(ref["name"], ref["port"]) for ref in rule["backendRefs"]] == [("web", 8080)]
    assert rule.keys() == {"matches", "backendRefs"}


@pytest.mark.parametrize(
    ("milliseconds", "seconds"),
    [(0, "0"), (1, "1"), (999, "1"), (1000, "1"), (1001, "2"), (60001, "61"), (4294967295, "4294968")],
)
def test_times_are_rounded_up_to_seconds(milliseconds, seconds):
    times = dict.fromkeys(("read_timeout", "send_timeout", "next_timeout"), milliseconds)
    annotations = ingress(max_body_size=1, **times)
    assert {annotations[key] for key in ("read-timeout", "send-timeout", "next-upstream-timeout")} == {seconds}


@pytest.mark.behaviour("hostname/20")
@pytest.mark.behaviour("hostname/70")
@pytest.mark.parametrize("read", [5000, 60000])
def test_without_a_body_size_all_options_are_defaults(read):
    options = HTTPOptions(read_timeout=read).or_defaults()
    assert sorted(INGRESS.annotations(options).values()) == ["1048576", "3", "60", "60", "60", "error timeout"]
    assert GATEWAY.annotations(options) == {
        "nginx.org/client-max-body-size": "1048576",
        "nginx.org/proxy-buffer-size": "16k",
        "nginx.org/proxy-read-timeout": "60",
        "nginx.org/proxy-send-timeout": "60",
        "nginx.org/proxy-next-upstream-timeout": "60s",
        "nginx.org/proxy-next-upstream-tries": "3",
        "nginx.org/proxy-next-upstream": "error timeout",
    }


@pytest.mark.behaviour("hostname/71")
@pytest.mark.behaviour("hostname/22")
def test_a_body_size_alone_gives_literal_zeros_and_an_empty_list_of_cases():
    assert ingress(max_body_size=1) == dict(zip(KEYS, ("1", "", "0", "0", "0", "0"), strict=True))
    annotations = gateway(max_body_size=1, next_tries=3)
    assert "proxy-next-upstream" not in annotations
    assert (annotations["client-max-body-size"], annotations["proxy-next-upstream-tries"]) == ("1", "3")


@pytest.mark.behaviour("hostname/21")
@pytest.mark.behaviour("hostname/73")
@pytest.mark.parametrize(
    ("cases", "text"),
    [
        (("error", "502", "503", "504"), "error http_502 http_503 http_504"),
        (("429", "", "http_500"), "http_429 http_500"),
        (("",), ""),
        (("error", "", "404"), "error http_404"),
        (("off",), "off"),
    ],
)
def test_status_codes_get_a_prefix_and_empty_cases_are_skipped(cases, text):
    assert ingress(max_body_size=1, next_cases=cases)["next-upstream"] == text
    annotations = gateway(max_body_size=1, next_cases=cases)
    assert annotations.get("proxy-next-upstream", "") == text
    assert "proxy-next-upstream-timeout" not in annotations


def test_an_empty_buffer_size_leaves_its_annotation_out():
    assert "nginx.org/proxy-buffer-size" not in GatewayRoutes("g", "g", "").annotations(DEFAULT_HTTP_OPTIONS)


@pytest.mark.behaviour("hostname/53")
@BOTH
def test_foreign_metadata_and_a_status_are_not_unwanted(objects, routes):
    live = copy.deepcopy(desired := shop(objects, routes))
    live["metadata"]["annotations"]["foreign"] = live["metadata"]["labels"]["foreign"] = "yes"
    live["status"] = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}
    assert routes.unwanted(Object(live), desired) is None


@pytest.mark.parametrize(
    ("routes", "spec", "annotations"),
    [
        (INGRESS, {"tls": [{"hosts": [SHOP]}]}, {}),
        (INGRESS, {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}, {}),
        (INGRESS, {}, {CONFIRM: "true"}),
        (GATEWAY, {"useDefaultGateways": "All"}, {"nginx.org/proxy-next-upstream-timeout": "5s"}),
        (GATEWAY, {"rules": [{"timeouts": {"request": "5s"}}]}, {}),
    ],
)
def test_what_others_added_to_our_parts_is_unwanted(objects, routes, spec, annotations):
    live = copy.deepcopy(desired := shop(objects, routes, HTTPOptions(max_body_size=1)))
    live["spec"].update(spec)
    live["metadata"]["annotations"].update(annotations)
    unwanted = routes.unwanted(Object(live), desired)
    assert unwanted.get("spec", {}) == {key: desired["spec"].get(key) for key in spec}
    assert unwanted.get("metadata", {}).get("annotations", {}) == dict.fromkeys(annotations)


def changed(live, *path, to):
    copied = copy.deepcopy(live)
    place = copied
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    return Object({key: value for key, value in copied.items() if value is not None})


@BOTH
def test_a_route_reads_as_its_connection(objects, routes):
    built = shop(objects, routes)
    assert routes.connection(Object(built)) == (SHOP, Connection(objects.first, "web", 80))
    assert routes.hosts(Object(built)) == [SHOP]
    assert routes.is_plain(Object(built), SHOP)
    assert not routes.is_plain(Object(built), "other.example.com")
    assert not routes.is_plain(changed(built, "spec", "rules", to=[]), SHOP)
    with pytest.raises(LabelError):
        routes.connection(changed(built, "metadata", "labels", to={}))


def test_a_named_port_reads_as_zero_and_another_class_is_not_plain(objects):
    built = shop(objects, INGRESS)
    service = ("spec", "rules", 0, "http", "paths", 0, "backend", "service")
    assert INGRESS.connection(changed(built, *service, "port", to={"name": "http"}))[1].external_port == 0
    assert not INGRESS.is_plain(changed(built, "spec", "ingressClassName", to="nginx"), SHOP)


@pytest.mark.behaviour("hostname/31")
@pytest.mark.parametrize(
    ("routes", "spec", "message"),
    [
        (INGRESS, {}, "invalid number of rules 0"),
        (INGRESS, {"rules": [{}, {}]}, "invalid number of rules 2"),
        (INGRESS, {"rules": [{"host": SHOP}]}, "rule has no http"),
        (INGRESS, {"rules": [{"http": {"paths": [{}, {}]}}]}, "invalid number of paths 2"),
        (INGRESS, {"rules": [{"http": {"paths": [{"backend": {"resource": {}}}]}}]}, "backend has no service"),
        (GATEWAY, {}, "no hostnames specified"),
        (GATEWAY, {"hostnames": ["a"]}, "no rules specified"),
        (GATEWAY, {"hostnames": ["a"], "rules": [{}]}, "no backend refs"),
        (GATEWAY, {"hostnames": ["a"], "rules": [{"backendRefs": [{"name": "web"}]}]}, "backend ref has no port"),
    ],
)
def test_the_error_of_a_foreign_route_names_the_invalid_part(objects, routes, spec, message):
    with pytest.raises(InvalidConnectionError) as caught:
        routes.connection(Object({**shop(objects, routes), "spec": spec}))
    assert str(caught.value) == f"kube: invalid hostname connection: {message}"
