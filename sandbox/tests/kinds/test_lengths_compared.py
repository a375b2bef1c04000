"""Names, labels and keys that are too long: the sandbox and a real kube-apiserver answer with the same causes."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.compared import Compare
from tests.support.control_plane import ControlPlane
from tests.support.http_client import Api
from tests.support.objects import apps, core, deployment

VALUE, PREFIX, KEY = "a" * 64, f"{'a' * 254}/k", "a" * 254
MAPS = core("default", "configmaps")

METADATA: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a value": ({"labels": {"k": VALUE}}, ["must be no more than 63 bytes"]),
    "a value of bytes": ({"labels": {"k": "ä" * 32}}, ["must be no more than 63 bytes", "a valid label must"]),
    "an invalid value": ({"labels": {"k": f"_{VALUE}"}}, ["must be no more than 63 bytes", "a valid label must"]),
    "a prefix": ({"labels": {PREFIX: "v"}}, ["prefix part must be no more than 253 bytes"]),
    "an invalid prefix": (
        {"labels": {f"_{PREFIX}": "v"}},
        ["prefix part must be no more than 253 bytes", "prefix part a lowercase RFC 1123 subdomain"],
    ),
    "a name": ({"labels": {f"p/{VALUE}": "v"}}, ["name part must be no more than 63 bytes"]),
    "an annotation": ({"annotations": {PREFIX: "v"}}, ["prefix part must be no more than 253 bytes"]),
    "a finalizer": ({"finalizers": [PREFIX]}, ["prefix part must be no more than 253 bytes"]),
    "an object's name": ({"name": KEY}, ["must be no more than 253 characters"]),
    "an invalid name": ({"name": "A" * 254}, ["must be no more than 253 characters", "a lowercase RFC 1123 subdomain"]),
}


@pytest.mark.behaviour("findings3/NB11")
@pytest.mark.parametrize("case", METADATA)
def test_metadata_that_are_too_long(each_api: Api, case: str) -> None:
    metadata, texts = METADATA[case]
    refused = each_api.post(MAPS, {"metadata": {"name": "x", **metadata}}, dryRun="All").fails(422, "Invalid")
    messages = [re.sub(r"^Invalid value: \".*?\": ", "", cause["message"]) for cause in refused["details"]["causes"]]
    assert len(messages) == len(texts)
    assert all(message.startswith(text) for message, text in zip(messages, texts, strict=True)), messages


KEYS: dict[str, tuple[str, list[str]]] = {
    "long": (KEY, ["must be no more than 253 characters"]),
    "long and invalid": (f"!{KEY}", ["must be no more than 253 characters", "a valid config key must"]),
    "dot": (".", ["must not be '.'"]),
    "dots": ("..", ["must not be '..'"]),
    "leading dots": ("..a", ["must not start with '..'"]),
    "other letters": ("ä", ["a valid config key must"]),
    "valid": ("a..b", []),
    "just short enough": (KEY[1:], []),
}


@pytest.mark.behaviour("findings3/NB11")
@pytest.mark.parametrize("case", KEYS)
@pytest.mark.parametrize("field", ["data", "binaryData", "secret"])
def test_keys_of_data(each_api: Api, control_plane: ControlPlane, field: str, case: str) -> None:
    key, texts = KEYS[case]
    path = core("default", "secrets") if field == "secret" else MAPS
    body = {"metadata": {"name": "x"}, "data" if field == "secret" else field: {key: "eA=="}}
    answer = each_api.post(path, body, dryRun="All")
    causes = answer.json()["details"]["causes"] if texts else answer.expect(201) and []
    assert len(causes) == len(texts), (control_plane.kind, causes)
    for cause, text in zip(causes, texts, strict=True):
        assert cause["message"].startswith(f'Invalid value: "{key}": {text}')


LABELS = {"value": {"k": VALUE}, "prefix": {PREFIX: "v"}, "name": {VALUE: "v"}}
RESOURCES = [PREFIX, f"a.b/{VALUE}", f"{'a' * 250}/k", "foo", "requests.x/y", "pods", "A.b/c", ""]


def pods(**spec: Any) -> tuple[str, Any]:
    container = {"name": "a", "image": "b", **spec.pop("container", {})}
    return core("default", "pods"), {"metadata": {"name": "x"}, "spec": {"containers": [container], **spec}}


def requirement(labels: dict[str, str]) -> dict[str, Any]:
    (key, value), *_ = labels.items()
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}


def affinity(labels: dict[str, str]) -> dict[str, Any]:
    terms = "requiredDuringSchedulingIgnoredDuringExecution"
    (key, _), *_ = labels.items()
    return {
        "nodeAffinity": {terms: {"nodeSelectorTerms": [requirement(labels)]}},
        "podAffinity": {terms: [{"topologyKey": key, "labelSelector": {"matchLabels": labels}}]},
    }


def selecting(selector: dict[str, Any]) -> tuple[str, Any]:
    body = deployment("x")
    body["spec"]["selector"] = selector
    return apps("default", "deployments"), body


OBJECTS: dict[str, tuple[str, Any]] = {
    **{f"node selector, {name}": pods(nodeSelector=labels) for name, labels in LABELS.items()},
    **{f"affinity, {name}": pods(affinity=affinity(labels)) for name, labels in LABELS.items()},
    **{f"selector, {name}": selecting({"matchLabels": labels}) for name, labels in LABELS.items()},
    **{f"expression, {name}": selecting(requirement(labels)) for name, labels in LABELS.items()},
    "toleration, key": pods(tolerations=[{"key": PREFIX, "operator": "Exists"}]),
    "toleration, value": pods(tolerations=[{"key": "k", "operator": "Equal", "value": VALUE}]),
    "readiness gate": pods(readinessGates=[{"conditionType": PREFIX}]),
    "key of a variable": pods(
        container={"env": [{"name": "a", "valueFrom": {"configMapKeyRef": {"name": "x", "key": KEY}}}]}
    ),
    **{f"limit of {name[-12:]!r}": pods(container={"resources": {"limits": {name: "1"}}}) for name in RESOURCES},
    **{f"request of {name[-12:]!r}": pods(container={"resources": {"requests": {name: "1"}}}) for name in RESOURCES},
    "namespace": ("/api/v1/namespaces", {"metadata": {"name": f"A{VALUE}"}}),
    "job": (
        "/apis/batch/v1/namespaces/default/jobs",
        {"metadata": {"name": VALUE}, "spec": {"template": {"spec": {**pods()[1]["spec"], "restartPolicy": "Never"}}}},
    ),
}


@pytest.mark.behaviour("findings3/NB11")
@pytest.mark.parametrize("case", OBJECTS)
def test_both_servers_refuse_other_fields_alike(compare_answers: Compare, case: str) -> None:
    code, causes, _ = compare_answers(*OBJECTS[case])
    assert code == 422
    assert causes


SELECTORS = {
    f"k={VALUE}": f'values[0][k]: Invalid value: "{VALUE}": must be no more than 63 bytes',
    f"{PREFIX}=v": f'<nil>: Invalid value: "{PREFIX}": prefix part must be no more than 253 bytes',
    f"k in (a,b,{VALUE})": f'values[1][k]: Invalid value: "{VALUE}": must be no more than 63 bytes',
}


@pytest.mark.behaviour("findings3/NB11")
@pytest.mark.parametrize("selector", SELECTORS, ids=["value", "key", "values"])
def test_a_selector_that_is_too_long(each_api: Api, selector: str) -> None:
    refused = each_api.get(MAPS, labelSelector=selector).fails(400, "BadRequest")
    assert refused["message"] == f"unable to parse requirement: {SELECTORS[selector]}"
