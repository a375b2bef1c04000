"""Strategic merge patch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.http_client import STRATEGIC, Api
from tests.support.objects import config_map, container, core, service


def containers(answer: dict[str, Any]) -> list[dict[str, Any]]:
    merged: list[dict[str, Any]] = answer["spec"]["template"]["spec"]["containers"]
    return merged


def pod_patch(**spec: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": spec}}}


@pytest.mark.behaviour("sandbox/PA-09")
@pytest.mark.behaviour("sandbox/PA-10")
@pytest.mark.behaviour("sandbox/PA-11")
def test_strategic_merge_matches_items_by_key(api: Api, deploy: str) -> None:
    a, b = containers(api.get(deploy).expect(200))
    patch = pod_patch(containers=[{"name": "b", "image": "nginx:2"}])
    b["image"] = "nginx:2"
    assert containers(api.patch(deploy, patch, STRATEGIC).expect(200)) == [a, b]
    order = [{"name": name} for name in "bca"]
    patch = pod_patch(**{"containers": [container("c", "c:1")], "$setElementOrder/containers": order})
    merged = containers(api.patch(deploy, patch, STRATEGIC).expect(200))
    assert (merged[0], merged[1]["name"], merged[1]["image"], merged[2:]) == (b, "c", "c:1", [a])
    patch = pod_patch(containers=[{"name": "a", "$patch": "delete"}])
    assert containers(api.patch(deploy, patch, STRATEGIC).expect(200)) == [b, merged[1]]
    patch = pod_patch(containers=[{"name": "c", "$patch": "delete"}])
    assert containers(api.patch(deploy, patch, STRATEGIC).expect(200)) == [b]


@pytest.mark.behaviour("sandbox/PA-12")
def test_strategic_merge_deletes_from_a_list_of_strings(api: Api, ns: str) -> None:
    finalizers = ["t.example.org/x", "t.example.org/y"]
    api.post(core(ns, "configmaps"), config_map(finalizers=finalizers)).expect(201)
    path = core(ns, "configmaps", "a")
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": finalizers[:1]}}
    assert api.patch(path, patch, STRATEGIC).expect(200)["metadata"]["finalizers"] == finalizers[1:]
    patch = {"metadata": {"finalizers": ["t.example.org/z"]}}
    # As on a real server, the items of a patch come before the others.
    assert api.patch(path, patch, STRATEGIC).expect(200)["metadata"]["finalizers"] == ["t.example.org/z", finalizers[1]]


@pytest.mark.behaviour("sandbox/PA-13")
def test_strategic_merge_drops_keys_that_are_not_retained(api: Api, deploy: str) -> None:
    strategy = api.get(deploy).expect(200)["spec"]["strategy"]
    assert (strategy["type"], "rollingUpdate" in strategy) == ("RollingUpdate", True)
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert api.patch(deploy, patch, STRATEGIC).expect(200)["spec"]["strategy"] == {"type": "Recreate"}


@pytest.mark.behaviour("sandbox/PA-14")
def test_strategic_merge_of_ports(api: Api, ns: str) -> None:
    body = service("s", {"name": "a", "port": 80}, {"name": "b", "port": 443})
    first, second = api.post(core(ns, "services"), body).expect(201)["spec"]["ports"]
    patch = {"spec": {"ports": [{"port": 443, "name": "c"}]}}
    ports = api.patch(core(ns, "services", "s"), patch, STRATEGIC).expect(200)["spec"]["ports"]
    assert ports == [first, {**second, "name": "c"}]


@pytest.mark.behaviour("sandbox/PA-15")
@pytest.mark.behaviour("sandbox/PA-21")
def test_strategic_merge_below_containers(api: Api, deploy: str) -> None:
    patch = pod_patch(tolerations=[{"key": "t2", "operator": "Exists"}])
    spec = api.patch(deploy, patch, STRATEGIC).expect(200)["spec"]["template"]["spec"]
    assert spec["tolerations"] == [{"key": "t2", "operator": "Exists"}]
    mounts = [{"mountPath": "/v", "readOnly": True}]
    patch = pod_patch(containers=[{"name": "a", "env": [{"name": "y", "value": "9"}], "volumeMounts": mounts}])
    merged = containers(api.patch(deploy, patch, STRATEGIC).expect(200))[0]
    assert [(item["name"], item["value"]) for item in merged["env"]] == [("x", "1"), ("y", "9")]
    read_only = {"name": "v", "mountPath": "/v", "readOnly": True}
    assert merged["volumeMounts"] == [read_only, {"name": "v", "mountPath": "/w"}]


def test_strategic_merge_needs_the_merge_key(api: Api, deploy: str) -> None:
    api.patch(deploy, pod_patch(containers=[{"image": "nginx:2"}]), STRATEGIC).fails(500)
