"""Update, status and scale."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from sandbox.tests.conftest import Crd
from tests.support.http_client import JSON_PATCH, STRATEGIC, Api
from tests.support.objects import (
    apps,
    changed,
    config_map,
    container,
    core,
    deployment,
    lease,
    pod,
    service,
    stateful_set,
)

RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"


@pytest.mark.behaviour("sandbox/UP-01")
@pytest.mark.behaviour("sandbox/UP-02")
def test_an_update_increases_the_version(api: Api, ns: str) -> None:
    old = api.post(core(ns, "configmaps"), config_map()).expect(201)
    path = core(ns, "configmaps", "a")
    new = api.put(path, {**old, "data": {"k": "w"}}).expect(200)
    assert int(new["metadata"]["resourceVersion"]) > int(old["metadata"]["resourceVersion"])
    written = {"resourceVersion", "managedFields"}
    assert {key: new["metadata"][key] for key in new["metadata"].keys() - written} == {
        key: old["metadata"][key] for key in old["metadata"].keys() - written
    }
    assert api.put(path, {**old, "data": {"k": "x"}}).fails(409, "Conflict")["details"]["name"] == "a"


@pytest.mark.behaviour("sandbox/UP-03")
def test_some_kinds_need_a_version(api: Api, ns: str, widgets: Crd) -> None:
    api.post(core(ns, "configmaps"), config_map()).expect(201)
    api.put(core(ns, "configmaps", "a"), config_map(data={"k": "w"})).expect(200)
    api.post(widgets.path(ns), widgets.obj()).expect(201)
    api.put(widgets.path(ns, "a"), widgets.obj(size=1)).fails(422, "Invalid", "metadata.resourceVersion")
    api.post(LEASES.format(ns), lease()).expect(201)
    api.put(LEASES.format(ns) + "/l", lease()).fails(422, "Invalid", "metadata.resourceVersion")


@pytest.mark.behaviour("sandbox/UP-04")
def test_an_unchanged_object_is_not_written(api: Api, ns: str, widgets: Crd) -> None:
    for path, body in ((core(ns, "configmaps"), config_map()), (widgets.path(ns), widgets.obj(size=1))):
        old = api.post(path, body).expect(201)
        assert api.put(f"{path}/a", old).expect(200) == old
        assert api.patch(f"{path}/a", {}).expect(200) == old


@pytest.mark.behaviour("sandbox/UP-05")
@pytest.mark.behaviour("sandbox/UP-06")
def test_an_update_cannot_change_the_identity(api: Api, ns: str) -> None:
    old = api.post(core(ns, "configmaps"), config_map()).expect(201)
    path = core(ns, "configmaps", "a")
    api.put(path, changed(old, name="b")).fails(400)
    api.put(path, changed(old, namespace="default")).fails(400)
    api.put(path, changed(old, uid="other")).fails(409, "Conflict")


@pytest.mark.behaviour("sandbox/UP-07")
def test_some_kinds_are_created_by_an_update(api: Api, ns: str) -> None:
    api.put(core(ns, "configmaps", "a"), config_map()).fails(404)
    api.put(LEASES.format(ns) + "/l", lease()).expect(201)


@pytest.mark.behaviour("sandbox/UP-08")
def test_generation_counts_changes_of_the_spec(api: Api, ns: str, widgets: Crd) -> None:
    path = widgets.path(ns, "a")
    assert api.post(widgets.path(ns), widgets.obj(size=1)).expect(201)["metadata"]["generation"] == 1
    assert api.patch(path, {"spec": {"size": 2}}).expect(200)["metadata"]["generation"] == 2
    assert api.patch(path, {"metadata": {"labels": {"a": "b"}}}).expect(200)["metadata"]["generation"] == 2
    assert api.patch(path + "/status", {"status": {"a": "b"}}).expect(200)["metadata"]["generation"] == 2


@pytest.mark.behaviour("sandbox/UP-09")
def test_a_deployments_annotations_count(api: Api, ns: str) -> None:
    api.post(apps(ns, "deployments"), deployment(paused=True, replicas=0)).expect(201)
    path = apps(ns, "deployments", "d")
    assert api.get(path).json()["metadata"]["generation"] == 1
    assert api.patch(path, {"metadata": {"labels": {"a": "b"}}}).expect(200)["metadata"]["generation"] == 1
    assert api.patch(path, {"metadata": {"annotations": {"a": "b"}}}).expect(200)["metadata"]["generation"] == 2


@pytest.mark.behaviour("sandbox/UP-10")
def test_the_main_resource_does_not_write_status(api: Api, ns: str, widgets: Crd) -> None:
    new = api.post(widgets.path(ns), {**widgets.obj(size=1), "status": {"x": 0}}).expect(201)
    assert "status" not in new
    new = api.put(widgets.path(ns, "a"), {**new, "status": {"x": 1}, "spec": {"size": 2}}).expect(200)
    assert "status" not in new
    new = api.put(widgets.path(ns, "a") + "/status", {**new, "status": {"x": 2}}).expect(200)
    new = api.put(widgets.path(ns, "a"), {**new, "status": {"x": 3}, "spec": {"size": 3}}).expect(200)
    assert (new["spec"], new["status"]) == ({"size": 3}, {"x": 2})
    del new["status"]
    assert api.put(widgets.path(ns, "a"), {**new, "spec": {"size": 4}}).expect(200)["status"] == {"x": 2}


@pytest.mark.behaviour("sandbox/UP-11")
def test_some_fields_are_immutable(api: Api, ns: str) -> None:
    api.post(apps(ns, "deployments"), deployment(replicas=0)).expect(201)
    selector = {"matchLabels": {"app": "y"}}
    patch: dict[str, Any] = {"spec": {"selector": selector, "template": {"metadata": {"labels": {"app": "y"}}}}}
    api.patch(apps(ns, "deployments", "d"), patch).fails(422, "Invalid", "spec.selector")
    api.post(apps(ns, "statefulsets"), stateful_set(replicas=0)).expect(201)
    api.patch(apps(ns, "statefulsets", "x"), {"spec": {"serviceName": "other"}}).fails(422, "Invalid", "spec")
    api.post(core(ns, "secrets"), {"metadata": {"name": "a"}}).expect(201)
    api.patch(core(ns, "secrets", "a"), {"type": "t.example.org/x"}).fails(422, "Invalid", "type")
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    api.post(RBAC.format(ns), {"metadata": {"name": "b"}, "roleRef": role}).expect(201)
    api.patch(RBAC.format(ns) + "/b", {"roleRef": {"name": "other"}}).fails(422, "Invalid", "roleRef")
    api.post(core(ns, "services"), service()).expect(201)
    patch = {"spec": {"clusterIP": "10.96.200.200", "clusterIPs": ["10.96.200.200"]}}
    api.patch(core(ns, "services", "s"), patch).fails(422, "Invalid", "spec.clusterIPs[0]")


@pytest.mark.behaviour("sandbox/UP-12")
def test_an_immutable_config_map(api: Api, ns: str) -> None:
    api.post(core(ns, "configmaps"), {**config_map(), "immutable": True}).expect(201)
    path = core(ns, "configmaps", "a")
    api.patch(path, {"data": {"k": "w"}}).fails(422, "Invalid", "data")
    api.patch(path, {"metadata": {"labels": {"a": "b"}}}).expect(200)


@pytest.mark.behaviour("sandbox/UP-13")
@pytest.mark.behaviour("sandbox/UP-14")
def test_finalizers_cannot_be_added_to_a_terminating_object(api: Api, ns: str, widgets: Crd) -> None:
    body = {**widgets.obj(size=1), "metadata": {"name": "a", "finalizers": ["t.example.org/f"]}}
    api.post(widgets.path(ns), body).expect(201)
    path = widgets.path(ns, "a")
    going = api.delete(path).expect(200)
    more = changed(going, finalizers=["t.example.org/f", "t.example.org/g"])
    api.put(path, more).fails(422, "Invalid", "metadata.finalizers", "FieldValueForbidden")
    api.put(path, changed(going, finalizers=[])).expect(200)
    api.get(path).fails(404)


@pytest.mark.behaviour("sandbox/UP-15")
def test_an_update_cannot_set_the_deletion_timestamp(api: Api, ns: str, widgets: Crd) -> None:
    old = api.post(widgets.path(ns), widgets.obj(size=1)).expect(201)
    body = changed(old, deletionTimestamp="2030-01-01T00:00:00Z")
    api.put(widgets.path(ns, "a"), body).fails(422, "Invalid", "metadata.deletionTimestamp")


@pytest.mark.behaviour("sandbox/UP-16")
def test_no_update_is_lost(api: Api, ns: str, widgets: Crd) -> None:
    api.post(widgets.path(ns), widgets.obj(size=0)).expect(201)
    path = widgets.path(ns, "a")
    answers: set[int] = set()

    def increment() -> None:
        status = 409
        while status == 409:
            obj = api.get(path).expect(200)
            obj["spec"]["size"] += 1
            status = api.put(path, obj).status
            answers.add(status)

    threads = [threading.Thread(target=increment) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers <= {200, 409}
    obj = api.get(path).expect(200)
    assert (obj["spec"]["size"], obj["metadata"]["generation"]) == (20, 21)


@pytest.mark.behaviour("sandbox/UP-17")
def test_most_fields_of_a_pod_are_immutable(api: Api, ns: str) -> None:
    api.post(core(ns, "pods"), pod()).expect(201)
    path = core(ns, "pods", "p")
    patch = {"spec": {"containers": [container("a", "nginx:2")]}}
    assert api.patch(path, patch, STRATEGIC).expect(200)["spec"]["containers"][0]["image"] == "nginx:2"
    api.patch(path, {"spec": {"restartPolicy": "Never"}}).fails(422, "Invalid", "spec")


@pytest.mark.behaviour("sandbox/ST-01")
@pytest.mark.behaviour("sandbox/ST-02")
def test_a_status_write_writes_status_only(api: Api, ns: str, widgets: Crd) -> None:
    old = api.post(widgets.path(ns), widgets.obj(size=1)).expect(201)
    path = widgets.path(ns, "a") + "/status"
    body = {**changed(old, labels={"a": "b"}), "spec": {"size": 9}, "status": {"x": 1}}
    new = api.put(path, body).expect(200)
    written = {"resourceVersion": new["metadata"]["resourceVersion"], "managedFields": new["metadata"]["managedFields"]}
    assert new == {**changed(old, **written), "status": {"x": 1}}
    api.put(path, body).fails(409, "Conflict")
    assert api.get(widgets.path(ns, "a")).expect(200) == new


@pytest.mark.behaviour("sandbox/ST-03")
def test_status_is_patched(api: Api, ns: str, widgets: Crd) -> None:
    old = api.post(widgets.path(ns), widgets.obj(size=1)).expect(201)
    new = api.patch(widgets.path(ns, "a") + "/status", {"status": {"x": 1}}).expect(200)
    assert (new["spec"], new["status"]) == (old["spec"], {"x": 1})
    assert new["metadata"]["generation"] == old["metadata"]["generation"]


@pytest.mark.behaviour("sandbox/ST-04")
def test_status_is_ordinary_data_without_the_subresource(api: Api, ns: str, make_crd: Callable[..., Crd]) -> None:
    crd = make_crd(subresources={}).establish()
    old = api.post(crd.path(ns), crd.obj(size=1)).expect(201)
    api.get(crd.path(ns, "a") + "/status").fails(404)
    new = api.put(crd.path(ns, "a"), {**old, "status": {"x": 1}}).expect(200)
    assert (new["status"], new["metadata"]["generation"]) == ({"x": 1}, 2)


@pytest.mark.behaviour("sandbox/ST-05")
def test_conditions_are_merged_by_type(api: Api, ns: str) -> None:
    api.post(apps(ns, "deployments"), deployment()).expect(201)
    path = apps(ns, "deployments", "d") + "/status"
    for kind, status in (("Available", "False"), ("Progressing", "True"), ("Available", "True")):
        patch = {"status": {"conditions": [{"type": kind, "status": status}]}}
        conditions = api.patch(path, patch, STRATEGIC).expect(200)["status"]["conditions"]
    assert sorted((item["type"], item["status"]) for item in conditions) == [
        ("Available", "True"),
        ("Progressing", "True"),
    ]


@pytest.mark.behaviour("sandbox/ST-06")
def test_a_pods_spec_is_not_written_through_status(api: Api, ns: str) -> None:
    api.post(core(ns, "pods"), pod()).expect(201)
    patch = {"spec": {"nodeName": "n"}, "status": {"phase": "Running"}}
    stored = api.patch(core(ns, "pods", "p") + "/status", patch).expect(200)
    assert stored["status"]["phase"] == "Running"
    assert "nodeName" not in stored["spec"]


@pytest.mark.behaviour("sandbox/SC-01")
@pytest.mark.behaviour("sandbox/SC-02")
@pytest.mark.behaviour("sandbox/SC-05")
def test_scale_shows_and_writes_replicas(api: Api, ns: str) -> None:
    api.post(apps(ns, "deployments"), deployment(paused=True)).expect(201)
    path = apps(ns, "deployments", "d")
    scale = api.get(path + "/scale").expect(200)
    parent = api.get(path).json()
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 1})
    assert scale["status"]["selector"] == "app=x"
    same = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    assert scale["metadata"] == {key: parent["metadata"][key] for key in same}
    scale = api.patch(path + "/scale", {"spec": {"replicas": 3}}).expect(200)
    obj = api.get(path).json()
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 3})
    assert scale["metadata"]["resourceVersion"] == obj["metadata"]["resourceVersion"]
    assert obj["spec"]["replicas"] == 3
    assert obj["metadata"]["generation"] == parent["metadata"]["generation"] + 1
    api.get(apps(ns, "deployments", "none") + "/scale").fails(404)


@pytest.mark.behaviour("sandbox/SC-03")
def test_scale_is_put(api: Api, ns: str) -> None:
    path = f"/apis/apps/v1/namespaces/{ns}/replicasets"
    api.post(path, {**deployment("r", replicas=0), "kind": "ReplicaSet"}).expect(201)
    scale = api.get(f"{path}/r/scale").expect(200)
    more = {**scale, "spec": {"replicas": 2}}
    assert api.put(f"{path}/r/scale", more, content_type=None).expect(200)["spec"] == {"replicas": 2}
    api.put(f"{path}/r/scale", {**scale, "spec": {"replicas": 3}}).fails(409, "Conflict")
    negative = {**changed(scale, resourceVersion=""), "spec": {"replicas": -1}}
    api.put(f"{path}/r/scale", negative).fails(422, "Invalid", "spec.replicas")
    obj = api.get(f"{path}/r").expect(200)
    assert (obj["spec"]["replicas"], obj["metadata"]["generation"]) == (2, 2)
    assert api.put(f"{path}/r/scale", changed(scale, resourceVersion="")).expect(200)["spec"].get("replicas", 0) == 0


@pytest.mark.behaviour("sandbox/SC-04")
def test_a_crd_names_the_paths_of_its_replicas(api: Api, ns: str, make_crd: Callable[..., Crd]) -> None:
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.sel"}
    crd = make_crd(subresources={"status": {}, "scale": scale}).establish()
    api.post(crd.path(ns), crd.obj(size=2)).expect(201)
    path = crd.path(ns, "a")
    api.patch(path + "/status", {"status": {"n": 1, "sel": "a=b"}}).expect(200)
    obj = api.get(path + "/scale").expect(200)
    assert (obj["spec"], obj["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "a=b"})
    replicas = [{"op": "replace", "path": "/spec/replicas", "value": 5}]
    assert api.patch(path + "/scale", replicas, JSON_PATCH).expect(200)["spec"] == {"replicas": 5}
    assert api.get(path).json()["spec"]["size"] == 5


def test_an_update_of_the_status_that_creates_is_checked_like_a_creation(each_api: Api, namespace: str) -> None:
    path = core(namespace, "services", "late")
    each_api.put(f"{path}/status", {"metadata": {"name": "late"}}).fails(422, field="spec.ports")
    each_api.put(f"{path}/status", {"metadata": {"name": "late"}, "spec": {"ports": [{"port": 1}]}}).expect(201)
    assert each_api.get(path).expect(200)["spec"]["ports"][0]["port"] == 1
