"""Invalid CRDs: the sandbox and a real kube-apiserver name the same fields for the same reasons."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from sandbox.tests.conftest import crd_body
from tests.support.compared import Pair, told
from tests.support.webhook_server import configuration, webhook

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SPEC = "spec.validation.openAPIV3Schema.properties[spec].properties[x]"
TEXT = {"type": "string"}
Edit = Callable[[dict[str, Any]], Any]
Causes = list[tuple[str, str]]


def compared(pair: Pair, body: dict[str, Any]) -> Causes:
    """Post a CRD to both without storing it; return the fields and reasons of the causes, which must be equal."""
    answers = [told(api.post(CRDS, body, dryRun="All")) for api in (pair.ours, pair.theirs)]
    ours, wanted = ([(cause["field"], cause["reason"]) for cause in answer[1]["causes"]] for answer in answers)
    assert (answers[0][0], sorted(ours)) == (answers[1][0], sorted(wanted)), answers
    return ours


def version(body: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = body["spec"]["versions"][0]
    return entry


def add_version(body: dict[str, Any], **changes: Any) -> None:
    body["spec"]["versions"].append({**copy.deepcopy(version(body)), **changes})


INVALID = "FieldValueInvalid"
STORED = ("status.storedVersions", INVALID)
CRD_CASES: dict[str, tuple[Edit, Causes]] = {
    "another name": (lambda body: body["metadata"].update(name="x.y.example.org"), [("metadata.name", INVALID)]),
    "no schema": (
        lambda body: version(body).pop("schema"),
        [("spec.versions[0].schema.openAPIV3Schema", "FieldValueRequired")],
    ),
    "two storage versions": (lambda body: add_version(body, name="v2"), [("spec.versions", INVALID), STORED]),
    "no storage version": (lambda body: version(body).update(storage=False), [("spec.versions", INVALID), STORED]),
    "one version twice": (lambda body: add_version(body, storage=False), [("spec.versions", INVALID)]),
    "kind is listKind": (
        lambda body: body["spec"]["names"].update(listKind="Widget"),
        [("spec.names.listKind", INVALID)],
    ),
    "no group": (
        lambda body: body["spec"].update(group=""),
        [("metadata.name", INVALID), ("spec.group", "FieldValueRequired")],
    ),
}


@pytest.mark.behaviour("sandbox/CD-04")
@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (None, "FieldValueRequired"),
        ("", "FieldValueRequired"),
        ("yes", INVALID),
        ("/pull/1", INVALID),
        ("https://", INVALID),
        ("unapproved, an experiment", ""),
        ("ftp://example.org/1", ""),
        ("https://github.com/kubernetes/x/pull/1", ""),
    ],
)
def test_protected_groups(pair: Pair, group: str, annotation: str | None, reason: str) -> None:
    body = crd_body(f"{group.partition('.')[0]}.x.k8s.io")
    if annotation is not None:
        body["metadata"]["annotations"] = {"api-approved.kubernetes.io": annotation}
    answer = pair.ask("POST", CRDS, body, dryRun="All")
    causes = [(cause["field"], cause["reason"]) for cause in answer[1].get("causes", ())]
    wanted = [("metadata.annotations[api-approved.kubernetes.io]", reason)] if reason else []
    assert (answer[0], causes) == (422 if reason else 201, wanted)


@pytest.mark.behaviour("sandbox/CD-03")
@pytest.mark.parametrize("name", CRD_CASES)
def test_invalid_crds(pair: Pair, group: str, name: str) -> None:
    edit, wanted = CRD_CASES[name]
    body = crd_body(group)
    edit(body)
    assert compared(pair, body) == wanted


SCHEMA_CASES: dict[str, tuple[dict[str, Any], Causes]] = {
    "no type": ({"description": "no type"}, [(f"{SPEC}.type", "FieldValueRequired")]),
    "$ref": ({"type": "object", "$ref": "#/x"}, [(f"{SPEC}.$ref", "FieldValueForbidden")]),
    "uniqueItems": (
        {"type": "array", "items": TEXT, "uniqueItems": True},
        [(f"{SPEC}.uniqueItems", "FieldValueForbidden")],
    ),
    "properties and additionalProperties": (
        {"type": "object", "properties": {"a": TEXT}, "additionalProperties": TEXT},
        [(f"{SPEC}.additionalProperties", "FieldValueForbidden")],
    ),
    "no items": ({"type": "array"}, [(f"{SPEC}.items", "FieldValueRequired")]),
    "pattern": ({"type": "string", "pattern": "("}, [(f"{SPEC}.pattern", INVALID)]),
}
DEFAULT_CASES: dict[str, tuple[dict[str, Any], Causes]] = {
    "type": ({"type": "integer", "default": "text"}, [(f"{SPEC}.default", "FieldValueTypeInvalid")]),
    "enum": ({"type": "string", "enum": ["a"], "default": "b"}, [(f"{SPEC}.default", "FieldValueNotSupported")]),
    "maximum": ({"type": "integer", "maximum": 1, "default": 2}, [(f"{SPEC}.default", INVALID)]),
    "unknown field": (
        {"type": "object", "properties": {"a": TEXT}, "default": {"b": 1}},
        [(f"{SPEC}.default", INVALID)],
    ),
    "type of a field": (
        {"type": "object", "properties": {"a": TEXT}, "default": {"a": 1}},
        [(f"{SPEC}.default.a", "FieldValueTypeInvalid")],
    ),
    "required field": (
        {"type": "object", "required": ["a"], "properties": {"a": TEXT}, "default": {}},
        [(f"{SPEC}.default.a", "FieldValueRequired")],
    ),
    "type of an item": (
        {"type": "array", "items": TEXT, "default": ["a", 1]},
        [(f"{SPEC}.default.[1]", "FieldValueTypeInvalid")],
    ),
    "not": ({"type": "string", "not": {"pattern": "a"}, "default": "a"}, [(f"{SPEC}.default", INVALID)]),
    "field of an item": (
        {"type": "array", "items": {"type": "object", "properties": {"a": TEXT}}, "default": [{"a": 1}]},
        [(f"{SPEC}.default.[0].a", "FieldValueTypeInvalid")],
    ),
    "unknown field and type": (
        {"type": "object", "properties": {"a": TEXT}, "default": {"a": 1, "b": 1}},
        [(f"{SPEC}.default", INVALID), (f"{SPEC}.default.a", "FieldValueTypeInvalid")],
    ),
}


def with_spec(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": schema}}}}


@pytest.mark.behaviour("sandbox/CD-05")
@pytest.mark.parametrize("name", SCHEMA_CASES)
def test_schemas_that_are_not_structural(pair: Pair, group: str, name: str) -> None:
    schema, wanted = SCHEMA_CASES[name]
    assert compared(pair, crd_body(group, schema=with_spec(schema))) == wanted


@pytest.mark.behaviour("sandbox/CD-06")
@pytest.mark.parametrize("name", DEFAULT_CASES)
def test_defaults_that_violate_their_schema(pair: Pair, group: str, name: str) -> None:
    schema, wanted = DEFAULT_CASES[name]
    assert compared(pair, crd_body(group, schema=with_spec(schema))) == wanted


@pytest.mark.behaviour("sandbox/CD-05")
@pytest.mark.parametrize("same", [True, False])
def test_a_schema_that_versions_share_has_one_field(pair: Pair, group: str, same: bool) -> None:
    body = crd_body(group, schema=with_spec({"type": "object", "$ref": "#/x"}))
    add_version(body, name="v2", storage=False)
    if not same:
        body["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["description"] = "another one"
    own = [(f"{SPEC}.$ref".replace("validation", f"versions[{n}].schema"), "FieldValueForbidden") for n in range(2)]
    assert compared(pair, body) == ([(f"{SPEC}.$ref", "FieldValueForbidden")] if same else own)


@pytest.mark.behaviour("sandbox/CD-05")
@pytest.mark.parametrize(
    "root",
    [
        {"type": "string"},
        {"anyOf": [{"required": ["spec"]}]},
        {"not": {"required": ["spec"]}},
        {"maxProperties": 5},
        {"nullable": True},
        {"properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}},
    ],
)
@pytest.mark.parametrize("subresources", [{"status": {}}, {}])
def test_the_root_of_a_schema(pair: Pair, group: str, root: dict[str, Any], subresources: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object"}}, **root}
    answers = [
        told(api.post(CRDS, crd_body(group, schema=schema, subresources=subresources), dryRun="All"))
        for api in (pair.ours, pair.theirs)
    ]
    causes = [[(cause["field"], cause["reason"]) for cause in answer[1].get("causes", ())] for answer in answers]
    assert (answers[0][0], causes[0]) == (answers[1][0], causes[1]), answers


URL = {"url": "https://127.0.0.1:1/x"}
CONVERSIONS: dict[str, dict[str, Any]] = {
    "no strategy": {},
    "another strategy": {"strategy": "Other"},
    "no webhook": {"strategy": "Webhook"},
    "no place": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}},
    "an empty place": {"strategy": "Webhook", "webhook": {"clientConfig": {}, "conversionReviewVersions": ["v1"]}},
    "plain HTTP": {
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"url": "http://x"}, "conversionReviewVersions": ["v1"]},
    },
    "a Service without a name": {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"service": {"namespace": "a", "name": "", "port": 0, "path": "x"}},
            "conversionReviewVersions": ["v1"],
        },
    },
    "no versions of reviews": {
        "strategy": "Webhook",
        "webhook": {"clientConfig": URL, "conversionReviewVersions": []},
    },
    "unknown versions of reviews": {
        "strategy": "Webhook",
        "webhook": {"clientConfig": URL, "conversionReviewVersions": ["v2", "v2", "Bad"]},
    },
    "a webhook without its strategy": {
        "strategy": "None",
        "webhook": {"clientConfig": URL, "conversionReviewVersions": ["v1"]},
    },
    "fine": {"strategy": "Webhook", "webhook": {"clientConfig": URL, "conversionReviewVersions": ["v2", "v1"]}},
}


@pytest.mark.parametrize("conversion", CONVERSIONS.values(), ids=CONVERSIONS)
def test_conversions_are_refused_in_the_same_words(pair: Pair, group: str, conversion: dict[str, Any]) -> None:
    body = crd_body(group)
    body["spec"]["conversion"] = conversion
    code, _ = pair.ask("POST", CRDS, body, dryRun="All")
    assert code == (201 if conversion is CONVERSIONS["fine"] else 422)


CONFIGURED: dict[str, dict[str, Any]] = {
    "a version that is no label": {"admissionReviewVersions": ["v1", "Bad"]},
    "no versions": {"admissionReviewVersions": []},
    "a Service without a name": {"clientConfig": {"service": {"namespace": "a", "name": "", "port": 0, "path": "x"}}},
    "a Service without a namespace": {"clientConfig": {"service": {"namespace": "", "name": "b", "path": "/x//y"}}},
    "a path that is no name": {"clientConfig": {"service": {"namespace": "a", "name": "b", "path": "/X_/y/"}}},
    "a path of two slashes": {"clientConfig": {"service": {"namespace": "a", "name": "b", "path": "//"}}},
    "the root": {"clientConfig": {"service": {"namespace": "a", "name": "b", "path": "/"}}},
}


@pytest.mark.parametrize("more", CONFIGURED.values(), ids=CONFIGURED)
def test_webhooks_are_refused_in_the_same_words(pair: Pair, more: dict[str, Any]) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    body = configuration("a", webhook("a.b.test", URL, **more))
    code, _ = pair.ask("POST", path, body, dryRun="All")
    assert code == (201 if more is CONFIGURED["the root"] else 422)
