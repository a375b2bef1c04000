"""MutatingAdmissionPolicies in force, on the sandbox and on a real kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.admission_rig import GROUP, Servers, config_map, rules
from tests.support.objects import deployment
from tests.support.waiting import eventually

ALWAYS = {"matchConstraints": {"resourceRules": [rules("configmaps", operations=("CREATE", "UPDATE"))]}}


def applies(*expressions: str, **more: Any) -> dict[str, Any]:
    """Return a policy that merges configurations."""
    mutations = [
        {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text}} for text in expressions
    ]
    return {**ALWAYS, "reinvocationPolicy": "Never", "mutations": mutations, **more}


def patches(*expressions: str, **more: Any) -> dict[str, Any]:
    """Return a policy of JSON patches."""
    mutations = [{"patchType": "JSONPatch", "jsonPatch": {"expression": text}} for text in expressions]
    return {**ALWAYS, "reinvocationPolicy": "Never", "mutations": mutations, **more}


def labels(text: str) -> str:
    return f"Object{{metadata: Object.metadata{{labels: {text}}}}}"


CHANGING: dict[str, dict[str, Any]] = {
    "labels": applies(labels("{'a': 'b'}")),
    "labels as messages": applies(labels("Object.metadata.labels{a: 'b', c: 'd'}")),
    "labels from the object": applies(labels("{'x': object.data.x + request.name}")),
    "several mutations": applies(labels("{'a': 'b'}"), labels("{'c': object.metadata.labels.a}")),
    "optional field": applies("Object{?metadata: optional.of(Object.metadata{annotations: {'a': 'b'}})}"),
    "data": applies("Object{data: Object.data{x: '8', y: string(size(object.data))}}"),
    "patch": patches(
        "[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('y.z'), value: object.data.x + 'z'},"
        " JSONPatch{op: 'replace', path: '/data/x', value: 'new'}]"
    ),
    "patch with a test that holds": patches(
        "[JSONPatch{op: 'test', path: '/data/x', value: '7'}, JSONPatch{op: 'add', path: '/data/y', value: 'z'}]"
    ),
    "patch with a map": patches("[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': 'b'}}]"),
    "patch with a message": patches(
        "[JSONPatch{op: 'add', path: '/metadata/labels', value: Object.metadata.labels{a: 'b'}}]"
    ),
    "copies": patches(
        "[JSONPatch{op: 'copy', from: '/data/x', path: '/data/y'},"
        " JSONPatch{op: 'move', from: '/data/x', path: '/data/z'}]"
    ),
    "patches from a list": patches("['p', 'q'].map(k, JSONPatch{op: 'add', path: '/data/' + k, value: k})"),
    "choice": patches(
        "object.data.x == '7' ? [JSONPatch{op: 'add', path: '/data/y', value: 'z'}] : []",
    ),
    "variables": applies(
        labels("{'a': variables.a}"), variables=[{"name": "a", "expression": "'v' + string(object.data.x)"}]
    ),
    "namespace": applies(labels("{'a': namespaceObject.metadata.labels.team}")),
}
FAILING: dict[str, tuple[dict[str, Any], int]] = {
    "error": (applies(labels("{'a': object.nothing}")), 403),
    "ignored error": (applies(labels("{'a': object.nothing}"), failurePolicy="Ignore"), 201),
    "wrong name": (applies("Object{metadata: Object.spec{}}"), 403),
    "unknown field": (applies("Object{metadata: Object.metadata{nothing: 'a'}}"), 403),
    "test that fails": (patches("[JSONPatch{op: 'test', path: '/data/x', value: '0'}]"), 201),
    "condition that fails": (
        applies(labels("{'a': 'b'}"), matchConditions=[{"name": "a", "expression": "object.nothing == 1"}]),
        403,
    ),
    "invalid result": (applies(labels("{'a b': 'c'}")), 422),
    "unknown parameters": (
        applies(labels("{'a': 'b'}"), paramKind={"apiVersion": "rules.example.com/v1", "kind": "Limit"}),
        403,
    ),
}


def remove(servers: Servers, name: str) -> None:
    servers.both("DELETE", f"{GROUP}/mutatingadmissionpolicies/{name}")
    servers.both("DELETE", f"{GROUP}/mutatingadmissionpolicybindings/{name}-binding")


@pytest.mark.behaviour("findings/FS30")
@pytest.mark.parametrize("case", CHANGING)
def test_a_policy_makes_the_same_object(servers: Servers, case: str) -> None:
    name = servers.policy(CHANGING[case], sort="mutating")
    try:
        obj = servers.compare_objects(servers.path("configmaps"), config_map(x="7"))
    finally:
        remove(servers, name)
    assert obj != {**config_map(x="7"), "metadata": {"name": "c", "namespace": servers.namespace}}


@pytest.mark.behaviour("findings/FS30")
@pytest.mark.parametrize("case", FAILING)
def test_a_mutation_that_fails_has_the_same_consequence(servers: Servers, case: str) -> None:
    spec, code = FAILING[case]
    name = servers.policy(spec, sort="mutating")
    try:
        verdict = servers.compare("POST", servers.path("configmaps"), config_map(x="7"))
    finally:
        remove(servers, name)
    assert verdict[0] == code


def test_a_patch_that_does_not_fit_is_refused(servers: Servers) -> None:
    name = servers.policy(patches("[JSONPatch{op: 'replace', path: '/nothing/x', value: 'a'}]"), sort="mutating")
    try:
        path = servers.path("configmaps")
        eventually(lambda: name in servers.theirs.post(path, config_map(), dryRun="All").json().get("message", ""))
        answers = [api.post(path, config_map(), dryRun="All").fails(403) for api in (servers.ours, servers.theirs)]
        said = [answer["message"].partition("JSON Patch: ") for answer in answers]
    finally:
        remove(servers, name)
    # The rest, from the library of patches, has other words.
    assert said[0][:2] == said[1][:2]
    assert said[0][2]


@pytest.mark.parametrize(("field", "value"), [("kind", "Secret"), ("kind", "Nothing"), ("apiVersion", "v2")])
def test_a_policy_cannot_make_another_kind(servers: Servers, field: str, value: str) -> None:
    patch = f"[JSONPatch{{op: 'replace', path: '/{field}', value: '{value}'}}]"
    name, path = servers.policy(patches(patch), sort="mutating"), servers.path("configmaps")
    try:
        eventually(lambda: servers.theirs.post(path, config_map(), dryRun="All").status == 500)
        for api in (servers.ours, servers.theirs):
            api.post(path, config_map()).fails(500)
    finally:
        remove(servers, name)
    assert all(
        config_map["metadata"]["name"] == "kube-root-ca.crt" for config_map in servers.ours.get(path).json()["items"]
    )


def test_a_policy_adds_a_container_by_its_name(servers: Servers) -> None:
    spec = applies(
        "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: "
        "[Object.spec.template.spec.containers{name: 'sidecar', image: 'proxy:1'}]}}}}"
    )
    constraints = {"resourceRules": [rules("deployments", group="apps", operations=("CREATE",))]}
    name = servers.policy({**spec, "matchConstraints": constraints}, sort="mutating")
    try:
        obj = servers.compare_objects(servers.path("deployments", group="/apis/apps/v1"), deployment())
    finally:
        remove(servers, name)
    assert [container["name"] for container in obj["spec"]["template"]["spec"]["containers"]] == ["a", "sidecar"]


def test_a_policy_must_not_replace_an_atomic_list(servers: Servers) -> None:
    spec = applies(
        "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: "
        "[Object.spec.template.spec.containers{name: 'a', args: ['x']}]}}}}"
    )
    constraints = {"resourceRules": [rules("deployments", group="apps", operations=("CREATE",))]}
    name = servers.policy({**spec, "matchConstraints": constraints}, sort="mutating")
    try:
        verdict = servers.compare("POST", servers.path("deployments", group="/apis/apps/v1"), deployment())
    finally:
        remove(servers, name)
    assert verdict[0] == 403
    assert "may not mutate atomic arrays" in verdict[1]


@pytest.mark.parametrize("again", ["IfNeeded", "Never"])
def test_a_policy_that_asks_for_it_sees_the_changes_of_later_ones(servers: Servers, again: str) -> None:
    first = servers.policy(
        {**applies(labels("{'count': string(size(object.data))}")), "reinvocationPolicy": again},
        sort="mutating",
        name="a-first",
    )
    second = servers.policy(applies("Object{data: Object.data{more: 'y'}}"), sort="mutating", name="b-second")
    try:
        obj = servers.ours.post(servers.path("configmaps"), config_map(x="7"), dryRun="All").expect(201)
        if again == "IfNeeded":
            # With the other order, which the real server may choose, it is the same.
            servers.compare_objects(servers.path("configmaps"), config_map(x="7"))
    finally:
        remove(servers, first)
        remove(servers, second)
    assert obj["metadata"]["labels"]["count"] == ("2" if again == "IfNeeded" else "1")
    assert obj["data"] == {"x": "7", "more": "y"}


def test_an_update_is_mutated_too(servers: Servers) -> None:
    servers.both("POST", servers.path("configmaps"), config_map("kept", x="1"))
    name = servers.policy(applies(labels("{'was': oldObject == null ? 'nothing' : oldObject.data.x}")), sort="mutating")
    path = servers.path("configmaps", "kept")
    try:
        sent = config_map("kept", x="2")
        obj = servers.ours.put(path, sent, dryRun="All").expect(200)
        assert obj["metadata"]["labels"] == {"was": "1"}
        managers = obj["metadata"]["managedFields"]
        assert all("f:labels" not in str(entry["fieldsV1"]) for entry in managers)
    finally:
        remove(servers, name)
        servers.both("DELETE", path)
