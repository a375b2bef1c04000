"""The Ingress of a hostname: its exact content, its differences, and reading it."""

from __future__ import annotations

import copy

import pytest
import yaml
from ctrlhost_hostname.errors import InvalidConnectionError
from ctrlhost_hostname.ingress import IngressRoutes, ingress_annotations
from ctrlhost_hostname.lease import LabelError
from ctrlhost_hostname.manifest import DEFAULT_HTTP_OPTIONS, HTTPOptions, decode_services, find_expose
from ctrlhost_hostname.routes import Connection, Directive

from ctrlhost import Object

routes = IngressRoutes()

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


def directive(objects, hostname="shop.example.com", lease=None, options=DEFAULT_HTTP_OPTIONS):
    return Directive(hostname, lease or objects.first, "web", 80, options)


def from_manifest(objects, hostname, lease, services, service, port):
    expose = find_expose(decode_services({"group": {"services": services}}), lease, service, port)
    return Directive(hostname, lease, service, port, expose.http_options.or_defaults())


def test_a_manifest_without_options_gives_the_default_ingress(objects):
    built = from_manifest(objects, "shop.example.com", objects.first, objects.web_services(), "web", 80)
    assert routes.build(built) == yaml.safe_load(CASE_A)


@pytest.mark.parametrize(
    ("hostname", "service", "port", "annotations"),
    [
        ("api.example.com", "api", 80, ("2097152", "error timeout http_500 http_502 http_429", "0", "5", "2", "61")),
        ("jobs.example.com", "worker", 8081, ("104857600", "off", "1", "3", "60", "30")),
    ],
)
def test_explicit_options_are_used_literally(objects, hostname, service, port, annotations):
    built = routes.build(from_manifest(objects, hostname, objects.third, objects.api_and_worker(), service, port))
    prefix = "nginx.ingress.kubernetes.io/proxy-"
    keys = (
        "body-size",
        "next-upstream",
        "next-upstream-timeout",
        "next-upstream-tries",
        "read-timeout",
        "send-timeout",
    )
    assert built["metadata"]["annotations"] == {
        prefix + key: value for key, value in zip(keys, annotations, strict=True)
    }
    assert built["metadata"]["namespace"] == "455pddte7cjlsapmgbimn73go7gto717pfnmuk0fuh5d8"
    assert built["spec"]["rules"][0]["http"]["paths"][0]["backend"] == {
        "service": {"name": service, "port": {"number": port}}
    }


@pytest.mark.behaviour("hostname/1")
def test_a_directive_has_the_port_of_the_provider_host(objects):
    built = Directive("h.example", objects.first, "web", 1337, HTTPOptions().or_defaults())
    ingress = routes.build(built)
    assert ingress["metadata"]["name"] == "h.example"
    assert ingress["metadata"]["labels"] == objects.first.labels
    assert ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"] == {
        "name": "web",
        "port": {"number": 1337},
    }


@pytest.mark.behaviour("hostname/2")
def test_small_options_round_up_and_the_external_port_is_used(objects):
    options = {
        "max_body_size": 1,
        "read_timeout": 2,
        "send_timeout": 3,
        "next_tries": 4,
        "next_timeout": 5,
        "next_cases": ["off"],
    }
    expose = {"port": 80, "external_port": 22713, "global": True, "http_options": options}
    built = from_manifest(objects, "h.example", objects.first, [objects.service(expose)], "web", 22713)
    assert built.service_port == 22713
    assert built.options == HTTPOptions(1, 2, 3, 4, 5, ("off",))
    assert sorted(ingress_annotations(built.options).values()) == ["1", "1", "1", "1", "4", "off"]


@pytest.mark.parametrize(
    ("milliseconds", "seconds"),
    [(0, "0"), (1, "1"), (999, "1"), (1000, "1"), (1001, "2"), (60001, "61"), (4294967295, "4294968")],
)
def test_times_are_rounded_up_to_seconds(milliseconds, seconds):
    annotations = ingress_annotations(
        HTTPOptions(max_body_size=1, read_timeout=milliseconds, send_timeout=milliseconds, next_timeout=milliseconds)
    )
    for key in ("read-timeout", "send-timeout", "next-upstream-timeout"):
        assert annotations[f"nginx.ingress.kubernetes.io/proxy-{key}"] == seconds


@pytest.mark.behaviour("hostname/70")
def test_a_read_timeout_alone_gives_all_six_defaults():
    annotations = ingress_annotations(HTTPOptions(read_timeout=5000).or_defaults())
    assert sorted(annotations.values()) == sorted(["1048576", "error timeout", "60", "3", "60", "60"])


