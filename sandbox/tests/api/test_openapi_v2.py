"""OpenAPI v2: one document for built-in kinds and published CRDs, in both encodings."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

from sandbox.tests.api.test_discovery import references
from sandbox.tests.api.test_kubectl import KUBECTL
from sandbox.tests.conftest import Crd
from tests.support.http_client import Api
from tests.support.waiting import eventually

JSON = "application/json"
PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
RETURNED = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
GVK = "x-kubernetes-group-version-kind"
PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}
ARRAY: dict[str, Any] = {"type": "array", "items": {"type": "object"}}
#: What a version of a CRD declares, and what version 2 shows of it besides metadata, apiVersion and kind.
PUBLISHED = [
    ({"type": "object", "description": "d"}, {"type": "object", "description": "d"}),
    # At the root, unknown fields leave no fields at all: kubectl would refuse the others.
    ({"type": "object", "description": "d", **PRESERVE, "properties": {"spec": ARRAY}}, {"type": "object"}),
    (
        {"type": "object", "properties": {"a": {"type": "object", **PRESERVE, "properties": {"b": ARRAY}}, "c": ARRAY}},
        {"type": "object", "properties": {"a": PRESERVE, "c": ARRAY}},
    ),
    (
        {
            "type": "object",
            "required": ["a", "b"],
            "properties": {"a": {"type": "string", "nullable": True}, "b": {"type": "string", "enum": ["x", "y"]}},
        },
        {"type": "object", "required": ["b"], "properties": {"a": {}, "b": {"type": "string", "enum": ["x", "y"]}}},
    ),
    (
        {
            "type": "object",
            "properties": {"a": {"type": "string", "oneOf": [{"pattern": "x"}], "not": {"pattern": "y"}}},
        },
        {"type": "object", "properties": {"a": {"type": "string"}}},
    ),
]


def definitions(api: Api) -> dict[str, Any]:
    schemas: dict[str, Any] = api.get("/openapi/v2", JSON).expect(200)["definitions"]
    return schemas


def name_of(crd: Crd, version: str = "v1") -> str:
    return f"{'.'.join(reversed(crd.group.split('.')))}.{version}.{crd.kind}"


@pytest.mark.behaviour("sandbox/DI-16")
@pytest.mark.behaviour("findings/FS29")
@pytest.mark.parametrize(
    ("accept", "returned"),
    [
        (JSON, JSON),
        (None, JSON),
        ("*/*", JSON),
        (PROTOBUF, RETURNED),
        (RETURNED, RETURNED),
        (f"text/html, {JSON};q=0.5, {PROTOBUF}", RETURNED),
        ("text/html", ""),
    ],
)
def test_the_client_chooses_the_encoding(api: Api, accept: str | None, returned: str) -> None:
    answer = api.get("/openapi/v2", accept)
    assert answer.headers["vary"] == "Accept"
    if not returned:
        assert answer.status == 406
        return
    assert (answer.status, answer.headers["content-type"]) == (200, returned)
    again = api.request("GET", "/openapi/v2", headers={"Accept": accept or "", "If-None-Match": answer.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


@pytest.mark.behaviour("findings/FS29")
def test_built_in_kinds_have_definitions(api: Api) -> None:
    document = api.get("/openapi/v2", JSON).expect(200)
    assert document["swagger"] == "2.0"
    deployment = document["definitions"]["io.k8s.api.apps.v1.Deployment"]
    assert deployment[GVK] == [{"group": "apps", "version": "v1", "kind": "Deployment"}]
    assert deployment["properties"]["spec"] == {"$ref": "#/definitions/io.k8s.api.apps.v1.DeploymentSpec"}
    port = document["definitions"]["io.k8s.api.core.v1.ServicePort"]["properties"]["targetPort"]
    name = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
    assert port == {"$ref": f"#/definitions/{name}"}
    assert document["definitions"][name] == {"type": "string", "format": "int-or-string"}
    assert document["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"] == {"type": "string"}
    operation = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert operation[GVK]["kind"] == "Deployment"
    assert {"name": "fieldValidation", "in": "query", "type": "string", "uniqueItems": True} in operation["parameters"]

    assert references(document) <= {f"#/definitions/{name}" for name in document["definitions"]}


@pytest.mark.behaviour("findings/FS29")
@pytest.mark.parametrize(("declared", "published"), PUBLISHED)
def test_a_crd_has_a_definition_as_clients_of_version_2_need_it(
    api: Api, make_crd: Callable[..., Crd], declared: dict[str, Any], published: dict[str, Any]
) -> None:
    crd = make_crd(schema=declared).establish()
    definition = eventually(lambda: definitions(api).get(name_of(crd)))
    assert definition.pop(GVK) == [{"group": crd.group, "version": "v1", "kind": crd.kind}]
    fields = definition.get("properties") or {}
    own = {key: fields.pop(key) for key in ("apiVersion", "kind", "metadata") if key in fields}
    if not fields:
        definition.pop("properties", None)
    assert definition == published
    if declared.get(next(iter(PRESERVE))):
        assert own == {}
    else:
        assert own["metadata"]["$ref"] == "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


@pytest.mark.behaviour("findings/FS29")
def test_definitions_follow_the_served_versions_of_a_crd(api: Api, make_crd: Callable[..., Crd]) -> None:
    crd = make_crd()
    (version,) = crd.body["spec"]["versions"]
    crd.body["spec"]["versions"].append({**version, "name": "v2", "storage": False})
    crd.establish()
    both = {name_of(crd), name_of(crd, "v2")}
    eventually(lambda: both <= definitions(api).keys())
    # A renamed version has another definition, and one that is no longer served has none.
    obj = api.get(crd.url).expect(200)
    obj["spec"]["versions"][1]["name"] = "v3"
    api.put(crd.url, obj).expect(200)
    eventually(lambda: definitions(api).keys() & {*both, name_of(crd, "v3")} == {name_of(crd), name_of(crd, "v3")})
    obj = api.get(crd.url).expect(200)
    obj["spec"]["versions"][1]["served"] = False
    api.put(crd.url, obj).expect(200)
    eventually(lambda: name_of(crd, "v3") not in definitions(api))
    api.delete(crd.url).expect(200)
    eventually(lambda: name_of(crd) not in definitions(api))


@pytest.mark.behaviour("findings/FS29")
def test_kubectl_explains_built_in_and_custom_kinds_from_the_protobuf(
    server: Sandbox, make_crd: Callable[..., Crd]
) -> None:
    size = {"type": "integer", "description": "How large it is."}
    texts = {"type": "array", "items": {"type": "string"}}
    schema = {
        "type": "object",
        "description": "A thing for tests.",
        "properties": {"spec": {"type": "object", "properties": {"size": size, "tags": texts}}},
    }
    crd = make_crd(schema=schema).establish()

    def explained(path: str, *, group: str = "", version: str = "") -> str:
        flags = ["--kubeconfig", server.kubeconfig, f"--api-version={group or crd.group}/v1"]
        command = [*KUBECTL, "explain", path, *flags, f"--output=plaintext{version}"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 0, ended.stderr
        return " ".join(ended.stdout.split())

    assert "replicas <integer>" in explained("deployments.spec", group="apps", version="-openapiv2")
    for version in ("-openapiv2", ""):
        assert "A thing for tests." in explained(crd.plural, version=version)
        below = explained(f"{crd.plural}.spec", version=version)
        assert "size <integer> How large it is. tags <[]string>" in below
        metadata = explained(f"{crd.plural}.metadata", version=version)
        assert "Standard object's metadata" in metadata
        assert "creationTimestamp <string> CreationTimestamp is a timestamp" in metadata
