"""Manifests: reading, choosing the expose, and the effective HTTP options."""

from __future__ import annotations

import msgspec
import pytest
import yaml
from ctrlhost_hostname.errors import ResourceNotFoundError
from ctrlhost_hostname.manifest import DEFAULT_HTTP_OPTIONS, HTTPOptions, Manifest

WANTED = {"port": 3321, "external_port": 41333, "global": True, "proto": "TCP"}
EXPOSES = [
    {"port": 3125, "external_port": 41333},
    {"port": 31211, "proto": "UDP", "global": True},
    {"port": 22, "global": True},
    WANTED,
]
ZERO = {"external_port": 80, "global": True}


@pytest.mark.behaviour("hostname/1")
@pytest.mark.behaviour("hostname/70")
@pytest.mark.parametrize("options", [HTTPOptions(), HTTPOptions(read_timeout=5000, next_tries=9)])
def test_without_a_body_size_the_other_options_are_ignored(options):
    assert options.or_defaults() == DEFAULT_HTTP_OPTIONS
    assert msgspec.to_builtins(DEFAULT_HTTP_OPTIONS) == {
        "max_body_size": 1048576,
        "read_timeout": 60000,
        "send_timeout": 60000,
        "next_tries": 3,
        "next_timeout": 60000,
        "next_cases": ("error", "timeout"),
    }


@pytest.mark.behaviour("hostname/2")
def test_with_a_body_size_every_option_is_used_literally():
    options = HTTPOptions(1, 2, 3, 4, 5, ("off",))
    assert options.or_defaults() is options


@pytest.mark.parametrize(
    ("exposes", "port", "chosen"),
    [
        pytest.param(EXPOSES, 41333, 3321, marks=pytest.mark.behaviour("hostname/10")),
        pytest.param([{"port": 8081, "global": True}], 8081, 8081, marks=pytest.mark.behaviour("hostname/43")),
        # A UDP expose that is listed first.
        ([{"port": 53, **ZERO, "proto": "UDP"}, {"port": 8080, **ZERO}], 80, 53),
    ],
)
def test_the_first_global_expose_on_the_port_is_chosen(objects, exposes, port, chosen):
    manifest = objects.read_manifest([objects.service(*exposes)])
    assert manifest.find_expose(objects.first, "web", port).port == chosen


@pytest.mark.parametrize(
    ("exposes", "port"),
    [
        pytest.param(EXPOSES, 70000, marks=pytest.mark.behaviour("hostname/42")),
        pytest.param(EXPOSES, 0, marks=pytest.mark.behaviour("hostname/42")),
        pytest.param(EXPOSES, 3125, marks=pytest.mark.behaviour("hostname/44")),
        (EXPOSES, 81),
        # An expose whose own port is zero ends the search.
        ([ZERO, {"port": 80, "global": True}], 80),
    ],
)
def test_a_port_without_expose_is_not_found(objects, exposes, port):
    with pytest.raises(ResourceNotFoundError) as caught:
        objects.read_manifest([objects.service(*exposes)]).find_expose(objects.first, "web", port)
    assert str(caught.value) == (
        f"observation stopped: resource not found: service expose for {objects.first} - web - {port}"
    )


@pytest.mark.behaviour("hostname/45")
@pytest.mark.parametrize("count", [{}, {"count": 0}])
def test_a_service_without_instances_is_not_found(objects, count):
    first = {"name": "web", "expose": EXPOSES, **count}
    with pytest.raises(ResourceNotFoundError) as caught:
        objects.read_manifest([first, objects.service(*EXPOSES)]).find_expose(objects.first, "web", 41333)
    assert str(caught.value) == f"observation stopped: resource not found: service for {objects.first} - web"


@pytest.mark.behaviour("hostname/46")
@pytest.mark.parametrize("port", [70000, -1, "80", 1.5, True])
def test_a_port_of_the_wrong_type_or_range_cannot_be_decoded(objects, port):
    with pytest.raises(msgspec.ValidationError, match="port"):
        objects.read_manifest([objects.service({"port": port, "global": True})])


@pytest.mark.behaviour("hostname/72")
def test_a_case_that_yaml_reads_as_a_boolean_is_rejected(objects):
    options = yaml.safe_load("{max_body_size: 1, next_cases: [off]}")
    with pytest.raises(msgspec.ValidationError, match="next_cases"):
        objects.read_manifest([objects.service({"port": 80, "http_options": options})])


@pytest.mark.behaviour("hostname/23")
def test_a_manifest_is_named_after_its_lease_and_round_trips(objects):
    built = objects.manifest(objects.first)
    assert built["metadata"]["name"] == objects.first.namespace
    assert built["metadata"]["namespace"] == "lease"
    assert built["spec"]["lease_id"]["dseq"] == "7001"
    encoded = msgspec.json.encode(built)
    assert msgspec.json.decode(encoded) == built
    services = msgspec.json.decode(encoded, type=Manifest).spec.group.services
    assert [service.name for service in services] == ["db", "web"]
    assert msgspec.json.decode(b'{"metadata": {}}', type=Manifest).spec.group.services == ()
