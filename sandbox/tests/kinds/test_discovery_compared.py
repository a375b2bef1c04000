"""Discovery of the sandbox and of a real kube-apiserver: both serve the same resources."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.http_client import Api

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def builtin_groups(api: Api, root: str) -> list[dict[str, Any]]:
    """Return the groups of aggregated discovery, without those of the CRDs of other tests."""
    groups: list[dict[str, Any]] = api.get(root, AGGREGATED).expect(200)["items"]
    return [group for group in groups if is_builtin(group["metadata"].get("name", ""))]


def is_builtin(group: str) -> bool:
    return "." not in group or group.endswith(".k8s.io")


def aggregated(api: Api) -> dict[tuple[str, ...], Any]:
    """Return resources and sub-resources by group, version and name."""
    resources: dict[tuple[str, ...], Any] = {}
    for root in ("/api", "/apis"):
        for group in builtin_groups(api, root):
            for version in group["versions"]:
                for resource in version["resources"]:
                    key = (group["metadata"].get("name", ""), version["version"], resource["resource"])
                    resources[key] = {**resource, "verbs": sorted(resource["verbs"])}
                    for sub in resources[key].pop("subresources", ()):
                        resources[*key, sub["subresource"]] = sub
    return resources


def listed(api: Api) -> dict[tuple[str, str], Any]:
    """Return the entries of the documents of each group version."""
    groups = [group for group in api.get("/apis").expect(200)["groups"] if is_builtin(group["name"])]
    paths = ["/api/v1", *(f"/apis/{version['groupVersion']}" for group in groups for version in group["versions"])]
    resources = {}
    for path in paths:
        for resource in api.get(path).expect(200)["resources"]:
            resource.pop("storageVersionHash", None)
            resources[path, resource["name"]] = {**resource, "verbs": sorted(resource["verbs"])}
    return resources


@pytest.mark.behaviour("findings/FS1")
@pytest.mark.behaviour("findings/FS1a")
def test_every_built_in_resource_of_a_real_server_is_served(both: tuple[Api, Api]) -> None:
    ours, theirs = map(aggregated, both)
    assert ours.keys() == theirs.keys()
    assert ours == theirs
    assert ("batch", "v1", "jobs", "status") in ours


@pytest.mark.behaviour("findings/FS1")
@pytest.mark.behaviour("findings/FS1a")
def test_the_documents_of_each_group_version_are_equal(both: tuple[Api, Api]) -> None:
    ours, theirs = map(listed, both)
    assert ours.keys() == theirs.keys()
    assert ours == theirs
    assert ours["/api/v1", "componentstatuses"]["verbs"] == ["get", "list"]


@pytest.mark.behaviour("findings/FS1")
@pytest.mark.behaviour("findings/FS1a")
def test_groups_have_the_order_and_the_preferred_versions_of_a_real_server(both: tuple[Api, Api]) -> None:
    versions = [
        [(group["metadata"]["name"], [version["version"] for version in group["versions"]]) for group in groups]
        for groups in (builtin_groups(api, "/apis") for api in both)
    ]
    assert versions[0] == versions[1]
    assert ("autoscaling", ["v2", "v1"]) in versions[0]
