"""Schemas of CRDs: the sandbox gives all causes and warnings of a real kube-apiserver, with their texts."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.tests.conftest import crd_body
from tests.support.compared import Pair

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TEXT, INTEGER = {"type": "string"}, {"type": "integer"}
EMBEDDED = {"x-kubernetes-embedded-resource": True}
PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}
MIXED = {"x-kubernetes-int-or-string": True}
#: Schemas of a field. The names say what each is about.
SCHEMAS: dict[str, dict[str, Any]] = {
    "emb": {"type": "object", **EMBEDDED},
    "emb props": {"type": "object", **EMBEDDED, "properties": {"a": TEXT}},
    "emb addl": {"type": "object", **EMBEDDED, "additionalProperties": TEXT},
    "emb notobj": {"type": "string", **EMBEDDED},
    "emb only": {**EMBEDDED},
    "emb pres": {**EMBEDDED, **PRESERVE},
    "anyOf preserve": {"type": "object", "properties": {"a": TEXT}, "anyOf": [{**PRESERVE}]},
    "anyOf preserve nested": {
        "type": "object",
        "properties": {"a": {"type": "object"}},
        "anyOf": [{"properties": {"a": {**PRESERVE}}}],
    },
    "allOf embedded": {"type": "object", "allOf": [EMBEDDED]},
    "allOf ios": {"type": "object", "allOf": [MIXED]},
    "anyOf list type": {"type": "array", "items": TEXT, "anyOf": [{"x-kubernetes-list-type": "set"}]},
    "anyOf map type": {"type": "object", "anyOf": [{"x-kubernetes-map-type": "atomic"}]},
    "anyOf map keys": {"type": "array", "items": TEXT, "anyOf": [{"x-kubernetes-list-map-keys": ["a"]}]},
    "anyOf title": {"type": "object", "anyOf": [{"title": "a", "example": 1, "externalDocs": {"url": "x"}}]},
    "anyOf everything": {
        "type": "object",
        "anyOf": [
            {
                "type": "object",
                "default": {},
                "nullable": True,
                "description": "x",
                "additionalProperties": TEXT,
                **PRESERVE,
                **EMBEDDED,
                **MIXED,
                "x-kubernetes-list-type": "set",
                "x-kubernetes-list-map-keys": ["a"],
                "x-kubernetes-map-type": "atomic",
                "title": "x",
            }
        ],
    },
    "not items list": {"type": "array", "items": INTEGER, "not": {"items": [INTEGER]}},
    "not items list2": {"not": {"items": [{"type": "string"}, {"type": "integer"}]}, **PRESERVE},
    "items list": {"type": "array", "items": [INTEGER]},
    "items list empty": {"type": "array", "items": []},
    "ios": {**MIXED},
    "ios any": {**MIXED, "anyOf": [INTEGER, TEXT]},
    "ios any rev": {**MIXED, "anyOf": [TEXT, INTEGER]},
    "ios any 3": {**MIXED, "anyOf": [INTEGER, TEXT, {"pattern": "x"}]},
    "ios any 3b": {**MIXED, "anyOf": [INTEGER, TEXT, INTEGER]},
    "ios allOf any": {**MIXED, "allOf": [{"anyOf": [INTEGER, TEXT]}]},
    "ios allOf any+": {**MIXED, "allOf": [{"anyOf": [INTEGER, TEXT]}, {"pattern": "x"}]},
    "ios allOf any 2nd": {**MIXED, "allOf": [{"pattern": "x"}, {"anyOf": [INTEGER, TEXT]}]},
    "ios both": {**MIXED, "anyOf": [INTEGER, TEXT], "allOf": [{"anyOf": [INTEGER, TEXT]}]},
    "ios type": {**MIXED, "type": "integer"},
    "ios anyOf pattern": {**MIXED, "anyOf": [{"pattern": "a"}, {"minimum": 1}]},
    "ios not": {**MIXED, "not": {"type": "integer"}},
    "ios any desc": {**MIXED, "anyOf": [{**INTEGER, "description": "a"}, TEXT]},
    "undeclared in anyOf": {"type": "object", "anyOf": [{"properties": {"b": {"minLength": 1}}}]},
    "undeclared nested": {
        "type": "object",
        "properties": {"a": {"type": "object"}},
        "anyOf": [{"properties": {"a": {"properties": {"c": {"minLength": 1}}}}}],
    },
    "undeclared preserve": {"type": "object", **PRESERVE, "anyOf": [{"properties": {"b": {"minLength": 1}}}]},
    "undeclared addl": {
        "type": "object",
        "additionalProperties": TEXT,
        "anyOf": [{"properties": {"b": {"minLength": 1}}}],
    },
    "not items undeclared": {"type": "object", "not": {"items": {"minLength": 1}}},
    "several": {
        "type": "object",
        "uniqueItems": True,
        "$ref": "x",
        "anyOf": [{"type": "string", "properties": {"b": {"type": "string"}}}],
        "properties": {
            "a": {},
            "b": {"type": "array"},
            "c": {"type": "foo"},
            "d": {"type": "string", "nullable": True, "default": 3},
            "e": {"type": "array", "items": [TEXT]},
        },
    },
    "preserve false": {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
    "list map": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "items": {"type": "object", "properties": {"a": {"type": "object"}}},
        "x-kubernetes-list-map-keys": ["a", "b", "a"],
    },
    "list map no keys": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "items": {"type": "object", "properties": {"a": TEXT}},
    },
    "list map scalar": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "items": TEXT,
        "x-kubernetes-list-map-keys": ["a"],
    },
    "list bad type": {"type": "array", "x-kubernetes-list-type": "foo", "items": TEXT},
    "list type on obj": {"type": "object", "x-kubernetes-list-type": "set"},
    "list keys without type": {"type": "array", "items": TEXT, "x-kubernetes-list-map-keys": ["a"]},
    "list set keys": {
        "type": "array",
        "items": TEXT,
        "x-kubernetes-list-type": "set",
        "x-kubernetes-list-map-keys": ["a"],
    },
    "set of obj": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"},
    "set of obj gran": {
        "type": "array",
        "items": {"type": "object", "x-kubernetes-map-type": "granular"},
        "x-kubernetes-list-type": "set",
    },
    "set of list": {
        "type": "array",
        "items": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
        "x-kubernetes-list-type": "set",
    },
    "set nullable": {"type": "array", "items": {**TEXT, "nullable": True}, "x-kubernetes-list-type": "set"},
    "map type": {"type": "object", "x-kubernetes-map-type": "foo"},
    "map type on str": {"type": "string", "x-kubernetes-map-type": "atomic"},
    "map key nullable": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "items": {"type": "object", "required": ["a"], "properties": {"a": {**TEXT, "nullable": True}}},
        "x-kubernetes-list-map-keys": ["a"],
    },
    "map key default": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "items": {"type": "object", "properties": {"a": {**TEXT, "default": "x"}}},
        "x-kubernetes-list-map-keys": ["a"],
    },
    "map key none": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "items": {"type": "object", "properties": {"a": TEXT}},
        "x-kubernetes-list-map-keys": ["a"],
    },
    "map nullable items": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "items": {"type": "object", "nullable": True, "required": ["a"], "properties": {"a": TEXT}},
        "x-kubernetes-list-map-keys": ["a"],
    },
    "deep default": {
        "type": "object",
        "properties": {"a": {"type": "object", "default": {"b": 1}, "properties": {"b": TEXT}}},
    },
    "default in items": {"type": "array", "items": {"type": "string", "default": "x"}},
    "default null": {"type": "string", "default": None},
    "default null nullable": {"type": "string", "nullable": True, "default": None},
    "default in not": {"type": "object", "not": {"properties": {"a": {"default": 1}}}},
    "default under addl": {"type": "object", "additionalProperties": {"type": "string", "default": "a"}},
    "embedded metadata default": {
        "type": "object",
        **EMBEDDED,
        "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "default": "x"}}}},
    },
    "embedded metadata default2": {
        "type": "object",
        **EMBEDDED,
        "properties": {
            "metadata": {"type": "object", "default": {"name": "x"}},
            "apiVersion": {"type": "string", "default": "v1"},
        },
    },
    "embedded metadata props": {
        "type": "object",
        **EMBEDDED,
        "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}},
    },
    "embedded apiVersion int": {
        "type": "object",
        **EMBEDDED,
        "properties": {"apiVersion": {"type": "integer"}, "kind": {"type": "boolean"}, "metadata": {"type": "string"}},
    },
    "unknown type": {"type": "foo"},
    "type null": {"type": "null"},
    "id etc": {
        "type": "object",
        "id": "x",
        "$schema": "y",
        "definitions": {"a": TEXT},
        "dependencies": {"a": ["b"]},
        "patternProperties": {"a": TEXT},
        "additionalItems": True,
    },
    "nested anyOf in allOf": {
        "type": "object",
        "properties": {"a": TEXT},
        "allOf": [{"anyOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"z": {}}}]}],
    },
    "addl false": {"type": "object", "additionalProperties": False},
    "addl false props": {"type": "object", "additionalProperties": False, "properties": {"a": TEXT}},
    "addl true props": {"type": "object", "additionalProperties": True, "properties": {"a": TEXT}},
    "format unknown": {"type": "string", "format": "foo"},
    "xor minmax": {"type": "string", "minLength": 5, "maxLength": 3},
    "enum empty": {"type": "string", "enum": []},
    "enum dup": {"type": "string", "enum": ["a", "a"]},
    "required dup": {"type": "object", "required": ["a", "a"], "properties": {"a": TEXT}},
}


def with_field(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": schema}}}}


@pytest.mark.behaviour("findings3/NS1")
@pytest.mark.parametrize("name", SCHEMAS)
def test_causes_of_schemas(pair: Pair, group: str, name: str) -> None:
    pair.ask("POST", CRDS, crd_body(group, schema=with_field(SCHEMAS[name])), dryRun="All")


@pytest.mark.behaviour("findings3/NS1")
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("emb", 422),
        ("anyOf preserve", 422),
        ("anyOf preserve nested", 422),
        ("not items list", 422),
        ("ios any 3", 422),
        ("ios any", 201),
        ("several", 422),
    ],
)
def test_schemas_that_were_accepted(pair: Pair, group: str, name: str, code: int) -> None:
    answer = pair.ask("POST", CRDS, crd_body(group, schema=with_field(SCHEMAS[name])), dryRun="All")
    assert answer[0] == code
    assert name != "several" or len(answer[1]["causes"]) > 3


@pytest.mark.behaviour("findings3/NS1")
@pytest.mark.parametrize(
    "name", ["emb", "anyOf preserve", "not items list", "items list", "ios any 3", "several", "id etc"]
)
@pytest.mark.parametrize("subresources", [{"status": {}}, {}])
def test_causes_at_the_root(pair: Pair, group: str, name: str, subresources: dict[str, Any]) -> None:
    body = crd_body(group, schema={"type": "object", **SCHEMAS[name]}, subresources=subresources)
    answers = [api.post(CRDS, body, dryRun="All").fails(422) for api in (pair.ours, pair.theirs)]
    # A real server shows the whole schema as Go names its members.
    ours, wanted = (
        sorted((cause["field"], cause["reason"]) for cause in answer["details"]["causes"]) for answer in answers
    )
    assert ours == wanted
