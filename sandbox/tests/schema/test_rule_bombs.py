"""Hostile rules of CRDs: each ends with a Status, and the server continues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sandbox.tests.conftest import Crd, crd_body
from tests.support.http_client import Api
from tests.support.objects import core

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NESTED = "self.l.all(a, " * 12 + "true" + ")" * 12
DOUBLED = "[self.t]" + ".map(x, x + x)" * 40 + "[0] == 'x'"
COPIED = "[self.l]" + ".map(x, x + x)" * 40 + "[0].size() == 1"
TRANSFORMED = "self.l.map(a, self.l.map(b, self.l.map(c, [a, b, c]))) == []"
RANGED = "lists.range(99999).map(a, lists.range(99999)).size() == 1"
REPLACED = "self.t" + ".replace('a', self.t)" * 20 + " == 'x'"
FORMATTED = "'" + "%s" * 100 + "'.format(" + "[self.t] + " * 100 + "[]) == 'x'"
MATCHED = "self.l.all(a, self.l.all(b, self.t.matches(self.t)))"
FOUND = "self.t.findAll('.*[^A-Z]|[A-Z]').size() == 1"
SORTED = "self.l.map(a, self.l.distinct().sort().reverse()).size() == 0"


def ruled(*rules: str) -> dict[str, Any]:
    texts = {"t": {"type": "string"}, "l": {"type": "array", "items": {"type": "string"}}}
    spec = {"type": "object", "properties": texts, "x-kubernetes-validations": [{"rule": rule} for rule in rules]}
    return {"type": "object", "properties": {"spec": spec}}


@pytest.mark.parametrize(
    "rule",
    [NESTED, DOUBLED, COPIED, TRANSFORMED, RANGED, REPLACED, FORMATTED, MATCHED, FOUND, SORTED],
    ids=["nested", "doubled", "copied", "transformed", "ranged", "replaced", "formatted", "matched", "found", "sorted"],
)
def test_a_rule_that_takes_too_long_is_aborted(api: Api, ns: str, make_crd: Callable[..., Crd], rule: str) -> None:
    crd = make_crd(schema=ruled(rule)).establish()
    body = crd.obj(t="a" * 100_000, l=[f"x{n}" for n in range(2000)])
    answer = api.post(crd.path(ns), body).fails(422, "Invalid", "spec", "FieldValueInvalid")
    assert "cost" in answer["message"] or "too long" in answer["message"]
    api.get(core("default", "configmaps")).expect(200)


def test_the_total_cost_of_rules_is_bounded(api: Api, ns: str, make_crd: Callable[..., Crd]) -> None:
    crd = make_crd(schema=ruled(*["self.l.all(a, self.l.exists(b, a == b))"] * 300)).establish()
    body = crd.obj(l=[f"x{n}" for n in range(300)])
    answer = api.post(crd.path(ns), body).fails(422, "Invalid", "spec", "FieldValueInvalid")
    assert "running out of cost budget, no further validation rules will be run" in answer["message"]


@pytest.mark.parametrize(
    "rule",
    [
        "(" * 5000 + "true" + ")" * 5000,
        "!" * 60_000 + "true",
        "-" * 60_000 + "1 == 1",
        "1" + " + 1" * 20_000 + " == 1",
        "self" + ".t" * 20_000 + " == 'x'",
        "true ? " * 8000 + "true" + " : true" * 8000,
        "[" * 20_000 + "]" * 20_000 + " == []",
        "{1:" * 15_000 + "1" + "}" * 15_000 + " == {}",
        "self.l" + "[0" * 15_000 + "]" * 15_000 + " == ''",
        "self.l.all(x, " * 4000 + "true" + ")" * 4000,
        "size(" * 10_000 + "''" + ")" * 10_000 + " == 0",
        "'" + "x" * 70_000 + "' == ''",
        r"'\U00110000' == '' && '\xff\377' == b'\xff' || 99999999999999999999 == 1",
        "\x00\ufffd `a",
    ],
    ids=range(14),
)
def test_a_rule_that_is_nested_too_deeply_is_refused(api: Api, group: str, rule: str) -> None:
    answer = api.post(CRDS, crd_body(group, schema=ruled(rule)))
    if rule.startswith(("!", "-")):
        answer.expect(201)  # An even number of signs cancels out.
    else:
        answer.fails(422, "Invalid", cause="FieldValueInvalid")
    api.get(core("default", "configmaps")).expect(200)


def test_rules_of_deep_schemas_and_objects_are_evaluated(api: Api, ns: str, make_crd: Callable[..., Crd]) -> None:
    schema: dict[str, Any] = {"type": "string"}
    value: Any = "x"
    path = ""
    for _ in range(12):
        schema = {"type": "object", "properties": {"a": schema}, "x-kubernetes-preserve-unknown-fields": True}
        value = {"a": value, "b": [[[[[[[[[[]]]]]]]]]]}
        path += ".a"
    schema["x-kubernetes-validations"] = [{"rule": f"self{path} != 'x'"}]
    crd = make_crd(schema={"type": "object", "properties": {"spec": schema}}).establish()
    api.post(crd.path(ns), crd.obj(**value)).fails(422, "Invalid", "spec", "FieldValueInvalid")
