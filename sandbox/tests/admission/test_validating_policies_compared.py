"""ValidatingAdmissionPolicies in force, on the sandbox and on a real kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.admission_rig import GROUP, Servers, config_map, rules, says
from tests.support.objects import container

PARAMS = {"apiVersion": "v1", "kind": "ConfigMap"}
NO = {"expression": "false", "message": "no"}


def refuses(text: str, **more: Any) -> dict[str, Any]:
    """Return a policy whose message is an expression."""
    return {"validations": [{"expression": "false", "messageExpression": text}], **more}


#: The policy, the binding, and the code for a ConfigMap with `x: "7"`.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "allowed": (says("object.data.x == '7'"), {}, 201),
    "refused": (says("object.data.x == '8'"), {}, 422),
    "second": (says("true", "object.data.x == '8'"), {}, 422),
    "message": ({"validations": [NO]}, {}, 422),
    "reason": ({"validations": [{**NO, "reason": "Forbidden"}]}, {}, 403),
    "large": ({"validations": [{**NO, "reason": "RequestEntityTooLarge"}]}, {}, 413),
    "message by an expression": (refuses("'x is ' + object.data.x"), {}, 422),
    "message that fails": (
        {"validations": [{**NO, "messageExpression": "string(object.data.nothing)"}]},
        {},
        422,
    ),
    "message of several lines": ({"validations": [{**NO, "messageExpression": "'a\\nb'"}]}, {}, 422),
    "request": (
        refuses(
            "[request.operation, request.name, request.namespace, request.kind.kind, request.resource.resource, "
            "request.requestResource.version, request.userInfo.groups[0], string(request.dryRun)].join(' ')"
        ),
        {},
        422,
    ),
    "options": (
        refuses("string(request.options.kind + request.options.apiVersion + request.options.dryRun[0])"),
        {},
        422,
    ),
    "fields of the request": (
        refuses(
            "string(has(request.subResource)) + string(has(request.userInfo.extra)) + string(has(request.options))"
        ),
        {},
        422,
    ),
    "nulls": (refuses("string(oldObject == null) + string(namespaceObject == null)"), {}, 422),
    "namespace": (
        refuses("namespaceObject.metadata.name + namespaceObject.metadata.labels.team + namespaceObject.status.phase"),
        {},
        422,
    ),
    "error": (says("object.nothing.x == 1"), {}, 422),
    "ignored error": (says("object.nothing.x == 1", failurePolicy="Ignore"), {}, 201),
    "error that a part decides": (says("object.nothing.x == 1 || true"), {}, 201),
    "division": (says("1 / 0 == 1"), {}, 422),
    "variables": (
        refuses(
            "string(variables.b) + variables.list[1]",
            variables=[
                {"name": "a", "expression": "int(object.data.x)"},
                {"name": "b", "expression": "variables.a * 2"},
                {"name": "list", "expression": "['u', 'v']"},
                {"name": "unused", "expression": "object.nothing"},
            ],
        ),
        {},
        422,
    ),
    "variable that fails": (
        says(
            "variables.b == 1",
            variables=[{"name": "a", "expression": "object.nothing"}, {"name": "b", "expression": "variables.a"}],
        ),
        {},
        422,
    ),
    "condition that holds": (
        {"validations": [NO], "matchConditions": [{"name": "a", "expression": "object.data.x == '7'"}]},
        {},
        422,
    ),
    "condition that does not": (
        {"validations": [NO], "matchConditions": [{"name": "a", "expression": "object.data.x == '8'"}]},
        {},
        201,
    ),
    "condition that fails": (
        {"validations": [NO], "matchConditions": [{"name": "a", "expression": "object.nothing == 1"}]},
        {},
        422,
    ),
    "condition that fails beside a false one": (
        {
            "validations": [NO],
            "matchConditions": [
                {"name": "a", "expression": "object.nothing == 1"},
                {"name": "b", "expression": "false"},
            ],
        },
        {},
        201,
    ),
    "condition without a namespace": (
        {"validations": [NO], "matchConditions": [{"name": "a", "expression": "namespaceObject == null"}]},
        {},
        422,
    ),
    "authorizer": (
        refuses(
            "'a'",
            variables=[],
            matchConditions=[
                {
                    "name": "a",
                    "expression": "authorizer.group('').resource('pods').check('create').allowed() && "
                    "authorizer.requestResource.check('create').allowed()",
                }
            ],
        ),
        {},
        422,
    ),
    "authorizer asked too often": (
        says(" && ".join(["authorizer.path('/healthz').check('get').allowed()"] * 3)),
        {},
        422,
    ),
    "warning": (says("object.data.x == '8'"), {"validationActions": ["Warn"]}, 201),
    "warnings": (
        {"validations": [NO, {"expression": "object.data.x == '8'", "message": 'a "b"'}]},
        {"validationActions": ["Warn", "Audit"]},
        201,
    ),
    "audit": ({"validations": [NO]}, {"validationActions": ["Audit"]}, 201),
    "annotation that fails": (
        {"auditAnnotations": [{"key": "a", "valueExpression": "string(object.data.nothing)"}]},
        {},
        422,
    ),
    "annotation": ({"auditAnnotations": [{"key": "a", "valueExpression": "string(object.data.x)"}]}, {}, 201),
    "operation": (
        {"validations": [NO], "matchConstraints": {"resourceRules": [rules("configmaps", operations=("DELETE",))]}},
        {},
        201,
    ),
    "other resource": ({"validations": [NO], "matchConstraints": {"resourceRules": [rules("secrets")]}}, {}, 201),
    "every resource": ({"validations": [NO], "matchConstraints": {"resourceRules": [rules("*")]}}, {}, 422),
    "name": (
        {"validations": [NO], "matchConstraints": {"resourceRules": [rules("configmaps", resourceNames=["c"])]}},
        {},
        422,
    ),
    "other name": (
        {"validations": [NO], "matchConstraints": {"resourceRules": [rules("configmaps", resourceNames=["d"])]}},
        {},
        201,
    ),
    "cluster scope": (
        {"validations": [NO], "matchConstraints": {"resourceRules": [rules("configmaps", scope="Cluster")]}},
        {},
        201,
    ),
    "excluded": (
        {
            "validations": [NO],
            "matchConstraints": {"resourceRules": [rules("*")], "excludeResourceRules": [rules("configmaps")]},
        },
        {},
        201,
    ),
    "labels": (
        {"validations": [NO], "matchConstraints": {"objectSelector": {"matchLabels": {"a": "b"}}}},
        {},
        201,
    ),
    "binding for another namespace": (
        {"validations": [NO]},
        {"matchResources": {"namespaceSelector": {"matchLabels": {"team": "b"}}}},
        201,
    ),
    "binding for the namespace": (
        {"validations": [NO]},
        {"matchResources": {"namespaceSelector": {"matchLabels": {"team": "a"}}}},
        422,
    ),
    "parameters of an unknown kind": (
        {"validations": [NO], "paramKind": {"apiVersion": "rules.example.com/v1", "kind": "Limit"}},
        {"paramRef": {"name": "p", "parameterNotFoundAction": "Deny"}},
        422,
    ),
    "missing parameters": (
        {"validations": [NO], "paramKind": PARAMS},
        {"paramRef": {"name": "nothing", "parameterNotFoundAction": "Deny"}},
        422,
    ),
    "missing parameters allowed": (
        {"validations": [NO], "paramKind": PARAMS},
        {"paramRef": {"name": "nothing", "parameterNotFoundAction": "Allow"}},
        201,
    ),
    "missing parameters ignored": (
        {"validations": [NO], "paramKind": PARAMS, "failurePolicy": "Ignore"},
        {"paramRef": {"name": "nothing", "parameterNotFoundAction": "Deny"}},
        201,
    ),
    "parameters": (
        says("int(object.data.x) < int(params.data.limit)", paramKind=PARAMS),
        {"paramRef": {"name": "five", "parameterNotFoundAction": "Deny"}},
        422,
    ),
    "several parameters": (
        {
            "paramKind": PARAMS,
            "validations": [
                {
                    "expression": "int(object.data.x) < int(params.data.limit)",
                    "messageExpression": "string(params.metadata.name)",
                }
            ],
        },
        {"paramRef": {"selector": {"matchLabels": {"limits": "yes"}}, "parameterNotFoundAction": "Deny"}},
        422,
    ),
    "no reference to parameters": (refuses("string(params == null)", paramKind=PARAMS), {}, 422),
    "too costly": (
        says("[1,2,3,4,5,6,7,8,9,10].all(a, " * 7 + "true" + ")" * 7),
        {},
        422,
    ),
}


@pytest.fixture(scope="module")
def limits(servers: Servers) -> None:
    for name, limit in (("five", "5"), ("nine", "9")):
        body = config_map(name, limit=limit)
        body["metadata"]["labels"] = {"limits": "yes"}
        servers.both("POST", servers.path("configmaps"), body)


@pytest.mark.usefixtures("limits")
@pytest.mark.behaviour("findings/FS30")
@pytest.mark.parametrize("case", CASES)
def test_a_policy_refuses_the_same_requests_in_the_same_words(servers: Servers, case: str) -> None:
    spec, binding, code = CASES[case]
    name = servers.policy(spec, binding)
    try:
        verdict = servers.compare("POST", servers.path("configmaps"), config_map(x="7"))
    finally:
        servers.both("DELETE", f"{GROUP}/validatingadmissionpolicies/{name}")
        servers.both("DELETE", f"{GROUP}/validatingadmissionpolicybindings/{name}-binding")
    assert verdict[0] == code


def test_updates_and_deletions_see_the_object_before(servers: Servers) -> None:
    servers.both("POST", servers.path("configmaps"), config_map("kept", x="1"))
    spec = {
        "matchConstraints": {"resourceRules": [rules("configmaps", operations=("UPDATE", "DELETE"))]},
        "validations": [
            {
                "expression": "oldObject.data.x != '1' || (object != null && object.data.x == '1')",
                "messageExpression": "request.operation + string(object == null) + string(request.options.kind)",
            }
        ],
    }
    name = servers.policy(spec)
    path = servers.path("configmaps", "kept")
    assert servers.compare("PUT", path, config_map("kept", x="2"))[0] == 422
    assert servers.compare("DELETE", path)[0] == 422
    assert servers.compare("PUT", path, {**config_map("kept", x="1"), "immutable": True})[0] == 200
    servers.both("DELETE", f"{GROUP}/validatingadmissionpolicies/{name}")
    servers.both("DELETE", path)


def test_subresources_are_resources_of_their_own(servers: Servers) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container()], "serviceAccountName": "default"}}
    servers.both("POST", servers.path("pods"), pod)
    spec = refuses("request.subResource + request.kind.kind + request.operation + object.kind")
    name = servers.policy({**spec, "matchConstraints": {"resourceRules": [rules("pods/*")]}})
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    body = servers.ours.get(servers.path("pods", "p")).json()
    path = servers.path("pods", "p")
    for server in (servers.ours, servers.theirs):
        body = server.get(path).json()
    assert servers.compare("POST", f"{path}/binding", {"apiVersion": "v1", "kind": "Binding", **binding})[0] == 422
    assert servers.compare("POST", f"{path}/eviction", eviction)[0] == 422
    del body["metadata"]["resourceVersion"], body["metadata"]["uid"]
    assert servers.compare("PUT", f"{path}/status", body)[0] == 422
    servers.both("DELETE", f"{GROUP}/validatingadmissionpolicies/{name}")


def test_policies_do_not_concern_policies(servers: Servers) -> None:
    everything = {"resourceRules": [rules("*", group="*")], "namespaceSelector": {}}
    labels = {"matchLabels": {"guarded": "yes"}}
    spec = {"validations": [NO], "matchConstraints": {**everything, "objectSelector": labels}}
    name = servers.policy(spec)
    metadata = {"name": "other", "labels": {"guarded": "yes"}}
    guarded = {"metadata": metadata}
    assert servers.compare("POST", "/api/v1/namespaces", guarded)[0] == 422
    policy = {**guarded, "spec": {"matchConstraints": {"resourceRules": [rules("pods")]}, **says("true")}}
    assert servers.compare("POST", f"{GROUP}/validatingadmissionpolicies", policy)[0] == 201
    servers.both("DELETE", f"{GROUP}/validatingadmissionpolicies/{name}")
