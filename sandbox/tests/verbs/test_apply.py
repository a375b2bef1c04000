"""Server-side apply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from sandbox.tests.conftest import Crd
from tests.support.http_client import APPLY, Api
from tests.support.objects import apps, changed, config_map, container, core, deployment


def managers(obj: dict[str, Any]) -> dict[tuple[str, str, str], Any]:
    entries = obj["metadata"].get("managedFields", [])
    return {(item["manager"], item["operation"], item.get("subresource", "")): item["fieldsV1"] for item in entries}


@pytest.mark.behaviour("sandbox/SA-01")
@pytest.mark.behaviour("sandbox/SA-04")
def test_applying_creates_and_then_changes_nothing(api: Api, ns: str) -> None:
    path = core(ns, "configmaps", "a")
    created = api.apply(path, config_map(), "m1").expect(201)
    (entry,) = created["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["apiVersion"], entry["fieldsType"]) == (
        "m1",
        "Apply",
        "v1",
        "FieldsV1",
    )
    assert entry["fieldsV1"] == {"f:data": {"f:k": {}}}
    assert api.apply(path, config_map(), "m1").expect(200) == created


@pytest.mark.behaviour("sandbox/SA-02")
@pytest.mark.behaviour("sandbox/SA-03")
def test_invalid_applies_are_refused(api: Api, ns: str) -> None:
    path = core(ns, "configmaps", "a")
    api.patch(path, config_map(), APPLY).fails(422, "Invalid", "fieldManager", "FieldValueRequired")
    api.apply(path, config_map(), "").fails(422, field="fieldManager")
    api.apply(path, config_map(), "m" * 129).fails(422, field="fieldManager")
    api.apply(path, {**config_map(), "kind": "Secret"}, "m").fails(400)
    api.apply(path, config_map("b"), "m").fails(400)
    api.apply(path, config_map(managedFields=[{"manager": "x"}]), "m").fails(400)
    api.apply(path, config_map(uid="u"), "m").fails(409)


def test_a_namespace_is_ignored_for_a_cluster_scoped_object(api: Api) -> None:
    path, metadata = "/api/v1/namespaces/applied", {"name": "applied", "namespace": "x"}
    for code, value in ((201, "1"), (200, "2")):
        obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {**metadata, "labels": {"a": value}}}
        assert "namespace" not in api.apply(path, obj, "m").expect(code)["metadata"]
        assert api.get(path).expect(200)["metadata"]["labels"]["a"] == value


@pytest.mark.behaviour("sandbox/SA-05")
@pytest.mark.behaviour("sandbox/SA-13")
def test_a_field_no_longer_applied_is_removed_unless_another_manager_applies_it(api: Api, ns: str) -> None:
    path = core(ns, "configmaps", "a")
    api.apply(path, config_map(data={"a": "1", "b": "2"}), "m1").expect(201)
    assert api.apply(path, config_map(data={"a": "1"}), "m1").expect(200)["data"] == {"a": "1"}
    api.apply(path, config_map(data={"a": "1"}), "m2").expect(200)
    obj = api.apply(path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}, "m1").expect(200)
    assert obj["data"] == {"a": "1"}
    assert [key[0] for key in managers(obj)] == ["m2"]


def appliers_of_replicas(obj: dict[str, Any]) -> set[str]:
    return {key[0] for key, fields in managers(obj).items() if "f:replicas" in fields.get("f:spec", ())}


@pytest.mark.behaviour("sandbox/SA-06")
@pytest.mark.behaviour("sandbox/SA-24")
def test_a_field_has_one_manager_unless_all_agree(api: Api, ns: str) -> None:
    path = apps(ns, "deployments", "d")
    api.apply(path, deployment(replicas=0, paused=True), "m1").expect(201)
    status = api.apply(path, deployment(replicas=3, paused=True), "m2").fails(
        409, "Conflict", ".spec.replicas", "FieldManagerConflict"
    )
    assert [cause["message"] for cause in status["details"]["causes"]] == ['conflict with "m1"']
    obj = api.apply(path, deployment(replicas=3, paused=True), "m2", force="true").expect(200)
    assert obj["spec"]["replicas"] == 3
    assert appliers_of_replicas(obj) == {"m2"}
    # Both manage the field, then one drops it from its configuration.
    shared = api.apply(path, deployment(replicas=3, paused=True), "m1").expect(200)
    assert appliers_of_replicas(shared) == {"m1", "m2"}
    obj = api.apply(path, deployment(paused=True), "m1").expect(200)
    assert obj["spec"]["replicas"] == 3
    assert appliers_of_replicas(obj) == {"m2"}


@pytest.mark.behaviour("sandbox/SA-07")
@pytest.mark.behaviour("sandbox/SA-08")
@pytest.mark.behaviour("sandbox/SA-09")
@pytest.mark.behaviour("sandbox/SA-10")
def test_updates_manage_the_fields_they_change(api: Api, ns: str) -> None:
    path = core(ns, "configmaps", "a")
    api.apply(path, config_map(data={"a": "1", "b": "1"}), "m1").expect(201)
    api.patch(path, {"data": {"a": "2"}}, fieldManager="m2").expect(200)
    assert '"m2" using v1' in api.apply(path, config_map(data={"a": "3", "b": "1"}), "m1").fails(409)["message"]
    obj = api.get(path).json()
    obj["data"]["b"] = "9"
    obj = api.put(path, obj, headers={"User-Agent": "foo/1.0 (x)"}).expect(200)
    assert managers(obj)["foo", "Update", ""] == {"f:data": {"f:b": {}}}
    obj = api.apply(path, config_map(data={"a": "2"}), "m1").expect(200)
    assert obj["data"] == {"a": "2", "b": "9"}
    assert [key[0] for key, fields in managers(obj).items() if "f:b" in fields["f:data"]] == ["foo"]
    api.post(core(ns, "configmaps"), config_map("c"), fieldManager="p").expect(201)
    assert '"p"' in api.apply(core(ns, "configmaps", "c"), config_map("c", data={"k": "w"}), "m1").fails(409)["message"]


@pytest.mark.behaviour("sandbox/SA-12")
@pytest.mark.behaviour("sandbox/SA-20")
def test_status_has_its_own_managers(api: Api, ns: str, widgets: Crd) -> None:
    path = widgets.path(ns, "a")
    api.apply(path, widgets.obj(size=1), "m1").expect(201)
    obj = api.patch(path + "/status", {"status": {"x": 1}}, fieldManager="m2").expect(200)
    assert managers(obj)["m2", "Update", "status"] == {"f:status": {".": {}, "f:x": {}}}
    obj = api.apply(path + "/status", {**widgets.obj(size=5), "status": {"y": 1}}, "m1").expect(200)
    assert (obj["spec"], obj["status"]) == ({"size": 1}, {"x": 1, "y": 1})
    assert managers(obj)["m1", "Apply", "status"] == {"f:status": {"f:y": {}}}


@pytest.mark.behaviour("sandbox/SA-14")
def test_keyed_items_have_their_own_managers(api: Api, ns: str) -> None:
    path = apps(ns, "deployments", "d")
    api.apply(path, deployment("d", container("a"), replicas=0), "m1").expect(201)
    both = api.apply(path, deployment("d", container("b"), replicas=0), "m2").expect(200)
    assert [item["name"] for item in both["spec"]["template"]["spec"]["containers"]] == ["a", "b"]
    body = deployment("d", replicas=0)
    del body["spec"]["template"]["spec"]
    obj = api.apply(path, body, "m2").expect(200)
    assert [item["name"] for item in obj["spec"]["template"]["spec"]["containers"]] == ["a"]


def list_crd(make_crd: Callable[..., Crd], **items: Any) -> Crd:
    entry = {"type": "array", "items": {"type": "string"}, **items}
    spec = {"type": "object", "properties": {"list": entry}}
    return make_crd(schema={"type": "object", "properties": {"spec": spec}}).establish()


@pytest.mark.behaviour("sandbox/SA-15")
def test_an_atomic_list_has_one_manager(api: Api, ns: str, make_crd: Callable[..., Crd]) -> None:
    crd = list_crd(make_crd)
    path = crd.path(ns, "a")
    api.apply(path, crd.obj(list=["1", "2"]), "m1").expect(201)
    api.apply(path, crd.obj(list=["3"]), "m2").fails(409, "Conflict", ".spec.list", "FieldManagerConflict")
    assert api.get(path).json()["spec"]["list"] == ["1", "2"]


@pytest.mark.behaviour("sandbox/SA-16")
def test_members_of_a_set_have_managers(api: Api, ns: str, make_crd: Callable[..., Crd]) -> None:
    crd = list_crd(make_crd, **{"x-kubernetes-list-type": "set"})
    path = crd.path(ns, "a")
    api.apply(path, crd.obj(list=["x"]), "m1").expect(201)
    assert api.apply(path, crd.obj(list=["y"]), "m2").expect(200)["spec"]["list"] == ["x", "y"]
    assert api.apply(path, crd.obj(list=[]), "m1").expect(200)["spec"]["list"] == ["y"]


@pytest.mark.behaviour("sandbox/SA-17")
@pytest.mark.behaviour("sandbox/SA-21")
def test_items_of_a_keyed_list_are_merged(api: Api, ns: str, make_crd: Callable[..., Crd]) -> None:
    properties = {"name": {"type": "string"}, "value": {"type": "integer"}}
    items = {"type": "object", "required": ["name"], "properties": properties}
    crd = list_crd(make_crd, items=items, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]})
    path = crd.path(ns, "a")
    api.apply(path, crd.obj(list=[{"name": "x", "value": 1}]), "m1").expect(201)
    obj = api.apply(path, crd.obj(list=[{"name": "y", "value": 2}]), "m2").expect(200)
    assert obj["spec"]["list"] == [{"name": "x", "value": 1}, {"name": "y", "value": 2}]
    for manager, name in (("m1", "x"), ("m2", "y")):
        owned = {f'k:{{"name":"{name}"}}': {".": {}, "f:name": {}, "f:value": {}}}
        assert managers(obj)[manager, "Apply", ""]["f:spec"]["f:list"] == owned
    api.apply(path, crd.obj(list=[{"name": "z"}, {"name": "z"}]), "m2").fails(500)
    assert [item["name"] for item in api.get(path).json()["spec"]["list"]] == ["x", "y"]


@pytest.mark.behaviour("sandbox/SA-18")
def test_managers_are_reset(api: Api, ns: str) -> None:
    path = core(ns, "configmaps", "a")
    api.apply(path, config_map(), "m1").expect(201)
    obj = api.patch(path, {"metadata": {"managedFields": [{}]}}).expect(200)
    assert "managedFields" not in obj["metadata"]


@pytest.mark.behaviour("sandbox/SA-19")
@pytest.mark.behaviour("sandbox/SA-22")
@pytest.mark.behaviour("sandbox/SA-23")
def test_apply_as_dry_run_with_a_stale_version_and_in_yaml(api: Api, ns: str) -> None:
    path = core(ns, "configmaps", "a")
    api.apply(path, config_map(), "m1", dryRun="All").expect(201)
    api.get(path).fails(404)
    api.apply(path, yaml.safe_dump(config_map()).encode(), "m1").expect(201)
    api.apply(path, changed(config_map(data={"k": "w"}), resourceVersion="1"), "m1").fails(409, "Conflict")
