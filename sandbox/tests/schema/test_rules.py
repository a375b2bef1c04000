"""Validation rules of CRDs (CEL): the same on the sandbox and on a real kube-apiserver."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ctrlhost_sandbox import Options, Sandbox

from ctrlhost import ApiError
from sandbox.tests.conftest import Crd, crd_body
from sandbox.tests.schema.rule_cases import CASES, INT, REFUSED, TEXT, Case, many, obj
from tests.support.control_plane import ControlPlane
from tests.support.http_client import Api
from tests.support.waiting import eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SCHEMA = "spec.validation.openAPIV3Schema.properties[spec]"
_serial = itertools.count(1)
Cause = tuple[str, str, str]


def ruled(schema: dict[str, Any], *rules: Any) -> dict[str, Any]:
    listed = [rule if isinstance(rule, dict) else {"rule": rule} for rule in rules]
    return {**schema, "x-kubernetes-validations": listed}


def with_spec(spec: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": spec}}


class Ruled:
    """A kind whose `spec` has that schema."""

    def __init__(self, server: ControlPlane, namespace: str, spec: dict[str, Any]) -> None:
        self.server, self.namespace = server, namespace
        self.body = crd_body(f"r{next(_serial)}.t.example.org", schema=with_spec(spec))
        self.api_version = f"{self.body['spec']['group']}/v1"
        server.client.create(self.body)
        eventually(self.served)

    def served(self) -> bool:
        try:
            list(self.server.client.list(self.api_version, "Widget", self.namespace))
        except (ApiError, LookupError):
            return False
        return True

    def obj(self, spec: Any, name: str = "a") -> dict[str, Any]:
        metadata = {"name": name, "namespace": self.namespace}
        return {"apiVersion": self.api_version, "kind": "Widget", "metadata": metadata, "spec": spec}

    def create(self, spec: Any, name: str = "a") -> dict[str, Any]:
        return self.server.client.create(self.obj(spec, name))

    def refuses(self, spec: Any, old: dict[str, Any] | None = None) -> list[Cause]:
        """Return the causes against a new object, or against a change of `old`; empty if it is accepted."""
        try:
            if old is None:
                self.server.client.create(self.obj(spec, f"n{next(_serial)}"))
            else:
                self.server.client.replace({**old, "spec": spec})
        except ApiError as error:
            if error.status != 422:
                raise
            return [(cause["field"], cause["reason"], cause["message"]) for cause in error.causes]
        return []


@pytest.fixture
def ruled_kind(control_plane: ControlPlane, namespace: str) -> Iterator[Callable[[dict[str, Any]], Ruled]]:
    kinds = []

    def make(spec: dict[str, Any]) -> Ruled:
        kinds.append(Ruled(control_plane, namespace, spec))
        return kinds[-1]

    yield make
    for kind in kinds:
        name = kind.body["metadata"]["name"]
        control_plane.client.delete("apiextensions.k8s.io/v1", "CustomResourceDefinition", name)


@pytest.mark.behaviour("sandbox/CD-28")
def test_a_rule_is_evaluated(ruled_kind: Callable[..., Ruled]) -> None:
    kind = ruled_kind(ruled(obj(size=INT), {"rule": "self.size <= 10", "message": "it is too large"}))
    assert kind.refuses({"size": 11}) == [("spec", "FieldValueInvalid", "Invalid value: it is too large")]
    assert kind.refuses({"size": 10}) == []


@pytest.mark.behaviour("sandbox/CD-29")
def test_a_transition_rule_is_evaluated_on_updates(ruled_kind: Callable[..., Ruled]) -> None:
    kind = ruled_kind(ruled(obj(color=TEXT, size=INT), "self.color == oldSelf.color"))
    old = kind.create({"color": "red"})
    text = "Invalid value: failed rule: self.color == oldSelf.color"
    assert kind.refuses({"color": "blue"}, old) == [("spec", "FieldValueInvalid", text)]
    assert kind.refuses({"color": "red", "size": 2}, old) == []


def test_rules_accept_and_refuse_the_same_values(ruled_kind: Callable[..., Ruled]) -> None:
    names = {name: f"f{index}" for index, name in enumerate(CASES)}
    kind = ruled_kind(obj(**{names[name]: ruled(case.schema, case.rule) for name, case in CASES.items()}))

    def answers(name: str, case: Case) -> dict[str, str]:
        """Return the message for each value, empty if it is accepted."""
        messages = {}
        for value in [*case.taken, *(value for value, _ in case.refused)]:
            causes = kind.refuses({names[name]: value})
            assert all(cause[:2] == (f"spec.{names[name]}", "FieldValueInvalid") for cause in causes), causes
            messages[json.dumps(value)] = "; ".join(cause[2] for cause in causes)
        return messages

    for name, case in CASES.items():
        messages = answers(name, case)
        wanted = {json.dumps(value): "" for value in case.taken}
        for value, part in case.refused:
            message = messages[json.dumps(value)]
            assert part in message, f"{name}: {value!r}: {message}"
            wanted[json.dumps(value)] = message
        assert messages == wanted, name


def test_a_rule_chooses_reason_field_and_message(ruled_kind: Callable[..., Ruled]) -> None:
    rule = {"rule": "self.{0} != 1", "message": "not one", "fieldPath": ".{0}"}
    parts: dict[str, dict[str, Any]] = {
        "forbidden": {"reason": "FieldValueForbidden"},
        "required": {"reason": "FieldValueRequired"},
        "duplicate": {"reason": "FieldValueDuplicate"},
        "made": {"messageExpression": "'made of ' + self.word"},
        "failing": {"messageExpression": "'made of ' + self.none"},
    }
    rules = [
        {**{key: value.format(name) for key, value in rule.items()}, **more} | {"rule": f"self.{name} != 1"}
        for name, more in parts.items()
    ]
    fields = {name: {**INT, "default": 0} for name in parts}
    kind = ruled_kind(ruled(obj(word={**TEXT, "default": "it"}, none=TEXT, **fields), *rules))
    causes = {name: kind.refuses({name: 1}) for name in parts}
    assert causes == {
        "forbidden": [("spec.forbidden", "FieldValueForbidden", "Forbidden: not one")],
        "required": [("spec.required", "FieldValueRequired", "Required value: not one")],
        "duplicate": [("spec.duplicate", "FieldValueDuplicate", "Duplicate value")],
        "made": [("spec.made", "FieldValueInvalid", "Invalid value: made of it")],
        "failing": [("spec.failing", "FieldValueInvalid", "Invalid value: not one")],
    }


def test_old_self_is_found_by_field_and_by_key(ruled_kind: Callable[..., Ruled]) -> None:
    item = {**ruled(obj(k=TEXT, v=TEXT), "self.v == oldSelf.v"), "required": ["k"]}
    by_key = many(item, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]})
    first = {"rule": "oldSelf.hasValue() ? oldSelf.value() == self : self == 'new'", "optionalOldSelf": True}
    kind = ruled_kind(obj(items=by_key, once=ruled(TEXT, "self == oldSelf"), first=ruled(TEXT, first)))
    old = kind.create({"items": [{"k": "a", "v": "1"}, {"k": "b", "v": "2"}], "once": "x", "first": "new"})
    assert [cause[0] for cause in kind.refuses({"first": "old"})] == ["spec.first"]
    changed = {"items": [{"k": "b", "v": "3"}, {"k": "a", "v": "1"}, {"k": "c", "v": "9"}], "once": "y", "first": "z"}
    fields = sorted(cause[0] for cause in kind.refuses(changed, old))
    assert fields == ["spec.first", "spec.items[0]", "spec.once"]
    # A removed value is not compared, and a restored one counts as new.
    old = kind.server.client.replace({**old, "spec": {"items": [{"k": "b", "v": "2"}], "first": "new"}})
    assert kind.refuses({"once": "y", "first": "new", "items": [{"k": "a", "v": "7"}]}, old) == []


def test_rules_are_skipped_for_objects_that_break_the_schema(ruled_kind: Callable[..., Ruled]) -> None:
    kind = ruled_kind(obj(a={"type": "string", "enum": ["x"]}, b=ruled({**INT, "maximum": 9}, "self < 5")))
    causes = kind.refuses({"a": "y", "b": 7})
    assert [cause[:2] for cause in causes] == [("spec.a", "FieldValueNotSupported"), ("<nil>", "FieldValueInvalid")]
    assert causes[1][2].startswith("Invalid value: null: some validation rules were not checked because")
    assert [cause[2] for cause in kind.refuses({"b": 11})][1:] == ["Invalid value: 11: failed rule: self < 5"]


def test_unchanged_invalid_values_are_accepted(ruled_kind: Callable[..., Ruled]) -> None:
    kind = ruled_kind(obj(a=TEXT, b=INT, c=obj(d=TEXT)))
    old = kind.create({"a": "x", "b": 1, "c": {"d": "x"}})
    crd = kind.server.client.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", kind.body["metadata"]["name"])
    strict = obj(a=ruled(TEXT, "self != 'x'"), b=INT, c=ruled(obj(d=TEXT), "self.d != 'x'"))
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = with_spec(strict)
    kind.server.client.replace(crd)
    eventually(lambda: kind.refuses({"a": "x"}))
    assert kind.refuses({"a": "x", "b": 2, "c": {"d": "x"}}, old) == []
    old = kind.server.client.get(kind.api_version, "Widget", "a", kind.namespace)
    assert [cause[0] for cause in kind.refuses({"a": "x", "c": {"d": "x", "e": "new"}, "b": 3}, old)] == []
    assert [cause[0] for cause in kind.refuses({"c": {"d": "x"}}, kind.create({"c": {"d": "y"}}, "b"))] == ["spec.c"]


def dry_run(server: ControlPlane, schema: dict[str, Any]) -> list[Cause]:
    """Return the causes against a CRD whose spec has that schema."""
    body = crd_body("dry.t.example.org", schema=with_spec(schema))
    headers = {"content-type": "application/json"}
    answer = server.client.transport.request(
        "POST", CRDS, query={"dryRun": "All"}, body=json.dumps(body).encode(), headers=headers
    )
    status = json.loads(answer.body)
    if answer.status == 201:
        return []
    assert answer.status == 422, status
    return [(cause["field"], cause["reason"], cause["message"]) for cause in status["details"]["causes"]]


def test_invalid_rules_are_refused(control_plane: ControlPlane) -> None:
    for schema, rule, part, message in REFUSED:
        causes = dry_run(control_plane, ruled(schema, rule))
        assert [cause[0] for cause in causes] == [f"{SCHEMA}.x-kubernetes-validations[0].{part}"], rule
        assert message in causes[0][2], f"{rule}: {causes}"
    text = dry_run(control_plane, ruled(obj(a=INT), {"rule": "self.b > 1", "message": "m"}))[0][2]
    whole = r'{"Rule":"self.b \u003e 1","Message":"m","MessageExpression":"","Reason":null,"FieldPath":""'
    assert text.startswith(f'Invalid value: {whole},"OptionalOldSelf":null}}: compilation failed: ERROR: <input>:1:5:')


def test_old_self_is_refused_in_uncorrelatable_lists(control_plane: ControlPlane) -> None:
    for kind in ("atomic", "set"):
        items = many(ruled(TEXT, "self == oldSelf"), **{"x-kubernetes-list-type": kind})
        field = f"{SCHEMA}.properties[l]"
        why = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {field}"
        causes = dry_run(control_plane, obj(l=items))
        text = f'Invalid value: "self == oldSelf": {why}'
        assert causes == [(f"{field}.items.x-kubernetes-validations[0].rule", "FieldValueInvalid", text)]


def test_defaults_must_satisfy_rules_and_alternatives_have_none(control_plane: ControlPlane) -> None:
    causes = dry_run(control_plane, obj(a=ruled({**INT, "default": 5}, "self > 10")))
    text = "Invalid value: 5: failed rule: self > 10"
    assert causes == [(f"{SCHEMA}.properties[a].default", "FieldValueInvalid", text)]
    causes = dry_run(control_plane, {**obj(a=INT), "anyOf": [ruled({}, "self.a > 1")]})
    assert ("FieldValueForbidden", "Forbidden: must be empty to be structural") in [cause[1:] for cause in causes]


def test_the_evaluation_of_rules_can_be_disabled(group: str) -> None:
    with Sandbox(options=Options(cel="warn")) as sandbox, Api(sandbox.url, sandbox.ca, sandbox.token) as api:
        crd = Crd(api, crd_body(group, schema=with_spec(ruled(obj(size=INT), "self.size <= 10", "not even CEL ((("))))
        answer = api.post(CRDS, crd.body)
        stored = answer.expect(201)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        assert stored["x-kubernetes-validations"] == [{"rule": "self.size <= 10"}, {"rule": "not even CEL ((("}]
        assert any("not evaluated" in text for text in answer.warnings)
        eventually(crd.established)
        api.post(crd.path("default"), crd.obj(size=11)).expect(201)
