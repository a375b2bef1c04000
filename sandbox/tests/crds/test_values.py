"""Values of custom objects that a schema refuses, on the sandbox and on a real kube-apiserver."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from sandbox.tests.conftest import Crd
from tests.support.http_client import Answer, Api

INT, TEXT, ANY = {"type": "integer"}, {"type": "string"}, {"x-kubernetes-preserve-unknown-fields": True}


def causes(answer: Answer) -> list[tuple[str, str, str]]:
    entries = answer.fails(422, "Invalid")["details"]["causes"]
    return [(cause["reason"], cause["field"], cause["message"]) for cause in entries]


def wrong_type(field: str, value: str) -> tuple[str, str, str]:
    text = f'Invalid value: "{value}": {field} in body must be of type object: "{value}"'
    return "FieldValueTypeInvalid", field, text


@pytest.mark.behaviour("findings/FS14")
def test_a_list_of_maps_has_only_objects(each_api: Api, namespace: str, each_crd: Callable[..., Crd]) -> None:
    items = {"type": "object", "required": ["k"], "properties": {"k": TEXT}}
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    listed = {"type": "array", "items": items, **keyed}
    spec = {"type": "object", "properties": {"l": listed}}
    crd = each_crd(schema={"type": "object", "properties": {"spec": spec}})

    def refused(*values: Any) -> list[tuple[str, str, str]]:
        return causes(each_api.post(crd.path(namespace), crd.obj(l=list(values))))

    def stray(index: int, value: str) -> tuple[str, str, str]:
        text = f"Invalid value: {value}: must be an object for an array of list-type map"
        return "FieldValueInvalid", f"spec.l[{index}]", text

    wrong = [wrong_type("spec.l[0]", "boolean"), wrong_type("spec.l[2]", "boolean")]
    assert refused(True, {"k": "b"}, True) == [*wrong, stray(0, "true")]
    assert refused({"k": "a"}, "x", "x")[-1] == stray(1, '"x"')
    assert refused([], [])[-1] == stray(0, "[]")
    duplicate = [("FieldValueDuplicate", "spec.l[1]", 'Duplicate value: {"k":"a"}')]
    assert refused({"k": "a"}, {"k": "a"}, {"k": "a"}) == duplicate
    assert refused({}, {})[-1] == ("FieldValueDuplicate", "spec.l[1]", "Duplicate value: {}")


@pytest.mark.behaviour("findings/FS17")
def test_bytes_are_base64_and_not_empty(each_api: Api, namespace: str, each_crd: Callable[..., Crd]) -> None:
    spec = {"type": "object", "properties": {"b": {"type": "string", "format": "byte"}}}
    crd = each_crd(schema={"type": "object", "properties": {"spec": spec}})
    for good in ("YQ==", "YWI=", "YWJj", "YR=="):
        each_api.post(crd.path(namespace), crd.obj(b=good), dryRun="All").expect(201)
    for bad in ("abc", "YQ=", "", "YQ==YQ==", "a-_b"):
        text = f'Invalid value: "{bad}": spec.b in body must be of type byte: "{bad}"'
        answer = each_api.post(crd.path(namespace), crd.obj(b=bad))
        assert causes(answer) == [("FieldValueTypeInvalid", "spec.b", text)]


@pytest.mark.behaviour("findings/FS17")
def test_the_fields_of_a_scale_are_checked(each_api: Api, namespace: str, each_crd: Callable[..., Crd]) -> None:
    paths = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object", **ANY}, "status": {"type": "object", **ANY}}}
    crd = each_crd(schema=schema, subresources={"status": {}, "scale": paths})
    bad = {
        "-1": (-1, "Invalid value: -1: should be a non-negative integer"),
        "large": (2**31, "Invalid value: 2147483648: should be less than or equal to 2147483647"),
        "text": ("a", "Invalid value: 0: PATH accessor error: a is of the type string, expected int64"),
        "fraction": (1.5, "Invalid value: 0: PATH accessor error: 1.5 is of the type float64, expected int64"),
        "map": (
            {"a": 1},
            "Invalid value: 0: PATH accessor error: map[a:1] is of the type map[string]interface {}, expected int64",
        ),
    }
    path = crd.path(namespace)
    for value, text in bad.values():
        answer = each_api.post(path, crd.obj(replicas=value))
        assert causes(answer) == [("FieldValueInvalid", ".spec.replicas", text.replace("PATH", ".spec.replicas"))]
    each_api.post(path, crd.obj(replicas=1)).expect(201)
    object_path = crd.path(namespace, "a")
    for value, text in bad.values():
        answer = each_api.patch(f"{object_path}/status", {"status": {"replicas": value}})
        assert causes(answer) == [("FieldValueInvalid", ".status.replicas", text.replace("PATH", ".status.replicas"))]
    text = 'Invalid value: "": .status.selector accessor error: [1] is of the type []interface {}, expected string'
    answer = each_api.patch(f"{object_path}/status", {"status": {"selector": [1]}})
    assert causes(answer) == [("FieldValueInvalid", ".status.selector", text)]
    for target in (object_path, f"{object_path}/scale"):
        answer = each_api.patch(target, {"spec": {"replicas": -1}})
        assert causes(answer) == [("FieldValueInvalid", ".spec.replicas", bad["-1"][1])]
        assert answer.json()["details"]["kind"] == "Widget"
    each_api.patch(f"{object_path}/scale", {"spec": {"replicas": 2}}).expect(200)


@pytest.mark.behaviour("findings/FS20")
def test_unknown_metadata_of_an_embedded_object_warns(
    each_api: Api, namespace: str, each_crd: Callable[..., Crd]
) -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": {"type": "object"}}}
    fields = {"t": embedded, "l": {"type": "array", "items": embedded}}
    crd = each_crd(schema={"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}})
    inner = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a", "foo": 1}, "bar": 1}
    answer = each_api.post(crd.path(namespace), crd.obj(t=inner), fieldValidation="Warn", dryRun="All")
    texts = ['unknown field \\"spec.t.bar\\"', 'unknown field \\"spec.t.metadata.foo\\"']
    assert answer.warnings == [f'299 - "{text}"' for text in texts]
    assert answer.expect(201)["spec"]["t"] == {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"}}
    answer = each_api.post(crd.path(namespace), crd.obj(l=[inner]), fieldValidation="Strict")
    assert 'unknown field "spec.l[0].metadata.foo"' in answer.fails(400, "BadRequest")["message"]


NUMBERS = """1.0 1|1e3 1000|1E2 100|-2.0 -2|-0.0 0|0.1e1 1|1.5 1.5|12.50 12.5|7 7|9007199254740993.0 9007199254740992"""


def test_a_number_without_a_fraction_is_stored_as_an_integer(
    each_api: Api, namespace: str, each_crd: Callable[..., Crd]
) -> None:
    crd = each_crd(schema={"type": "object", "properties": {"spec": {"type": "object", **ANY}}})
    sent, stored = zip(*(pair.split() for pair in NUMBERS.split("|")), strict=True)
    head = f'{{"apiVersion":"{crd.group}/v1","kind":"Widget","metadata":{{"name":"a"}},"spec":'
    each_api.post(crd.path(namespace), f'{head}{{"a":[{",".join(sent)}]}}}}'.encode()).expect(201)
    each_api.patch(crd.path(namespace, "a"), f'{{"spec":{{"b":[{",".join(sent)}]}}}}'.encode()).expect(200)
    spec = json.loads(each_api.get(crd.path(namespace, "a")).body, parse_float=str, parse_int=str)["spec"]
    assert (spec["a"], spec["b"]) == ([*stored], [*stored])
    # Without `fieldValidation` repeated keys are looked for too; with `Ignore` they are not.
    each_api.patch(crd.path(namespace, "a"), b'{"spec":{"c":3.0}}', fieldValidation="Ignore").expect(200)
    assert b'"c":3}' in each_api.get(crd.path(namespace, "a")).body
    each_api.patch(crd.path(namespace, "a"), b'{"spec":{"c":1e400}}').fails(400, "BadRequest")