@pytest.mark.behaviour("hostname/71")
def test_a_body_size_alone_gives_literal_zeros_and_an_empty_list_of_cases():
    annotations = ingress_annotations(HTTPOptions(max_body_size=1).or_defaults())
    prefix = "nginx.ingress.kubernetes.io/proxy-"
    assert annotations == {
        f"{prefix}body-size": "1",
        f"{prefix}next-upstream": "",
        f"{prefix}next-upstream-timeout": "0",
        f"{prefix}next-upstream-tries": "0",
        f"{prefix}read-timeout": "0",
        f"{prefix}send-timeout": "0",
    }


@pytest.mark.behaviour("hostname/73")
@pytest.mark.parametrize(
    ("cases", "text"),
    [
        (("429", "", "http_500"), "http_429 http_500"),
        (("",), ""),
        (("error", "", "404"), "error http_404"),
        (("off",), "off"),
    ],
)
def test_status_codes_get_a_prefix_and_empty_cases_are_skipped(cases, text):
    annotations = ingress_annotations(HTTPOptions(max_body_size=1, next_cases=cases))
    assert annotations["nginx.ingress.kubernetes.io/proxy-next-upstream"] == text


def changed(live, *path, to):
    copied = Object(live).to_dict()
    place = copied
    for step in path[:-1]:
        place = place[step]
    if to is None:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return Object(copied)


@pytest.mark.behaviour("hostname/53")
def test_foreign_parts_are_no_difference(objects):
    desired = routes.build(directive(objects))
    assert not routes.differs(Object(desired), desired)
    live = copy.deepcopy(desired)
    live["metadata"]["annotations"]["foreign"] = "yes"
    live["metadata"]["labels"]["foreign"] = "yes"
    live["metadata"]["finalizers"] = ["foreign/finalizer"]
    live["status"] = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}
    assert not routes.differs(Object(live), desired)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata", "labels", "akash.network"), None),
        (("metadata", "labels", "akash.network/lease.id.dseq"), "1"),
        (("metadata", "annotations", "nginx.ingress.kubernetes.io/proxy-body-size"), "2"),
        (("metadata", "annotations"), None),
        (("spec", "ingressClassName"), "nginx"),
        (("spec", "rules", 0, "host"), "other.example.com"),
        (("spec", "rules", 0, "http", "paths", 0, "backend", "service", "name"), "db"),
        (("spec", "rules", 0, "http", "paths", 0, "backend", "service", "port"), {"name": "http"}),
        (("spec", "rules"), None),
        (("spec", "tls"), [{"hosts": ["shop.example.com"]}]),
        (("spec", "defaultBackend"), {"service": {"name": "web", "port": {"number": 80}}}),
        (("spec",), None),
    ],
)
def test_a_change_of_our_own_parts_is_a_difference(objects, path, value):
    desired = routes.build(directive(objects))
    assert routes.differs(changed(desired, *path, to=value), desired)


def test_an_ingress_reads_as_its_connection(objects):
    built = Object(routes.build(directive(objects)))
    assert routes.connection(built) == Connection("shop.example.com", objects.first, "web", 80)
    named = changed(built, "spec", "rules", 0, "http", "paths", 0, "backend", "service", "port", to={"name": "http"})
    assert routes.connection(named).service_port == 0
    assert routes.is_plain(built, "shop.example.com")
    assert not routes.is_plain(built, "other.example.com")
    assert not routes.is_plain(changed(built, "spec", "ingressClassName", to=None), "shop.example.com")


@pytest.mark.behaviour("hostname/31")
@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("spec", "rules"), None, "invalid number of rules 0"),
        (("spec", "rules"), [{}, {}], "invalid number of rules 2"),
        (("spec", "rules", 0, "http"), None, "rule has no http"),
        (("spec", "rules", 0, "http", "paths"), [{}, {}], "invalid number of paths 2"),
        (
            ("spec", "rules", 0, "http", "paths", 0, "backend"),
            {"resource": {"kind": "Bucket"}},
            "backend has no service",
        ),
        (("spec",), None, "invalid number of rules 0"),
    ],
)
def test_the_error_of_a_foreign_ingress_names_the_invalid_part(objects, path, value, message):
    live = changed(routes.build(directive(objects)), *path, to=value)
    with pytest.raises(InvalidConnectionError) as caught:
        routes.connection(live)
    assert str(caught.value) == f"kube: invalid hostname connection: {message}"


def test_an_ingress_without_labels_is_not_a_connection(objects):
    with pytest.raises(LabelError):
        routes.connection(changed(routes.build(directive(objects)), "metadata", "labels", to=None))
