"""Discovery, version, health and OpenAPI, over the wire."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from sandbox.tests.conftest import Crd
from tests.support.http_client import Api
from tests.support.waiting import eventually

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
VERSION_KEYS = [
    "major",
    "minor",
    "gitVersion",
    "gitCommit",
    "gitTreeState",
    "buildDate",
    "goVersion",
    "compiler",
    "platform",
]


@pytest.mark.behaviour("sandbox/DI-01")
@pytest.mark.parametrize("path", ["/version", "/version/"])
def test_the_version_has_all_nine_strings(api: Api, path: str) -> None:
    listing = api.get(path).expect(200)
    assert sorted(listing) == sorted(VERSION_KEYS)
    assert all(isinstance(value, str) and value for value in listing.values())


@pytest.mark.behaviour("sandbox/DI-02")
@pytest.mark.parametrize("path", ["/api", "/api/"])
def test_the_core_group_lists_its_versions(api: Api, path: str) -> None:
    listing = api.get(path, "application/json").expect(200)
    assert listing["kind"] == "APIVersions"
    assert "v1" in listing["versions"]
    assert isinstance(listing["serverAddressByClientCIDRs"], list)


@pytest.mark.behaviour("sandbox/DI-03")
@pytest.mark.parametrize("path", ["/apis", "/apis/"])
def test_groups_are_listed(api: Api, path: str) -> None:
    groups = api.get(path).expect(200)
    assert groups["kind"] == "APIGroupList"
    apps = next(group for group in groups["groups"] if group["name"] == "apps")
    assert apps["versions"][0]["groupVersion"] == "apps/v1"
    assert apps["preferredVersion"]["version"] == "v1"


@pytest.mark.behaviour("sandbox/DI-04")
def test_resources_of_the_core_group(api: Api) -> None:
    resources = {item["name"]: item for item in api.get("/api/v1").expect(200)["resources"]}
    assert {"pods", "pods/status", "namespaces", "services", "secrets", "configmaps", "events"} <= resources.keys()
    for item in resources.values():
        assert {"name", "singularName", "namespaced", "kind", "verbs"} <= item.keys()
    assert "po" in resources["pods"]["shortNames"]
    assert resources["pods/eviction"] == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": ["create"],
    }


@pytest.mark.behaviour("sandbox/DI-05")
def test_scale_is_a_kind_of_another_group(api: Api) -> None:
    resources = {item["name"]: item for item in api.get("/apis/apps/v1").expect(200)["resources"]}
    scale = resources["deployments/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")


@pytest.mark.behaviour("sandbox/DI-06")
def test_one_group(api: Api) -> None:
    document = api.get("/apis/apps").expect(200)
    assert (document["kind"], document["name"]) == ("APIGroup", "apps")


@pytest.mark.behaviour("sandbox/DI-07")
@pytest.mark.parametrize("version", ["v2", "v2beta1"])
def test_aggregated_discovery(api: Api, version: str) -> None:
    answer = api.get("/apis", AGGREGATED.replace("v=v2", f"v={version}"))
    assert answer.headers["content-type"] == AGGREGATED.replace("v=v2", f"v={version}")
    items = {item["metadata"]["name"]: item for item in answer.expect(200)["items"]}
    (served,) = items["apps"]["versions"]
    assert served["version"] == "v1"
    entry = {item["resource"]: item for item in served["resources"]}["deployments"]
    assert (entry["responseKind"]["kind"], entry["scope"]) == ("Deployment", "Namespaced")
    assert {sub["subresource"] for sub in entry["subresources"]} == {"status", "scale"}


@pytest.mark.behaviour("findings/FS29")
@pytest.mark.parametrize(
    "resource",
    [
        *("admissionregistration.k8s.io/v1/validatingwebhookconfigurations", "apps/v1/deployments"),
        *("apiextensions.k8s.io/v1/customresourcedefinitions", "apiregistration.k8s.io/v1/apiservices"),
        *("authentication.k8s.io/v1/tokenreviews", "authorization.k8s.io/v1/selfsubjectaccessreviews"),
        *("autoscaling/v1/horizontalpodautoscalers", "autoscaling/v2/horizontalpodautoscalers", "batch/v1/jobs"),
        *("certificates.k8s.io/v1/certificatesigningrequests", "coordination.k8s.io/v1/leases"),
        *("discovery.k8s.io/v1/endpointslices", "events.k8s.io/v1/events", "networking.k8s.io/v1/ingresses"),
        *("node.k8s.io/v1/runtimeclasses", "policy/v1/poddisruptionbudgets", "scheduling.k8s.io/v1/priorityclasses"),
        "storage.k8s.io/v1/csinodes",
    ],
)
def test_aggregated_discovery_has_every_group_of_a_real_server(api: Api, resource: str) -> None:
    group, version, plural = resource.split("/")
    answer = api.get("/apis", AGGREGATED)
    assert answer.headers["content-type"] == AGGREGATED
    (listed,) = [item for item in answer.expect(200)["items"] if item["metadata"]["name"] == group]
    (served,) = [entry for entry in listed["versions"] if entry["version"] == version]
    assert plural in [entry["resource"] for entry in served["resources"]]


@pytest.mark.behaviour("sandbox/DI-08")
def test_aggregated_discovery_of_the_core_group(api: Api) -> None:
    (item,) = api.get("/api", AGGREGATED).expect(200)["items"]
    assert "name" not in item["metadata"]
    pods = next(resource for resource in item["versions"][0]["resources"] if resource["resource"] == "pods")
    assert pods["singularResource"] == "pod"


@pytest.mark.behaviour("sandbox/DI-09")
@pytest.mark.behaviour("sandbox/DI-10")
def test_discovery_is_sent_again_only_when_it_changed(api: Api, make_crd: Callable[..., Crd]) -> None:
    first = api.get("/apis", AGGREGATED)
    etag = first.headers["etag"]
    headers = {"Accept": AGGREGATED, "If-None-Match": etag}
    again = api.request("GET", "/apis", headers=headers)
    assert (again.status, again.body) == (304, b"")
    # A client's cache adopts the headers of the 304.
    for name in ("content-type", "etag", "vary", "cache-control"):
        assert again.headers[name] == first.headers[name], name
    crd = make_crd().establish()
    changed = api.request("GET", "/apis", headers=headers)
    assert changed.status == 200
    assert changed.headers["etag"] != etag
    assert any(item["metadata"].get("name") == crd.group for item in changed.json()["items"])


@pytest.mark.behaviour("sandbox/DI-11")
@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health_needs_no_credentials(api: Api, path: str) -> None:
    answer = api.request("GET", path, headers={"Authorization": ""})
    assert (answer.status, answer.body) == (200, b"ok")
    assert b"[+]" in api.get(path, verbose="").body


@pytest.mark.behaviour("sandbox/DI-12")
@pytest.mark.behaviour("sandbox/DI-13")
@pytest.mark.behaviour("sandbox/DI-20")
@pytest.mark.parametrize(
    "path",
    [
        "/apis/nope.example.org/v1/things",
        "/apis/apps/v1/nopes",
        "/api/v1/namespaces/default/nodes/x",
        "/apis/nope",
        "/x",
    ],
)
def test_an_unknown_path_is_404(api: Api, path: str) -> None:
    assert api.get(path).status == 404


@pytest.mark.behaviour("findings/FS3")
def test_a_kind_that_is_not_served_is_404_and_logged_once(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    custom = "/apis/unserved.example.org/v1/namespaces/default/gizmos"
    for _ in range(3):
        answer = api.get(custom)
        assert (answer.status, answer.body) == (404, b"404 page not found\n")
        api.get("/apis/batch/v1/namespaces/default/gizmos/x").fails(404, "NotFound")
    # An object that is missing is not a kind that is missing.
    api.get("/apis/batch/v1/namespaces/default/jobs/x").fails(404, "NotFound")
    logged = [record.getMessage() for record in caplog.records if "not served" in record.getMessage()]
    assert logged == [
        "kind not served: gizmos.unserved.example.org in version v1; create its CRD first",
        "kind not served: gizmos.batch in version v1; create its CRD first",
    ]


def test_an_unknown_resource_of_a_built_in_group_is_a_status(api: Api) -> None:
    api.get("/apis/apps/v1/nopes").fails(404, "NotFound")
    assert api.get("/apis/nope.example.org/v1/things").body == b"404 page not found\n"


@pytest.mark.behaviour("sandbox/DI-14")
@pytest.mark.behaviour("sandbox/DI-15")
def test_openapi_v3_of_a_built_in_group(api: Api) -> None:
    paths = api.get("/openapi/v3").expect(200)["paths"]
    groups = api.get("/apis").expect(200)["groups"]
    served = {f"apis/{version['groupVersion']}" for group in groups for version in group["versions"]}
    assert {"api/v1", "apis/apps/v1"} <= {"api/v1", *served} <= paths.keys()
    for path, entry in paths.items():
        assert re.fullmatch(rf"/openapi/v3/{path}\?hash=\w+", entry["serverRelativeURL"])
    url = paths["apis/apps/v1"]["serverRelativeURL"]
    answer = api.get(url)
    assert "immutable" in answer.headers["cache-control"]
    document = answer.expect(200)
    gvk = {"group": "apps", "version": "v1", "kind": "Deployment"}
    schemas = document["components"]["schemas"].values()
    (schema,) = [item for item in schemas if gvk in item.get("x-kubernetes-group-version-kind", [])]
    assert {"spec", "status", "metadata", "kind"} <= schema["properties"].keys()
    kinds = [kind for item in schemas for kind in item.get("x-kubernetes-group-version-kind", [])]
    resources = api.get("/apis/apps/v1").expect(200)["resources"]
    assert [item["kind"] for item in resources if {**gvk, "kind": item["kind"]} not in kinds] == ["Scale"] * 3
    patches = [item["patch"] for item in document["paths"].values() if "patch" in item]
    assert len([item for item in patches if item["x-kubernetes-group-version-kind"] == gvk]) == 2
    for operation in patches:
        parameters = {(parameter["name"], parameter["in"]) for parameter in operation["parameters"]}
        assert ("fieldValidation", "query") in parameters, operation["x-kubernetes-group-version-kind"]
    # Another hash leads to the document of today.
    stale = f"{api.url}{url.replace('hash=', 'hash=0')}"
    moved = api.pool.request("GET", stale, headers={"Authorization": f"Bearer {api.token}"}, redirect=False)
    assert (moved.status, moved.headers["location"]) == (301, url)


def references(value: Any) -> set[str]:
    """Return the targets of all `$ref` in a document."""
    if isinstance(value, list):
        return {ref for item in value for ref in references(item)}
    if not isinstance(value, dict):
        return set()
    targets = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
    return targets.union(*(references(item) for item in value.values()))


def test_every_reference_in_openapi_resolves(api: Api) -> None:
    for entry in api.get("/openapi/v3").expect(200)["paths"].values():
        document = api.get(entry["serverRelativeURL"]).expect(200)
        known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
        assert references(document) <= known


@pytest.mark.behaviour("sandbox/DI-17")
@pytest.mark.behaviour("sandbox/DI-18")
def test_openapi_and_discovery_follow_a_crd(api: Api, widgets: Crd) -> None:
    key = f"apis/{widgets.group}/v1"
    url = eventually(lambda: api.get("/openapi/v3").json()["paths"].get(key))["serverRelativeURL"]
    schemas = api.get(url).expect(200)["components"]["schemas"]
    (schema,) = [item for item in schemas.values() if "x-kubernetes-group-version-kind" in item]
    assert schema["x-kubernetes-group-version-kind"] == [{"group": widgets.group, "version": "v1", "kind": "Widget"}]
    assert schema["properties"]["spec"]["properties"].keys() == {"size", "color"}
    api.delete(widgets.url).expect(200)
    eventually(lambda: widgets.group not in [item["name"] for item in api.get("/apis").json()["groups"]])
    assert key not in api.get("/openapi/v3").json()["paths"]


@pytest.mark.behaviour("sandbox/DI-19")
def test_empty_and_unknown_query_parameters_are_ignored(api: Api) -> None:
    assert len(api.get("/api/v1/namespaces?&limit=1&bogus=1").expect(200)["items"]) == 1
