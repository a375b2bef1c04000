"""Invalid selectable fields of a CRD: the sandbox and a real kube-apiserver name the same faults."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from sandbox.tests.conftest import crd_body
from tests.support.compared import Pair

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TEXT = {"type": "string"}
SCHEMA = {
    "type": "object",
    "properties": {
        "metadata": {"type": "object", "properties": {"name": TEXT}},
        "spec": {
            "type": "object",
            "properties": {
                **{f"f{n}": TEXT for n in range(9)},
                "flag": {"type": "boolean"},
                "size": {"type": "integer"},
                "ratio": {"type": "number"},
                "list": {"type": "array", "items": TEXT},
                "port": {"x-kubernetes-int-or-string": True},
                "map": {"type": "object", "additionalProperties": TEXT},
            },
        },
    },
}
OTHER = {**SCHEMA, "description": "another one"}


def posted(pair: Pair, *versions: tuple[dict[str, Any], list[str | None]]) -> tuple[int, dict[str, Any]]:
    """Post a CRD with these schemas and selectable fields to both, without storing it."""
    body = crd_body("s.t.example.org")
    (first,) = body["spec"]["versions"]
    body["spec"]["versions"] = []
    for number, (schema, paths) in enumerate(versions, 1):
        version = {**copy.deepcopy(first), "name": f"v{number}", "storage": number == 1}
        version["schema"] = {"openAPIV3Schema": schema}
        version["selectableFields"] = [{} if path is None else {"jsonPath": path} for path in paths]
        body["spec"]["versions"].append(version)
    return pair.ask("POST", CRDS, body, dryRun="All")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (".spec.f0", ""),
        (".spec.flag", ""),
        (".spec.size", ""),
        (".spec.map.key", ""),
        (None, "FieldValueRequired"),
        ("", "FieldValueRequired"),
        *[
            (path, "FieldValueInvalid")
            for path in (
                "spec.f0",
                ".",
                ".spec.",
                "..f0",
                ".spec.nope",
                ".spec.f0.x",
                ".spec['f0']",
                ".spec.list[0]",
                ".spec.ratio",
                ".spec.list",
                ".spec.port",
                ".spec.map",
                ".spec",
                ".metadata.name",
                ".metadata.labels",
                ".status",
            )
        ],
    ],
)
def test_a_path(pair: Pair, path: str | None, reason: str) -> None:
    code, details = posted(pair, (SCHEMA, [path]))
    assert (code, {cause["reason"] for cause in details.get("causes", ())}) == (422 if reason else 201, {reason} - {""})


def test_a_path_may_occur_once_and_there_are_at_most_eight(pair: Pair) -> None:
    paths = [f".spec.f{n}" for n in range(9)]
    assert posted(pair, (SCHEMA, [*paths[:8]]))[0] == 201
    ((cause,), (again,)) = (posted(pair, (SCHEMA, many))[1]["causes"] for many in (paths, [paths[0], paths[0]]))
    assert (cause["field"], cause["reason"]) == ("spec.selectableFields", "FieldValueTooMany")
    assert (again["field"], again["reason"]) == ("spec.selectableFields[1].jsonPath", "FieldValueDuplicate")


@pytest.mark.parametrize(
    ("second", "paths", "code"),
    [
        (SCHEMA, [".spec.f0"], 201),
        (OTHER, [".spec.f1"], 201),
        (OTHER, [".spec.nope"], 422),
        # A real server moves what the versions share to another place, schemas and fields apart.
        (SCHEMA, [".spec.f1"], 422),
        (SCHEMA, [], 422),
        (OTHER, [".spec.f0"], 422),
    ],
)
def test_versions_differ_in_both_schema_and_fields_or_in_neither(
    pair: Pair, second: dict[str, Any], paths: list[str | None], code: int
) -> None:
    assert posted(pair, (SCHEMA, [".spec.f0"]), (second, paths))[0] == code
