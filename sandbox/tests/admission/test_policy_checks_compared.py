"""Policies and bindings that are invalid, to the sandbox and to a real kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.admission_rig import GROUP, Servers, rules, verdict_of

MATCH = {"resourceRules": [rules("configmaps")]}
GOOD = {"matchConstraints": MATCH, "validations": [{"expression": "true"}]}
MUTATION = {"matchConstraints": {"resourceRules": [rules("configmaps", operations=("CREATE",))]}}
REFERENCE = {"policyName": "p", "validationActions": ["Deny"]}


def validations(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**GOOD, "validations": list(entries), **more}


def expression(text: str, **more: Any) -> dict[str, Any]:
    return validations({"expression": text}, **more)


def configuration(text: str) -> dict[str, Any]:
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text}}
    return {**MUTATION, "reinvocationPolicy": "Never", "mutations": [mutation]}


def patch(text: str) -> dict[str, Any]:
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": text}}
    return {**MUTATION, "reinvocationPolicy": "Never", "mutations": [mutation]}


VALIDATING: dict[str, dict[str, Any]] = {
    "good": GOOD,
    "nothing": {},
    "no rules": {**GOOD, "matchConstraints": {}},
    "bad rule": {**GOOD, "matchConstraints": {"resourceRules": [{"operations": ["PATCH"], "scope": "x"}]}},
    "wildcards": {
        **GOOD,
        "matchConstraints": {
            "resourceRules": [
                rules("*", "pods", operations=("*", "CREATE")),
                rules("*/*", "pods/*", "pods/status"),
                rules("pods", resourceNames=["a/b", "c", "c"]),
            ]
        },
    },
    "bad policies": {**GOOD, "failurePolicy": "Perhaps", "matchConstraints": {**MATCH, "matchPolicy": "Fuzzy"}},
    "bad selector": {
        **GOOD,
        "matchConstraints": {**MATCH, "objectSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
    },
    "not a boolean": expression("1"),
    "unknown type": expression("object.data"),
    "unknown name": expression("nothing == 1"),
    "unknown field of the request": expression("request.nothing == 1"),
    "unknown field of the namespace": expression("namespaceObject.spec.nothing == 1"),
    "fields of the request": expression(
        "request.userInfo.groups.exists(g, g == 'x') || request.options.dryRun == ['All'] || request.dryRun"
    ),
    "fields of the namespace": expression(
        "namespaceObject.metadata.labels['a'] == 'b' && namespaceObject.metadata.creationTimestamp < timestamp(1)"
    ),
    "params without a kind": expression("params.x == 1"),
    "params": expression("params.x == 1", paramKind={"apiVersion": "v1", "kind": "ConfigMap"}),
    "bad kind of params": {**GOOD, "paramKind": {"apiVersion": "a/b/c", "kind": "x_y"}},
    "empty kind of params": {**GOOD, "paramKind": {}},
    "empty expression": expression("  "),
    "syntax": expression("object.spec &&"),
    "reserved name": expression("object.metadata.namespace == 'x' && request.namespace == 'x'"),
    "authorizer": expression("authorizer.group('').resource('pods').namespace('a').name('b').check('get').allowed()"),
    "authorizer with selectors": expression(
        "authorizer.serviceAccount('a', 'b').group('').resource('pods').fieldSelector('a=b').labelSelector('c')"
        ".subresource('status').check('list').reason() == ''"
    ),
    "authorizer's path": expression("!authorizer.path('/healthz').check('get').errored()"),
    "authorizer's resource": expression("authorizer.requestResource.check('get').error() == ''"),
    "authorizer misused": expression("authorizer.check('get').allowed()"),
    "messages unknown": expression("Object{} == object"),
    "message": validations({"expression": "true", "messageExpression": "1", "message": "a\nb", "reason": "Gone"}),
    "blank message": validations({"expression": "true", "messageExpression": " ", "message": " "}),
    "message with the authorizer": validations({"expression": "true", "messageExpression": "authorizer.x"}),
    "good message": validations(
        {"expression": "true", "messageExpression": "'a' + request.name", "reason": "Forbidden"}
    ),
    "variables": expression("variables.a == variables.b", variables=[{"name": "a", "expression": "1"}]),
    "typed variables": expression(
        "variables.a == 'x'",
        variables=[{"name": "a", "expression": "1"}, {"name": "b", "expression": "variables.a + 1"}],
    ),
    "later variables": expression(
        "true", variables=[{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}]
    ),
    "bad variables": expression(
        "true", variables=[{"name": "1a", "expression": "x"}, {"name": "in", "expression": ""}]
    ),
    "conditions": {**GOOD, "matchConditions": [{"name": "a b", "expression": "1"}, {"name": "a", "expression": ""}]},
    "same conditions": {**GOOD, "matchConditions": [{"name": "a", "expression": "true"}] * 2},
    "annotations": {**GOOD, "auditAnnotations": [{"key": "a", "valueExpression": "1"}, {"key": "a/b"}]},
    "same annotations": {**GOOD, "auditAnnotations": [{"key": "a", "valueExpression": "'x'"}] * 2},
    "null annotation": {**GOOD, "auditAnnotations": [{"key": "a", "valueExpression": "null"}]},
}
MUTATING: dict[str, dict[str, Any]] = {
    "good": configuration("Object{metadata: Object.metadata{labels: {'a': 'b'}}}"),
    "nothing": {},
    "deletions": {
        **configuration("Object{}"),
        "matchConstraints": MATCH | {"resourceRules": [rules("pods", operations=("DELETE",))]},
    },
    "no configuration": configuration("{'a': 'b'}"),
    "unknown message": configuration("Thing{}"),
    "part of an object": configuration("Object.spec{}"),
    "quoted field": configuration("Object{`a-b`: 1}"),
    "optional field": configuration("Object{?metadata: optional.none()}"),
    "good patch": patch("[JSONPatch{op: 'add', path: '/a', value: 1}, JSONPatch{op: 'remove', path: '/a'}]"),
    "good escape": patch("[JSONPatch{op: 'add', path: '/' + jsonpatch.escapeKey('a/b'), value: Object.metadata{}}]"),
    "no list": patch("JSONPatch{op: 'add'}"),
    "wrong type of a field": patch("[JSONPatch{op: 1}]"),
    "blank": configuration(" "),
    "wrong part": {**MUTATION, "mutations": [{"patchType": "JSONPatch", "applyConfiguration": {"expression": "x"}}]},
    "wrong type": {**MUTATION, "mutations": [{"patchType": "Merge"}], "reinvocationPolicy": "Perhaps"},
    "no type": {**MUTATION, "mutations": [{}]},
}
BINDINGS: dict[str, dict[str, Any]] = {
    "good": REFERENCE,
    "nothing": {},
    "bad name": {**REFERENCE, "policyName": "a b"},
    "both actions": {**REFERENCE, "validationActions": ["Deny", "Warn"]},
    "bad actions": {**REFERENCE, "validationActions": ["Deny", "Deny", "Ignore"]},
    "no parameter": {**REFERENCE, "paramRef": {}},
    "two sorts of parameters": {
        **REFERENCE,
        "paramRef": {"name": "a/b", "selector": {}, "parameterNotFoundAction": "Perhaps"},
    },
    "constraints": {**REFERENCE, "matchResources": {"resourceRules": [rules()]}},
}


def compare(servers: Servers, kind: str, spec: dict[str, Any]) -> None:
    body = {"metadata": {"name": "p"}, "spec": spec}
    ours, theirs = (api.post(f"{GROUP}/{kind}", body, dryRun="All") for api in (servers.ours, servers.theirs))
    assert verdict_of(ours)[:1] + tuple(verdict_of(ours)[3:]) == verdict_of(theirs)[:1] + tuple(verdict_of(theirs)[3:])
    if ours.status < 300:
        assert ours.json()["spec"] == theirs.json()["spec"]


@pytest.mark.parametrize("case", VALIDATING)
def test_validating_policies_get_the_same_verdict(servers: Servers, case: str) -> None:
    compare(servers, "validatingadmissionpolicies", VALIDATING[case])


@pytest.mark.parametrize("case", MUTATING)
def test_mutating_policies_get_the_same_verdict(servers: Servers, case: str) -> None:
    compare(servers, "mutatingadmissionpolicies", MUTATING[case])


@pytest.mark.parametrize("case", BINDINGS)
@pytest.mark.parametrize("sort", ["validating", "mutating"])
def test_bindings_get_the_same_verdict(servers: Servers, sort: str, case: str) -> None:
    spec = BINDINGS[case]
    if sort == "mutating":
        spec = {key: value for key, value in spec.items() if key != "validationActions"}
    compare(servers, f"{sort}admissionpolicybindings", spec)
