"""CustomResourceDefinitions: acceptance, life cycle, schemas, versions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

from sandbox.tests.conftest import Crd, crd_body
from tests.support.http_client import Api, names
from tests.support.objects import core
from tests.support.waiting import eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def spec_schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


def keyed(key: dict[str, Any], **item: Any) -> dict[str, Any]:
    items = {"type": "object", "required": ["k"], "properties": {"k": key}, **item}
    return {"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}


def edited(body: dict[str, Any], edit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    document = copy.deepcopy(body)
    edit(document)
    return document


@pytest.mark.behaviour("sandbox/CD-01")
@pytest.mark.behaviour("sandbox/CD-02")
def test_a_crd_is_established_and_served(api: Api, ns: str, make_crd: Callable[..., Crd]) -> None:
    crd = make_crd().establish()
    obj = api.get(crd.url).expect(200)
    assert crd.conditions()["NamesAccepted"] == ("True", "NoConflicts")
    assert crd.conditions()["Established"] == ("True", "InitialNamesAccepted")
    accepted = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    assert obj["status"]["acceptedNames"] == accepted
    assert obj["spec"]["names"] == accepted
    assert obj["status"]["storedVersions"] == ["v1"]
    assert obj["spec"]["conversion"] == {"strategy": "None"}
    api.post(crd.path(ns), crd.obj()).expect(201)


def version(body: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = body["spec"]["versions"][0]
    return entry


REFUSED: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [
    ("another name", lambda body: body["metadata"].update(name="x.y.example.org")),
    ("no schema", lambda body: version(body).pop("schema")),
    ("two storage versions", lambda body: body["spec"]["versions"].append({**version(body), "name": "v2"})),
    ("no storage version", lambda body: version(body).update(storage=False)),
    ("one version twice", lambda body: body["spec"]["versions"].append({**version(body), "storage": False})),
    ("kind is listKind", lambda body: body["spec"]["names"].update(listKind="Widget")),
    ("scope", lambda body: body["spec"].update(scope="Galaxy")),
    (
        "column type",
        lambda body: version(body).update(additionalPrinterColumns=[{"name": "a", "type": "x", "jsonPath": ".a"}]),
    ),
    (
        "scale path",
        lambda body: version(body)["subresources"].update(
            scale={"specReplicasPath": ".x", "statusReplicasPath": ".status.x"}
        ),
    ),
    ("warning", lambda body: version(body).update(deprecationWarning="old")),
]


@pytest.mark.behaviour("sandbox/CD-03")
@pytest.mark.parametrize("edit", [pytest.param(edit, id=name) for name, edit in REFUSED])
def test_invalid_crds_are_refused(api: Api, group: str, edit: Callable[[dict[str, Any]], Any]) -> None:
    api.post(CRDS, edited(crd_body(group), edit)).fails(422, "Invalid")


@pytest.mark.behaviour("sandbox/CD-04")
def test_protected_groups_need_an_approval(api: Api, group: str) -> None:
    body = crd_body(f"{group.split('.')[0]}.x.k8s.io")
    api.post(CRDS, body).fails(422, "Invalid")
    body["metadata"]["annotations"] = {"api-approved.kubernetes.io": "https://github.com/kubernetes/x/pull/1"}
    api.post(CRDS, body).expect(201)


@pytest.mark.behaviour("sandbox/CD-05")
@pytest.mark.behaviour("sandbox/CD-06")
@pytest.mark.parametrize(
    "schema",
    [
        spec_schema(x={"description": "no type"}),
        spec_schema(x={"type": "object", "$ref": "#/x"}),
        spec_schema(x={"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        spec_schema(
            x={"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}
        ),
        spec_schema(x={"type": "integer", "default": "text"}),
        spec_schema(x={"type": "object", "properties": {"a": {"type": "string"}}, "default": {"b": 1}}),
        spec_schema(x={"type": "array"}),
        spec_schema(
            x={"type": "array", "items": {"type": "string", "nullable": True}, "x-kubernetes-list-type": "set"}
        ),
        spec_schema(x=keyed({"type": "string", "nullable": True})),
        spec_schema(x=keyed({"type": "object"})),
        spec_schema(x=keyed({"type": "string"}, nullable=True)),
        spec_schema(x={"type": "string", "pattern": "("}),
        {"type": "string"},
        {
            "type": "object",
            "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}},
        },
    ],
)
def test_invalid_schemas_are_refused(api: Api, group: str, schema: dict[str, Any]) -> None:
    api.post(CRDS, crd_body(group, schema=schema)).fails(422, "Invalid")


@pytest.mark.behaviour("sandbox/CD-07")
@pytest.mark.behaviour("sandbox/CD-08")
def test_a_kind_belongs_to_one_crd(api: Api, ns: str, make_crd: Callable[..., Crd]) -> None:
    first = make_crd().establish()
    second = make_crd(names={"plural": "others", "kind": "Widget", "listKind": "OtherList"})
    api.post(CRDS, second.body).expect(201)
    eventually(lambda: second.conditions().get("NamesAccepted") == ("False", "KindConflict"))
    assert second.conditions()["Established"] == ("False", "NotAccepted")
    assert api.get(second.path(ns)).status == 404
    api.delete(first.url).expect(200)
    eventually(second.established)
    assert second.conditions()["NamesAccepted"] == ("True", "NoConflicts")
    assert api.get(second.url).json()["status"]["acceptedNames"]["kind"] == "Widget"
    api.get(second.path(ns)).expect(200)


@pytest.mark.behaviour("sandbox/CD-09")
@pytest.mark.behaviour("sandbox/CD-10")
def test_short_names_conflict(api: Api, ns: str, make_crd: Callable[..., Crd]) -> None:
    make_crd(names={"shortNames": ["wd"]}).establish()
    second = make_crd(names={"plural": "others", "kind": "Other", "shortNames": ["wd"]})
    api.post(CRDS, second.body).expect(201)
    eventually(lambda: second.conditions().get("NamesAccepted") == ("False", "ShortNamesConflict"))
    accepted = api.get(second.url).json()["status"]["acceptedNames"]
    wanted = api.get(second.url).json()["spec"]["names"]
    assert accepted == {key: value for key, value in wanted.items() if key != "shortNames"}
    assert accepted.keys() == {"plural", "singular", "kind", "listKind"}
    third = make_crd(names={"plural": "thirds", "kind": "Third"}).establish()
    body = api.get(third.url).json()
    body["spec"]["names"]["shortNames"] = ["wd"]
    api.put(third.url, body).expect(200)
    eventually(lambda: third.conditions()["NamesAccepted"] == ("False", "ShortNamesConflict"))
    assert third.established()
    api.get(third.path(ns)).expect(200)


@pytest.mark.behaviour("sandbox/CD-11")
@pytest.mark.behaviour("sandbox/CD-12")
def test_unknown_fields_are_pruned_unless_preserved(api: Api, ns: str, make_crd: Callable[..., Crd]) -> None:
    keep = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"n": {"type": "integer"}}}
    items = {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}
    crd = make_crd(schema=spec_schema(raw=keep, items=items)).establish()
    body = {**crd.obj(raw={"n": 1, "free": {"x": 1}}, items=[{"a": "1", "b": "2"}], c=1), "top": 1}
    obj = api.post(crd.path(ns), body).expect(201)
    assert obj["spec"] == {"raw": {"n": 1, "free": {"x": 1}}, "items": [{"a": "1"}]}
    assert "top" not in obj
    api.post(crd.path(ns), crd.obj("b", raw={"n": "x"})).fails(422, "Invalid", "spec.raw.n")


@pytest.mark.behaviour("sandbox/CD-13")
@pytest.mark.behaviour("sandbox/CD-14")
@pytest.mark.behaviour("sandbox/CD-15")
def test_defaults_and_nulls(api: Api, ns: str, make_crd: Callable[..., Crd]) -> None:
    inner = {"type": "object", "properties": {"x": {"type": "integer", "default": 1}}}
    schema = spec_schema(
        deep={**inner, "default": {}},
        absent=inner,
        items={"type": "array", "items": inner},
        map={"type": "object", "additionalProperties": inner},
        nullable={"type": "string", "nullable": True, "default": "d"},
        filled={"type": "string", "default": "d"},
        dropped={"type": "string"},
    )
    crd = make_crd(schema=schema).establish()
    body = crd.obj(items=[{}], map={"k": {}}, nullable=None, filled=None, dropped=None)
    old = api.post(crd.path(ns), body).expect(201)
    pruned = {"x": 1}
    assert old["spec"] == {"deep": pruned, "items": [pruned], "map": {"k": pruned}, "nullable": None, "filled": "d"}
    change = api.get(crd.url).json()
    version(change)["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["late"] = {
        "type": "string",
        "default": "l",
    }
    api.put(crd.url, change).expect(200)
    obj = eventually(lambda: (got := api.get(crd.path(ns, "a")).json())["spec"].get("late") and got)
    assert obj["spec"]["late"] == "l"
    assert obj["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]
    assert api.get(crd.path(ns)).json()["items"][0]["spec"]["late"] == "l"


@pytest.mark.behaviour("sandbox/CD-16")
def test_int_or_string(api: Api, ns: str, make_crd: Callable[..., Crd]) -> None:
    crd = make_crd(schema=spec_schema(port={"x-kubernetes-int-or-string": True})).establish()
    for name, value, code in (("a", 5, 201), ("b", "5", 201), ("c", 5.5, 422)):
        answer = api.post(crd.path(ns), crd.obj(name, port=value))
        assert answer.status == code
        if code == 201:
            assert answer.json()["spec"]["port"] == value


@pytest.mark.behaviour("sandbox/CD-17")
@pytest.mark.parametrize(
    ("schema", "value", "cause"),
    [
        ({"type": "integer"}, "x", "FieldValueTypeInvalid"),
        ({"type": "string", "enum": ["a"]}, "b", "FieldValueNotSupported"),
        ({"type": "string", "pattern": "^a$"}, "b", "FieldValueInvalid"),
        ({"type": "integer", "minimum": 3}, 1, "FieldValueInvalid"),
        ({"type": "string", "maxLength": 2}, "abc", "FieldValueTooLong"),
        ({"type": "array", "items": {"type": "integer"}, "maxItems": 1}, [1, 2], "FieldValueTooMany"),
        ({"type": "string", "format": "date-time"}, "today", "FieldValueTypeInvalid"),
        ({"type": "integer", "multipleOf": 5}, 7, "FieldValueInvalid"),
        (
            {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 0},
            {"a": "b"},
            "FieldValueTooMany",
        ),
        ({"type": "string", "anyOf": [{"minLength": 5}, {"pattern": "^b"}]}, "abc", "FieldValueInvalid"),
        ({"type": "string", "not": {"pattern": "^a"}}, "abc", "FieldValueInvalid"),
    ],
)
def test_invalid_values_are_refused(
    api: Api, ns: str, make_crd: Callable[..., Crd], schema: dict[str, Any], value: Any, cause: str
) -> None:
    crd = make_crd(schema=spec_schema(x=schema)).establish()
    # A real server names the field of `not` in the message only.
    field = "<nil>" if "not" in schema else "spec.x"
    api.post(crd.path(ns), crd.obj(x=value)).fails(422, "Invalid", field, cause)


@pytest.mark.behaviour("sandbox/CD-17")
@pytest.mark.behaviour("sandbox/CD-18")
def test_required_fields_and_duplicate_items(api: Api, ns: str, make_crd: Callable[..., Crd]) -> None:
    item = {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}
    keyed = {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    plain = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
    crd = make_crd(schema=spec_schema(keyed=keyed, plain=plain)).establish()
    api.post(crd.path(ns), crd.obj(keyed=[{}])).fails(422, "Invalid", "spec.keyed[0].k", "FieldValueRequired")
    twice = [{"k": "a"}, {"k": "a"}]
    api.post(crd.path(ns), crd.obj(keyed=twice)).fails(422, "Invalid", "spec.keyed[1]", "FieldValueDuplicate")
    api.post(crd.path(ns), crd.obj(plain=["a", "a"])).fails(422, "Invalid", "spec.plain[1]", "FieldValueDuplicate")


@pytest.mark.behaviour("sandbox/CD-19")
def test_embedded_resources(api: Api, ns: str, make_crd: Callable[..., Crd]) -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"x": {"type": "string"}}}
    crd = make_crd(schema=spec_schema(inner=embedded)).establish()
    api.post(crd.path(ns), crd.obj(inner={"apiVersion": "v1"})).fails(422, "Invalid", "spec.inner.kind")
    inner = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "n", "foo": 1}, "y": 1}
    content = api.post(crd.path(ns), crd.obj(inner=inner)).expect(201)["spec"]["inner"]
    assert content == {"apiVersion": "v1", "kind": "X", "metadata": {"name": "n"}}


@pytest.mark.behaviour("sandbox/CD-23")
def test_an_established_crd_has_immutable_fields(api: Api, widgets: Crd) -> None:
    body = api.get(widgets.url).json()
    body["spec"]["scope"] = "Cluster"
    api.put(widgets.url, body).fails(422, "Invalid", "spec.scope")
    body["spec"]["scope"] = "Namespaced"
    del body["metadata"]["resourceVersion"]
    api.put(widgets.url, body).fails(422, "Invalid", "metadata.resourceVersion")


@pytest.mark.behaviour("sandbox/CD-24")
@pytest.mark.behaviour("sandbox/CD-26")
def test_objects_are_deleted_with_their_crd(api: Api, ns: str, widgets: Crd) -> None:
    api.post(widgets.path(ns), widgets.obj()).expect(201)
    assert api.delete(widgets.url).expect(200)["kind"] == "CustomResourceDefinition"
    api.gone(widgets.url)
    assert api.get(widgets.path(ns)).status == api.get(widgets.path(ns, "a")).status == 404
    widgets.establish()
    assert names(api.get(widgets.path(ns))) == []


@pytest.mark.behaviour("sandbox/CD-25")
def test_a_finalizer_of_an_object_delays_its_crd(api: Api, ns: str, widgets: Crd) -> None:
    metadata = {"name": "a", "finalizers": ["t.example.org/hold"]}
    api.post(widgets.path(ns), {**widgets.obj(), "metadata": metadata}).expect(201)
    api.delete(widgets.url).expect(200)
    eventually(lambda: widgets.conditions()["Terminating"][0] == "True")
    eventually(lambda: "deletionTimestamp" in api.get(widgets.path(ns, "a")).json()["metadata"])
    assert api.get(widgets.url).expect(200)["metadata"]["deletionTimestamp"]
    api.post(widgets.path(ns), widgets.obj("b")).fails(403, "Forbidden")
    api.patch(widgets.path(ns, "a"), {"metadata": {"finalizers": None}}).expect(200)
    api.gone(widgets.url)


@pytest.mark.behaviour("sandbox/CD-30")
def test_unchanged_invalid_values_are_accepted(api: Api, ns: str, widgets: Crd) -> None:
    api.post(widgets.path(ns), widgets.obj(size=50, color="red")).expect(201)
    body = api.get(widgets.url).json()
    version(body)["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]["maximum"] = 10
    api.put(widgets.url, body).expect(200)
    path = widgets.path(ns, "a")
    eventually(lambda: api.post(widgets.path(ns), widgets.obj("b", size=50), dryRun="All").status == 422)
    api.patch(path, {"spec": {"color": "blue"}}).expect(200)
    api.patch(path, {"spec": {"size": 60}}).fails(422, "Invalid", "spec.size")


@pytest.mark.behaviour("sandbox/CD-31")
def test_short_names_and_categories_are_discovered(api: Api, make_crd: Callable[..., Crd]) -> None:
    crd = make_crd(names={"shortNames": ["wd"], "categories": ["all"]}).establish()
    resource = api.get(f"/apis/{crd.group}/v1").expect(200)["resources"][0]
    assert (resource["shortNames"], resource["categories"]) == (["wd"], ["all"])


@pytest.mark.behaviour("sandbox/CD-32")
def test_metadata_of_the_wrong_type(api: Api, ns: str, widgets: Crd) -> None:
    body = {**widgets.obj(), "metadata": {"name": "a", "labels": "x"}}
    api.post(widgets.path(ns), body).fails(400, "BadRequest")


@pytest.mark.behaviour("sandbox/CD-34")
def test_another_controller_may_accept_the_names() -> None:
    with Sandbox(crd_conditions="external") as sandbox, Api(sandbox.url, sandbox.ca, sandbox.token) as api:
        crd = Crd(api, crd_body("e.t.example.org"))
        body = api.post(CRDS, crd.body).expect(201)
        eventually(lambda: sandbox.at_rest)
        assert crd.conditions() == {}
        assert api.get(crd.path("default")).status == 404
        condition = {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "m"}
        body["status"] = {
            "acceptedNames": body["spec"]["names"],
            "conditions": [{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "storedVersions": ["v1"],
        }
        api.put(crd.url + "/status", body).expect(200)
        eventually(crd.established)
        assert crd.conditions() == {
            "NamesAccepted": ("True", "NoConflicts"),
            "Established": ("True", "InitialNamesAccepted"),
        }
        status = api.get(crd.url).json()["status"]
        assert status["acceptedNames"] == body["spec"]["names"]
        # The sandbox leaves the controller's condition alone.
        (own,) = (entry for entry in status["conditions"] if entry["type"] == "NamesAccepted")
        assert (own["message"], own["lastTransitionTime"]) == ("m", "2026-01-01T00:00:00Z")
        api.get(crd.path("default")).expect(200)
        api.get(core("default", "configmaps")).expect(200)
