"""Writes of custom objects: nulls, defaults of versions, ratcheting; the sandbox answers as a real kube-apiserver."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from sandbox.tests.conftest import Crd, crd_body
from tests.support.compared import Pair, told
from tests.support.http_client import APPLY, JSON_PATCH, MERGE, STRATEGIC, Answer, Api
from tests.support.waiting import eventually

TEXT, NULLABLE = {"type": "string"}, {"nullable": True}
TWO = {"type": "object", "properties": {"a": TEXT, "b": TEXT}}
ITEM = {"type": "object", "required": ["n"], "properties": {"n": TEXT, "v": TEXT, "w": {**TEXT, **NULLABLE}}}
KEYED = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"], "items": ITEM}
FIELDS: dict[str, dict[str, Any]] = {
    "two": TWO,
    "twoNullable": {**TWO, **NULLABLE},
    "twoDefault": {**TWO, "default": {"a": "d"}},
    "text": TEXT,
    "textNullable": {**TEXT, **NULLABLE},
    "textDefault": {**TEXT, "default": "x"},
    "textBoth": {**TEXT, **NULLABLE, "default": "x"},
    "map": {"type": "object", "additionalProperties": TEXT},
    "mapNullable": {"type": "object", "additionalProperties": {**TEXT, **NULLABLE}},
    "list": {"type": "array", "items": TEXT},
    "listNullable": {"type": "array", "items": {**TEXT, **NULLABLE}},
    "listDefault": {"type": "array", "items": {**TEXT, "default": "x"}},
    "set": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
    "keyed": KEYED,
    "any": {"x-kubernetes-preserve-unknown-fields": True},
}
LIVE: dict[str, Any] = {
    "two": {"a": "1", "b": "2"}, "twoNullable": {"a": "1"}, "twoDefault": {"b": "2"}, "text": "t", "textNullable": "t",
    "textDefault": "t", "textBoth": "t", "map": {"a": "b"}, "mapNullable": {"a": "b"}, "list": ["a"],
    "listNullable": ["a"], "listDefault": ["a"], "set": ["a"], "keyed": [{"n": "1", "v": "2"}], "any": {"a": 1},
}  # fmt: skip
NULLS: list[dict[str, Any]] = [
    *({name: None} for name in FIELDS),
    *({name: {"a": None}} for name in ("two", "twoNullable", "map", "mapNullable", "any")),
    *({name: [None]} for name in ("list", "listNullable", "listDefault", "set", "keyed")),
    *({"keyed": [{"n": "1", name: None}]} for name in ("v", "w")),
    {"keyed": [{"n": None}]},
    {"two": {}},
    {"map": {}},
]


def outcome(answer: Answer) -> tuple[int, Any]:
    """Return the code, and the failure or what both servers must store."""
    if answer.status >= 400:
        return told(answer)
    obj = answer.json()
    entries = [(entry["operation"], entry["fieldsV1"]) for entry in obj["metadata"].get("managedFields", ())]
    return answer.status, (obj.get("spec"), obj["metadata"]["generation"], sorted(entries, key=str))


def compared(pair: Pair, method: str, path: str, body: Any, **more: Any) -> int:
    ours, wanted = (outcome(api.request(method, path, body, **more)) for api in (pair.ours, pair.theirs))
    assert ours == wanted, f"the sandbox: {ours}\nkube-apiserver: {wanted}"
    return ours[0]


def schema_of(fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}


@pytest.mark.behaviour("findings3/NS2")
def test_nulls(pair: Pair, pair_crd: Callable[..., Crd]) -> None:
    crd = pair_crd(schema=schema_of(FIELDS))
    applied: dict[str, Any] = {"content_type": APPLY, "fieldManager": "me"}
    codes: dict[str, list[int]] = {}
    for index, spec in enumerate(NULLS):

        def write(method: str, name: str, spec: Any, **more: Any) -> int:
            body = {**crd.obj(name), "spec": spec}
            return compared(pair, method, crd.path(pair.namespace, "" if method == "POST" else name), body, **more)

        created = write("PATCH", f"a{index}", spec, **applied)
        assert write("PATCH", f"u{index}", LIVE, **applied) == 201
        updated = write("PATCH", f"u{index}", {**LIVE, **spec}, **applied)
        others = write("PATCH", f"u{index}", spec, content_type=APPLY, fieldManager="you", force="true")
        posted = write("POST", f"p{index}", spec)
        codes[str(spec)] = [created, updated, others, posted]
    # A plain write drops a null that is not allowed; an apply is refused.
    assert codes["{'two': None}"] == [422, 422, 200, 201]
    assert codes["{'text': None}"] == [422, 422, 422, 201]
    assert codes["{'textNullable': None}"] == [201, 200, 200, 201]
    assert codes["{'textDefault': None}"] == [201, 200, 200, 201]
    assert codes["{'two': {'a': None}}"][0] == 422


@pytest.mark.behaviour("findings3/NS2")
def test_nulls_of_required_fields(pair: Pair, pair_crd: Callable[..., Crd]) -> None:
    spec = {"type": "object", "required": ["text"], "properties": {"text": TEXT, "two": {**TWO, "required": ["a"]}}}
    crd = pair_crd(schema={"type": "object", "properties": {"spec": spec}})
    for value in ({"text": None}, {"text": "x", "two": None}, {"text": "x", "two": {"a": None}}, None):
        body = {**crd.obj("x"), "spec": value}
        path = crd.path(pair.namespace, "x")
        assert pair.ask("PATCH", path, body, content_type=APPLY, fieldManager="me")[0] == 422


def two_versions(group: str, first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    body = crd_body(group, schema=first)
    other = crd_body(group, schema=second)["spec"]["versions"][0]
    body["spec"]["versions"].append({**other, "name": "v2", "storage": False})
    return body


def established(pair: Pair, body: dict[str, Any]) -> Crd:
    for api in (pair.theirs, pair.ours):
        crd = Crd(api, body).establish()
        for name in [version["name"] for version in body["spec"]["versions"]]:
            path = crd.path(pair.namespace, version=name)
            eventually(lambda api=api, path=path: api.get(path).status == 200)
    return crd


@pytest.mark.behaviour("findings3/NS5")
def test_a_status_written_in_another_version_leaves_the_spec(pair: Pair, group: str) -> None:
    def schema(**defaults: str) -> dict[str, Any]:
        fields = {name: {**TEXT, **({"default": defaults[name]} if name in defaults else {})} for name in "abc"}
        part = {"type": "object", "properties": fields}
        return {"type": "object", "properties": {"spec": part, "status": {**part, "default": {}}}}

    crd = established(pair, two_versions(group, schema(a="A"), schema(a="A", c="C")))
    body = {"apiVersion": f"{group}/v2", "kind": "Widget", "metadata": {"name": "x"}, "spec": {"b": "B"}}
    pair.done("POST", crd.path(pair.namespace), {**body, "apiVersion": f"{group}/v1"})
    path = f"{crd.path(pair.namespace, 'x', 'v2')}/status"
    for api in (pair.ours, pair.theirs):
        live = api.get(crd.path(pair.namespace, "x", "v2")).expect(200)
        assert live["spec"] == {"a": "A", "b": "B"}
        written = api.put(path, {**live, "status": {"b": "S"}}).expect(200)
        assert (written["spec"], written["status"]) == ({"a": "A", "b": "B"}, {"a": "A", "b": "S", "c": "C"})
        written = api.patch(path, {"status": {"b": "T"}}, content_type=MERGE).expect(200)
        assert (written["spec"], written["status"]["b"]) == ({"a": "A", "b": "B"}, "T")
        assert api.get(crd.path(pair.namespace, "x")).expect(200)["spec"] == {"a": "A", "b": "B"}


def reschema(pair: Pair, crd: Crd, schema: dict[str, Any], probe: Callable[[Api], bool]) -> None:
    """Replace the schema on both servers, and wait until each has taken it."""
    for api in (pair.ours, pair.theirs):
        versions = api.get(crd.url).expect(200)["spec"]["versions"]
        versions[0]["schema"]["openAPIV3Schema"] = schema
        api.patch(crd.url, {"spec": {"versions": versions}}).expect(200)
        eventually(lambda api=api: probe(api))


def refused(path: str, body: dict[str, Any]) -> Callable[[Api], bool]:
    return lambda api: api.post(path, body, dryRun="All").status == 422


@pytest.mark.behaviour("findings3/NS6")
@pytest.mark.parametrize("part", ["spec", "status"])
def test_lists_that_a_new_schema_refuses_may_stay(pair: Pair, pair_crd: Callable[..., Crd], part: str) -> None:
    def schema(**changes: Any) -> dict[str, Any]:
        keyed = {**KEYED, "x-kubernetes-list-map-keys": ["n", "v"]}
        keyed["items"] = {**ITEM, "required": ["n", "v"]}
        fields = {"type": "object", "properties": {"keyed": {**keyed, **changes}, "size": {"type": "integer"}}}
        return {"type": "object", "properties": {"spec": fields, "status": fields}}

    crd = pair_crd(schema=schema())
    items = [{"n": "1", "v": "a"}, {"n": "1", "v": "b"}, {"n": "2", "v": "a"}]
    where = crd.path(pair.namespace, "x") + ("/status" if part == "status" else "")
    pair.done("POST", crd.path(pair.namespace), {**crd.obj("x"), part: {"keyed": items}})
    pair.done("PATCH", where, {part: {"keyed": items}}, content_type=MERGE)
    many = refused(crd.path(pair.namespace), {**crd.obj("y"), "spec": {"keyed": items}})

    def patched(keyed: list[Any] | None = None, **more: Any) -> int:
        value = {**({} if keyed is None else {"keyed": keyed}), **more}
        return pair.ask("PATCH", where, {part: value}, content_type=MERGE)[0]

    reschema(pair, crd, schema(maxItems=2), many)
    assert patched(items[::-1]) == patched(size=1) == 200
    assert patched([*items, {"n": "3", "v": "a"}]) == patched([{**items[0], "w": "x"}, *items[1:]]) == 422
    assert patched([items[0], items[0]]) == 422
    pair.done("PATCH", where, {part: {"keyed": items}}, content_type=MERGE)
    reschema(pair, crd, schema(**{"x-kubernetes-list-map-keys": ["n"]}), many)
    # A list whose items were not distinct before may even get another double.
    assert patched(size=2) == patched(items) == patched([*items, items[0]]) == 200
    assert patched([items[0], items[2]]) == 200
    assert patched([items[0], items[0]]) == 422


@pytest.mark.behaviour("findings3/NS10")
def test_status_is_checked_as_an_object_of_its_own(pair: Pair, pair_crd: Callable[..., Crd]) -> None:
    number = {"type": "object", "properties": {"num": {"type": "integer", "maximum": 10}, "many": KEYED}}
    crd = pair_crd(schema={"type": "object", "required": ["spec"], "properties": {"spec": number, "status": number}})
    pair.done("POST", crd.path(pair.namespace), crd.obj("x", num=1))
    path = f"{crd.path(pair.namespace, 'x')}/status"
    for status in ({"num": 15}, {"num": "x"}, [], "x", None, {"many": [{"n": "1"}, {"n": "1"}]}, {"many": [{}]}):
        pair.ask("PATCH", path, {"status": status}, content_type=MERGE)
    assert pair.ask("PATCH", path, {"status": {"num": 15}, "spec": {"num": 99}}, content_type=MERGE)[0] == 422
    assert pair.ask("PATCH", path, {"status": {"num": 5}, "spec": {"num": 99}}, content_type=MERGE)[0] == 200


@pytest.mark.behaviour("findings3/NS10")
def test_the_api_version_is_checked_with_each_write(pair: Pair, group: str) -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object"}}}
    crd = established(pair, two_versions(group, schema, schema))
    pair.done("POST", crd.path(pair.namespace), crd.obj("x"))
    pattern = {"type": "string", "pattern": f"^{group}/v2$"}
    only_v2 = {"type": "object", "required": ["apiVersion"], "properties": {"apiVersion": pattern}}
    for api in (pair.ours, pair.theirs):
        versions = api.get(crd.url).expect(200)["spec"]["versions"]
        for version in versions:
            version["schema"]["openAPIV3Schema"] = only_v2
        api.patch(crd.url, {"spec": {"versions": versions}}).expect(200)
        eventually(lambda api=api: refused(crd.path(pair.namespace), crd.obj("y"))(api))
    for patch in ({}, {"metadata": {"labels": {"a": "b"}}}):
        for version, code in (("v1", 422), ("v2", 200)):
            path = crd.path(pair.namespace, "x", version)
            assert pair.ask("PATCH", path, patch, content_type=MERGE)[0] == code


@pytest.mark.behaviour("findings3/NS10")
def test_defaults_may_have_unknown_metadata(pair: Pair, pair_crd: Callable[..., Crd]) -> None:
    metadata = {"name": "Bar", "unknown": "x"}
    whole = {"apiVersion": "foos/v1", "kind": "Foo", "metadata": metadata}
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True}
    fields = {
        "whole": {**embedded, "x-kubernetes-preserve-unknown-fields": True, "default": whole},
        "parts": {
            **embedded,
            "properties": {
                "apiVersion": {**TEXT, "default": "foos/v1"},
                "kind": {**TEXT, "default": "Foo"},
                "metadata": {"type": "object", "default": metadata},
            },
            "default": {"apiVersion": "foos/v1", "kind": "Foo"},
        },
    }
    crd = pair_crd(schema=schema_of(fields))
    body = {**crd.obj("x"), "spec": {}}
    specs = [obj["spec"] for obj in pair.done("POST", crd.path(pair.namespace), body)]
    assert specs[0] == specs[1] == {name: {**whole, "metadata": {"name": "Bar"}} for name in fields}


@pytest.mark.behaviour("findings3/NS10")
def test_patches_of_subresources(pair: Pair, pair_crd: Callable[..., Crd]) -> None:
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    crd = pair_crd(subresources={"status": {}, "scale": scale})
    pair.done("PATCH", crd.path(pair.namespace, "x"), crd.obj("x", size=1), content_type=APPLY, fieldManager="a")
    for name in ("status", "scale"):
        path = f"{crd.path(pair.namespace, 'x')}/{name}"
        assert pair.ask("PATCH", path, {"spec": {"size": 2}}, content_type=STRATEGIC)[0] == 415
        for patch, media in (({}, MERGE), ([], JSON_PATCH)):
            assert pair.ask("PATCH", path, patch, content_type=media)[0] == 200


@pytest.mark.behaviour("findings3/NS10")
def test_objects_of_another_kind(pair: Pair, pair_crd: Callable[..., Crd]) -> None:
    crd = pair_crd()
    pair.done("POST", crd.path(pair.namespace), crd.obj("x"))
    for change in ({"kind": "SomethingElse"}, {"metadata": {"name": "A_"}}):
        body = {**copy.deepcopy(crd.obj("x")), **change}
        assert pair.ask("POST", crd.path(pair.namespace), body)[0] in (400, 422)
        assert pair.ask("PUT", crd.path(pair.namespace, "x"), body)[0] in (400, 422)
