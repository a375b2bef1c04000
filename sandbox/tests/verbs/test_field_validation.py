"""Unknown and repeated fields: the texts of a real server, for typed and custom objects, JSON, YAML and apply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sandbox.tests.conftest import Crd
from tests.support.http_client import Answer, Api
from tests.support.objects import core

pytestmark = pytest.mark.behaviour("findings/FS29")

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}
TEMPLATE = {
    "type": "object",
    "x-kubernetes-embedded-resource": True,
    "properties": {
        "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
        "spec": {"type": "object", **PRESERVE},
    },
}
PORTS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
}
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}, "template": TEMPLATE, "ports": PORTS}},
        "free": {"type": "object", **PRESERVE},
        "names": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


@pytest.fixture
def crd(make_crd: Callable[..., Crd]) -> Crd:
    return make_crd(schema=SCHEMA).establish()


def send(api: Api, path: str, body: str, media: str = "json", **query: Any) -> Answer:
    """Create, or apply to the object `a`."""
    if media == "apply":
        headers = {"Content-Type": "application/apply-patch+yaml"}
        return api.request("PATCH", f"{path}/a", body.encode(), headers=headers, fieldManager="m", **query)
    return api.request("POST", path, body.encode(), headers={"Content-Type": f"application/{media}"}, **query)


@pytest.mark.parametrize(
    ("body", "problems"),
    [
        # In the document's order; values of unknown fields are not looked at.
        (
            '{"metadata": {"name": "a", "odd": 1, "name": "a"}, "u": {"x": 1, "x": 2}, "data": {"k": "1", "k": "2"}}',
            [
                *('unknown field "metadata.odd"', 'duplicate field "metadata.name"', 'unknown field "u"'),
                'duplicate field "data.k"',
            ],
        ),
        (
            '{"metadata": {"name": "a"}, "data": {"k": "1"}, "data": {"k": "1", "k": "2"}, "u": 1, "u": 2}',
            ['duplicate field "data"', 'duplicate field "data.k"', 'unknown field "u"'],
        ),
    ],
)
def test_fields_of_a_typed_object_are_reported_in_their_order(
    api: Api, ns: str, body: str, problems: list[str]
) -> None:
    strict = send(api, core(ns, "configmaps"), body, fieldValidation="Strict").fails(400, "BadRequest")
    prefix = 'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
    assert strict["message"] == prefix + ", ".join(problems)
    answer = send(api, core(ns, "configmaps"), body, fieldValidation="Warn")
    answer.expect(201)
    quoted = [text.replace('"', '\\"') for text in problems]
    assert answer.warnings == [f'299 - "{text}"' for text in quoted]


def test_repeated_fields_of_a_custom_object_come_before_the_unknown_ones(api: Api, ns: str, crd: Crd) -> None:
    kind = f'"apiVersion": "{crd.group}/v1", "kind": "Widget"'
    body = (
        f'{{{kind}, "u": 1, "metadata": {{"name": "a", "odd": 1}}, "spec": {{"size": 1, "size": 2, "big": 1}}, "u": 2}}'
    )
    strict = send(api, crd.path(ns), body, fieldValidation="Strict").fails(400, "BadRequest")
    problems = ['duplicate field "spec.size"', 'duplicate field "u"']
    problems += ['unknown field "metadata.odd"', 'unknown field "spec.big"', 'unknown field "u"']
    assert strict["message"].endswith(f"strict decoding error: {', '.join(problems)}")


def test_repeated_keys_of_yaml_have_their_lines(api: Api, ns: str) -> None:
    body = CONFIG_MAP + "odd: 1\ndata:\n  k: a\n  k: b\n  k: c\n"
    lines = [f'line {line}: key "k" already set in map' for line in (8, 9)]
    strict = send(api, core(ns, "configmaps"), body, "yaml", fieldValidation="Strict").fails(400, "BadRequest")
    text = "\n  ".join(("yaml: unmarshal errors:", *lines))
    assert strict["message"].endswith(f'strict decoding error: {text}, unknown field "odd"')
    answer = send(api, core(ns, "configmaps"), body, "yaml", fieldValidation="Warn")
    assert answer.expect(201)["data"] == {"k": "c"}
    assert [text.replace("\\", "") for text in answer.warnings] == [
        f'299 - "{text}"' for text in (*lines, 'unknown field "odd"')
    ]


@pytest.mark.parametrize(
    ("body", "undeclared"),
    [
        ("unknown: 1\n", [".unknown"]),
        ("metadata:\n  name: a\n  odd: 1\n", [".metadata.odd"]),
        (
            "spec:\n  template:\n    kind: S\n    metadata:\n      labels: {a: b}\n      odd: 1\n",
            [".spec.template.metadata.odd"],
        ),
        ("spec:\n  ports:\n  - name: p\n    odd: 1\n", ['.spec.ports[name="p"].odd']),
        ("spec:\n  big: 1\nfree:\n  any: {thing: 1}\nnames:\n  any: x\nodd: 1\n", [".odd", ".spec.big"]),
    ],
)
@pytest.mark.parametrize("mode", ["", "Strict", "Warn", "Ignore"])
def test_an_applied_field_must_be_declared(
    api: Api, ns: str, crd: Crd, body: str, undeclared: list[str], mode: str
) -> None:
    head = f"apiVersion: {crd.group}/v1\nkind: Widget\n" + (
        "" if "metadata:\n  name" in body else "metadata:\n  name: a\n"
    )
    query = {"fieldValidation": mode} if mode else {}
    refused = send(api, crd.path(ns), head + body, "apply", **query).fails(500)
    errors = [f"{path}: field not declared in schema" for path in undeclared]
    text = errors[0] if len(errors) == 1 else "\n  ".join(("errors:", *errors))
    assert refused["message"] == f"failed to create typed patch object (/a; {crd.group}/v1, Kind=Widget): {text}"
    assert "reason" not in refused


def test_an_applied_field_of_a_built_in_kind_must_be_declared(api: Api, ns: str) -> None:
    body = CONFIG_MAP + f"  namespace: {ns}\nodd: 1\n"
    refused = send(api, core(ns, "configmaps"), body, "apply").fails(500)
    where = f"({ns}/a; /v1, Kind=ConfigMap)"
    assert refused["message"] == f"failed to create typed patch object {where}: .odd: field not declared in schema"


def test_repeated_keys_of_an_applied_document_are_refused_or_reported(api: Api, ns: str, crd: Crd) -> None:
    # Line 1 is empty.
    body = f"\napiVersion: {crd.group}/v1\nkind: Widget\nmetadata:\n  name: a\nfree:\n  u: 1\n  foo: a\n  foo: b\n"
    line = 'line 9: key "foo" already set in map'
    strict = send(api, crd.path(ns), body, "apply", fieldValidation="Strict").fails(400, "BadRequest")
    text = f"error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {line}"
    assert strict["message"] == text
    for query, warnings in (({}, [line]), ({"fieldValidation": "Warn"}, [line]), ({"fieldValidation": "Ignore"}, [])):
        answer = send(api, crd.path(ns), body, "apply", dryRun="All", **query)
        assert answer.expect(201)["free"] == {"u": 1, "foo": "b"}
        assert [warning.replace("\\", "") for warning in answer.warnings] == [
            f'299 - "{warning}"' for warning in warnings
        ]


def test_repeated_keys_of_an_applied_document_in_json_have_a_line_too(api: Api, ns: str) -> None:
    body = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "a", "k": "b"}}'
    strict = send(api, core(ns, "configmaps"), body, "apply", fieldValidation="Strict").fails(400, "BadRequest")
    assert strict["message"].endswith('line 1: key "k" already set in map')
