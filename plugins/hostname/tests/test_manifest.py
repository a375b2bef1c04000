"""Manifests: decoding, choosing the expose, and the effective HTTP options."""

from __future__ import annotations

import msgspec
import pytest
import yaml
from ctrlhost_hostname.errors import ManifestDecodeError, ResourceNotFoundError
from ctrlhost_hostname.manifest import (
    DEFAULT_HTTP_OPTIONS,
    HTTPOptions,
    decode_services,
    find_expose,
    fingerprint,
)


def spec_of(*services):
    return {"group": {"services": list(services)}}


@pytest.mark.behaviour("hostname/1")
def test_all_zero_options_become_the_defaults():
    assert HTTPOptions().or_defaults() == HTTPOptions(
        read_timeout=60000,
        send_timeout=60000,
        next_timeout=60000,
        max_body_size=1048576,
        next_tries=3,
        next_cases=("error", "timeout"),
    )


@pytest.mark.behaviour("hostname/70")
def test_without_a_body_size_the_other_options_are_ignored():
    assert HTTPOptions(read_timeout=5000, next_tries=9).or_defaults() == DEFAULT_HTTP_OPTIONS


@pytest.mark.behaviour("hostname/2")
def test_with_a_body_size_every_option_is_used_literally():
    options = HTTPOptions(
        max_body_size=1, read_timeout=2, send_timeout=3, next_tries=4, next_timeout=5, next_cases=("off",)
    )
    assert options.or_defaults() is options


def exposes():
    return [
        {"port": 3125, "external_port": 41333},
        {"port": 31211, "proto": "UDP", "global": True},
        {"port": 22, "global": True},
        {"port": 3321, "external_port": 41333, "global": True, "proto": "TCP"},
    ]


@pytest.mark.behaviour("hostname/10")
def test_the_first_global_expose_on_the_port_is_chosen(objects):
    services = decode_services(spec_of(objects.service(*exposes())))
    assert find_expose(services, objects.first, "web", 41333).port == 3321


@pytest.mark.behaviour("hostname/43")
def test_an_expose_without_external_port_matches_its_own_port(objects):
    services = decode_services(spec_of(objects.service({"port": 8081, "global": True})))
    assert find_expose(services, objects.first, "web", 8081).port == 8081


def test_a_udp_expose_that_is_listed_first_wins(objects):
    udp = {"port": 53, "external_port": 80, "proto": "UDP", "global": True}
    tcp = {"port": 8080, "external_port": 80, "proto": "TCP", "global": True}
    services = decode_services(spec_of(objects.service(udp, tcp)))
    assert find_expose(services, objects.first, "web", 80).port == 53


@pytest.mark.parametrize(
    "port",
    [
        pytest.param(70000, marks=pytest.mark.behaviour("hostname/42")),
        pytest.param(0, marks=pytest.mark.behaviour("hostname/42")),
        pytest.param(3125, marks=pytest.mark.behaviour("hostname/44")),
        81,
    ],
)
def test_a_port_without_expose_is_not_found(objects, port):
    services = decode_services(spec_of(objects.service(*exposes())))
    with pytest.raises(ResourceNotFoundError) as caught:
        find_expose(services, objects.first, "web", port)
    assert str(caught.value) == (
        f"observation stopped: resource not found: service expose for {objects.first} - web - {port}"
    )


def test_an_expose_whose_own_port_is_zero_ends_the_search(objects):
    first, second = {"external_port": 80, "global": True}, {"port": 80, "global": True}
    services = decode_services(spec_of(objects.service(first, second)))
    with pytest.raises(ResourceNotFoundError, match="service expose"):
        find_expose(services, objects.first, "web", 80)


@pytest.mark.behaviour("hostname/45")
@pytest.mark.parametrize("count", [0, None])
def test_a_service_without_instances_is_not_found(objects, count):
    first = {"name": "web", "count": count, "expose": exposes()}
    second = objects.service(*exposes())
    with pytest.raises(ResourceNotFoundError) as caught:
        find_expose(decode_services(spec_of(first, second)), objects.first, "web", 41333)
    assert str(caught.value) == f"observation stopped: resource not found: service for {objects.first} - web"


@pytest.mark.behaviour("hostname/46")
@pytest.mark.parametrize("port", [70000, -1, "80", 1.5, True])
def test_a_port_of_the_wrong_type_or_range_cannot_be_decoded(objects, port):
    with pytest.raises(ManifestDecodeError, match="port"):
        decode_services(spec_of(objects.service({"port": port, "global": True})))


@pytest.mark.behaviour("hostname/72")
def test_a_case_that_yaml_reads_as_a_boolean_is_rejected():
    text = """
    group:
      services:
      - {name: web, count: 1, expose: [{port: 80, global: true, http_options: {max_body_size: 1, next_cases: [off]}}]}
    """
    with pytest.raises(ManifestDecodeError, match="next_cases"):
        decode_services(yaml.safe_load(text))


def test_nulls_and_missing_fields_read_as_zero():
    assert decode_services(None) == ()
    assert decode_services({"group": None}) == ()
    (service,) = decode_services({"group": {"services": [{"name": None, "expose": [{"http_options": None}]}]}})
    assert (service.name, service.count) == ("", 0)
    assert service.expose[0].http_options == HTTPOptions()


@pytest.mark.behaviour("hostname/23")
def test_a_manifest_is_named_after_its_lease_and_round_trips(objects):
    built = objects.manifest(objects.first)
    assert built["metadata"]["name"] == objects.first.namespace
    assert built["metadata"]["namespace"] == "lease"
    assert built["spec"]["lease_id"]["dseq"] == "7001"
    again = msgspec.json.decode(msgspec.json.encode(built))
    assert again == built
    assert decode_services(again["spec"]) == decode_services(built["spec"])
    assert [service.name for service in decode_services(again["spec"])] == ["db", "web"]


def test_the_fingerprint_covers_only_cached_fields(objects):
    spec = objects.manifest(objects.first)["spec"]
    print_before = fingerprint("uid", spec)
    spec["group"]["services"][1]["image"] = "nginx:1.28"
    spec["group"]["services"][1]["credentials"] = {"password": "secret"}
    assert fingerprint("uid", spec) == print_before
    assert fingerprint("another", spec) != print_before
    spec["group"]["services"][1]["expose"][1]["http_options"]["max_body_size"] = 1
    assert fingerprint("uid", spec) != print_before
    assert fingerprint("uid", None) == fingerprint("uid", {})
