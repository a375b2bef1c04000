"""Hostile CRDs: slow patterns and deep schemas are refused or bounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sandbox.tests.conftest import Crd, crd_body
from tests.support.http_client import Api
from tests.support.objects import core

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FIELD = "spec.validation.openAPIV3Schema"


def with_patterns(*patterns: str, **more: Any) -> dict[str, Any]:
    fields = {f"f{n}": {"type": "string", "pattern": pattern, **more} for n, pattern in enumerate(patterns)}
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)+$", "(.*a){25}$", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_a_pattern_that_backtracks_elsewhere_takes_linear_time(
    api: Api, ns: str, make_crd: Callable[..., Crd], pattern: str
) -> None:
    crd = make_crd(schema=with_patterns(pattern)).establish()
    field = f"{'a' * 100_000}!"
    api.post(crd.path(ns), crd.obj(f0=field)).fails(422, "Invalid", "spec.f0", "FieldValueInvalid")


def test_a_format_that_backtracks_elsewhere_takes_linear_time(api: Api, ns: str, make_crd: Callable[..., Crd]) -> None:
    schema = with_patterns("", "", "")
    for name, kind in zip(("f0", "f1", "f2"), ("duration", "hostname", "email"), strict=True):
        schema["properties"]["spec"]["properties"][name]["format"] = kind
    crd = make_crd(schema=schema).establish()
    for duration in ("1y" * 50_000, "1" * 100_000, "1h" * 50_000 + "9" * 50_000 + "h"):
        spec = {"f0": duration, "f1": "a" * 100_000 + "!", "f2": "@" * 100_000}
        answer = api.post(crd.path(ns), crd.obj(**spec)).fails(422, "Invalid")
        assert {cause["field"] for cause in answer["details"]["causes"]} == {"spec.f0", "spec.f1", "spec.f2"}


@pytest.mark.parametrize(
    "pattern", [r"(?=a)", r"(?<!a)b", r"(a)\1", "a**", "a{1001}", "((a{10}){10}){11}", "[", r"\pL{1000}"]
)
def test_a_pattern_that_go_does_not_support_is_refused(api: Api, group: str, pattern: str) -> None:
    answer = api.post(CRDS, crd_body(group, schema=with_patterns(pattern)))
    answer.fails(422, "Invalid", f"{FIELD}.properties[spec].properties[f0].pattern", "FieldValueInvalid")
    schema = with_patterns("a")
    schema["properties"]["spec"]["properties"]["f0"]["anyOf"] = [{"pattern": pattern}]
    field = f"{FIELD}.properties[spec].properties[f0].anyOf[0].pattern"
    api.post(CRDS, crd_body(group, schema=schema)).fails(422, "Invalid", field)


def test_a_text_that_is_too_long_for_a_large_pattern_is_refused(
    api: Api, ns: str, make_crd: Callable[..., Crd]
) -> None:
    large = "|".join(f"a{{{n}}}b" for n in range(900, 910))
    crd = make_crd(schema=with_patterns(large)).establish()
    api.post(crd.path(ns), crd.obj("short", f0="a" * 950 + "b")).expect(201)
    answer = api.post(crd.path(ns), crd.obj("long", f0="a" * 500_000)).fails(422, "Invalid", "spec.f0")
    assert "too long for this pattern" in answer["message"]


def test_patterns_that_are_too_large_together_are_refused(api: Api, group: str) -> None:
    few = with_patterns(*(rf"\w{{900}}{n}" for n in range(20)))
    api.post(CRDS, crd_body(group, schema=few)).expect(201)
    many = with_patterns(*(rf"\pL{{60}}{n}" for n in range(2000)))
    answer = api.post(CRDS, crd_body(f"other.{group}", schema=many)).fails(422, "Invalid", cause="FieldValueForbidden")
    assert "too large together" in answer["message"]


def test_the_nesting_of_schemas_is_bounded(api: Api, group: str) -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(90):
        deep = {"type": "object", "properties": {"a": deep}}
    api.post(CRDS, crd_body(group, schema=deep)).fails(400, "BadRequest")
    inside: dict[str, Any] = {"pattern": "a"}
    for _ in range(90):
        inside = {"not": inside}
    # A real server accepts this schema, and it is no deeper than a body may be.
    logic = {"type": "object", "properties": {"spec": {"type": "string", "allOf": [inside]}}}
    api.post(CRDS, crd_body(group, schema=logic)).expect(201)
    api.get(core("default", "configmaps")).expect(200)
