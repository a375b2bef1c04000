"""Admission policies in the sandbox: what a comparison with a real server does not show."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

from sandbox.tests.conftest import Crd
from tests.support.admission_rig import GROUP, rules, says
from tests.support.http_client import Api
from tests.support.objects import config_map, deployment
from tests.support.rbac_rig import add_role, api_of, bind, rule, user
from tests.support.waiting import eventually, eventually_equal

pytestmark = pytest.mark.behaviour("findings/FS30")
_serial = itertools.count(1)
Bound = Callable[..., str]


@pytest.fixture
def bound(api: Api, ns: str) -> Iterator[Bound]:
    """Create policies with a binding, for the test's namespace only."""
    paths: list[str] = []

    def make(spec: dict[str, Any], sort: str = "validating", client: Api = api, home: str = ns, **binding: Any) -> str:
        name = f"own-{next(_serial)}"
        selector = {"matchLabels": {"kubernetes.io/metadata.name": home}}
        constraints = {"namespaceSelector": selector, "resourceRules": [rules("configmaps")]}
        spec = {**spec, "matchConstraints": {**constraints, **spec.get("matchConstraints", {})}}
        if sort == "mutating":
            spec.setdefault("reinvocationPolicy", "Never")
        else:
            binding.setdefault("validationActions", ["Deny"])
        path = f"{GROUP}/{sort}admissionpolicies"
        client.post(path, {"metadata": {"name": name}, "spec": spec}).expect(201)
        body = {"metadata": {"name": name}, "spec": {"policyName": name, **binding}}
        client.post(f"{GROUP}/{sort}admissionpolicybindings", body).expect(201)
        if client is api:
            paths.append(f"{path}/{name}")
        return name

    yield make
    for path in paths:
        api.delete(path).expect(200, 404)


def applies(text: str, **more: Any) -> dict[str, Any]:
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text}}
    created = {"resourceRules": [rules("configmaps", operations=("CREATE", "UPDATE"))]}
    return {"mutations": [mutation], "matchConstraints": created, **more}


def test_a_policy_holds_from_the_next_request_until_it_is_deleted(api: Api, ns: str, bound: Bound) -> None:
    path = f"/api/v1/namespaces/{ns}/configmaps"
    name = bound(says("false"))
    api.post(path, config_map()).fails(422, "Invalid")
    api.patch(f"{GROUP}/validatingadmissionpolicies/{name}", {"spec": says("object.metadata.name != 'b'")}).expect(200)
    api.post(path, config_map("a")).expect(201)
    api.post(path, config_map("b")).fails(422, "Invalid")
    api.delete(f"{GROUP}/validatingadmissionpolicies/{name}").expect(200)
    api.post(path, config_map("b")).expect(201)


def test_a_policy_without_a_binding_does_nothing(api: Api, ns: str, bound: Bound) -> None:
    name = bound(says("false"))
    api.delete(f"{GROUP}/validatingadmissionpolicybindings/{name}").expect(200)
    api.post(f"/api/v1/namespaces/{ns}/configmaps", config_map()).expect(201)


def test_every_way_to_write_is_admitted(api: Api, ns: str, bound: Bound) -> None:
    path = f"/api/v1/namespaces/{ns}/configmaps"
    api.post(path, config_map("a")).expect(201)
    bound(says("request.operation != 'DELETE' && object.data.k != 'bad'"))
    bad = config_map("a", {"k": "bad"})
    api.post(path, {**bad, "metadata": {"name": "b"}}).fails(422, "Invalid")
    api.put(f"{path}/a", bad).fails(422, "Invalid")
    api.patch(f"{path}/a", {"data": {"k": "bad"}}).fails(422, "Invalid")
    api.apply(f"{path}/a", bad, "m", force=True).fails(422, "Invalid")
    api.apply(f"{path}/b", {**bad, "metadata": {"name": "b"}}, "m").fails(422, "Invalid")
    api.delete(f"{path}/a").fails(422, "Invalid")
    api.request("DELETE", path).fails(422, "Invalid")
    assert api.get(f"{path}/a").json()["data"] == {"k": "v"}


def test_a_policy_about_everything_leaves_policies_alone(api: Api, ns: str, bound: Bound) -> None:
    everything = {"resourceRules": [rules("*/*", group="*")]}
    name = bound(says("false", matchConstraints={**everything, "namespaceSelector": {}}))
    try:
        api.post(f"/api/v1/namespaces/{ns}/configmaps", config_map()).fails(422, "Invalid")
        review = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
        api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review).expect(201)
        api.patch(f"{GROUP}/validatingadmissionpolicies/{name}", {"metadata": {"labels": {"a": "b"}}}).expect(200)
    finally:
        api.delete(f"{GROUP}/validatingadmissionpolicies/{name}").expect(200)
    api.post(f"/api/v1/namespaces/{ns}/configmaps", config_map()).expect(201)


def test_scaling_is_an_operation_on_the_scale(api: Api, ns: str, bound: Bound) -> None:
    path = f"/apis/apps/v1/namespaces/{ns}/deployments"
    api.post(path, deployment()).expect(201)
    constraints = {"resourceRules": [rules("deployments/scale", group="apps")]}
    bound(
        says("object.spec.replicas <= 3 && object.kind == 'Scale' && has(oldObject.spec)", matchConstraints=constraints)
    )
    api.patch(f"{path}/d/scale", {"spec": {"replicas": 3}}).expect(200)
    api.patch(f"{path}/d/scale", {"spec": {"replicas": 4}}).fails(422, "Invalid")
    api.patch(f"{path}/d", {"spec": {"replicas": 5}}).expect(200)


def test_a_policy_for_another_version_sees_custom_objects_in_that_version(
    api: Api, ns: str, bound: Bound, make_crd: Callable[..., Crd]
) -> None:
    crd = make_crd()
    newer = {**crd.body["spec"]["versions"][0], "name": "v2", "storage": False}
    crd.body["spec"]["versions"].append(newer)
    crd.establish()
    only = {**rules(crd.plural, group=crd.group), "apiVersions": ["v2"]}
    expression = {"expression": "false", "messageExpression": "string(object.apiVersion) + request.requestKind.version"}
    name = bound({"validations": [expression], "matchConstraints": {"resourceRules": [only]}})
    failure = api.post(crd.path(ns), crd.obj("a")).fails(422, "Invalid")
    assert failure["message"].endswith(f"{crd.group}/v2v1")
    exact = {"spec": {"matchConstraints": {"matchPolicy": "Exact"}}}
    api.patch(f"{GROUP}/validatingadmissionpolicies/{name}", exact).expect(200)
    api.post(crd.path(ns), crd.obj("a")).expect(201)


def test_custom_objects_are_parameters(api: Api, ns: str, bound: Bound, widgets: Crd) -> None:
    api.post(widgets.path(ns), widgets.obj("limit", size=3)).expect(201)
    kind = {"apiVersion": f"{widgets.group}/v1", "kind": widgets.kind}
    reference = {"name": "limit", "parameterNotFoundAction": "Deny"}
    bound(says("size(object.data) <= params.spec.size", paramKind=kind), paramRef=reference)
    path = f"/api/v1/namespaces/{ns}/configmaps"
    api.post(path, config_map("a", dict.fromkeys("abc", "x"))).expect(201)
    api.post(path, config_map("b", dict.fromkeys("abcd", "x"))).fails(422, "Invalid")
    api.delete(widgets.path(ns, "limit")).expect(200)
    failure = api.post(path, config_map("b")).fails(422, "Invalid")
    assert "no params found for policy binding with `Deny` parameterNotFoundAction" in failure["message"]


def test_mutated_fields_have_no_manager(api: Api, ns: str, bound: Bound) -> None:
    bound(applies("Object{metadata: Object.metadata{labels: {'a': 'b'}}, data: Object.data{k: 'mine'}}"), "mutating")
    path = f"/api/v1/namespaces/{ns}/configmaps"
    obj = api.post(path, config_map("a", {"k": "v", "l": "w"})).expect(201)
    assert obj["metadata"]["labels"] == {"a": "b"}
    assert obj["data"] == {"k": "mine", "l": "w"}
    (entry,) = obj["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {"f:data": {".": {}, "f:l": {}}}
    # Another applier takes the field without a conflict.
    api.apply(
        f"{path}/a", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "mine"}}, "m"
    ).expect(200)


def test_a_mutation_that_leaves_an_invalid_object_is_refused(api: Api, ns: str, bound: Bound) -> None:
    bound(applies("Object{metadata: Object.metadata{namespace: 'elsewhere'}}"), "mutating")
    assert api.post(f"/api/v1/namespaces/{ns}/configmaps", config_map()).status in (400, 403, 422)
    assert api.get(f"/api/v1/namespaces/{ns}/configmaps/a").status == 404


def test_limits_hold_for_what_policies_add(api: Api, ns: str, bound: Bound) -> None:
    limit = {"type": "Container", "default": {"cpu": "1"}}
    api.post(f"/api/v1/namespaces/{ns}/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": [limit]}}).expect(
        201
    )
    sidecar = "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'side', image: 'i'}]}}"
    created = {"resourceRules": [rules("pods", operations=("CREATE",))]}
    bound(applies(sidecar, matchConstraints=created), "mutating")
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "i"}]}}
    stored = api.post(f"/api/v1/namespaces/{ns}/pods", pod).expect(201)
    limits = {container["name"]: container["resources"]["limits"] for container in stored["spec"]["containers"]}
    assert limits == {"a": {"cpu": "1"}, "side": {"cpu": "1"}}


def test_the_authorizer_answers_by_roles(tmp_path: Path) -> None:
    with Sandbox(rbac=True) as sandbox, Api(sandbox.url, sandbox.ca, sandbox.token) as admin:
        path = "/api/v1/namespaces/default/configmaps"
        writing = rule("create", "core", "configmaps")
        bind(admin, "ann", add_role(admin, "writer", writing), user("ann"))
        bind(admin, "bob", add_role(admin, "boss", writing, rule("approve", "x.io", "things")), user("bob"))
        expression = (
            "authorizer.group('x.io').resource('things').namespace('default').check('approve').allowed() && "
            "!authorizer.serviceAccount('default', 'default').group('x.io').resource('things').check('approve')"
            ".allowed()"
        )
        spec = {**says(expression), "matchConstraints": {"resourceRules": [rules("configmaps")]}}
        admin.post(f"{GROUP}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec}).expect(201)
        binding = {"policyName": "p", "validationActions": ["Deny"]}
        admin.post(f"{GROUP}/validatingadmissionpolicybindings", {"metadata": {"name": "p"}, "spec": binding}).expect(
            201
        )
        with api_of(sandbox.kubeconfig_for(user="ann")) as ann, api_of(sandbox.kubeconfig_for(user="bob")) as bob:
            ann.post(path, config_map()).fails(422, "Invalid")
            bob.post(path, config_map()).expect(201)


def test_audit_annotations_are_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "audit"
    with Sandbox(insecure_http=True, audit_log=log) as sandbox, Api(sandbox.url) as api:
        spec = {
            "matchConstraints": {"resourceRules": [rules("configmaps")]},
            "validations": [{"expression": "false", "message": "no"}],
            "auditAnnotations": [
                {"key": "name", "valueExpression": "'made ' + request.name"},
                {"key": "nothing", "valueExpression": "null"},
            ],
        }
        api.post(f"{GROUP}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec}).expect(201)
        for name, actions in (("noted", ["Audit"]), ("again", ["Audit", "Warn"])):
            binding = {"metadata": {"name": name}, "spec": {"policyName": "p", "validationActions": actions}}
            api.post(f"{GROUP}/validatingadmissionpolicybindings", binding).expect(201)
        answer = api.post("/api/v1/namespaces/default/configmaps", config_map())
        assert answer.status == 201
        assert answer.warnings == [
            "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'again': no\""
        ]
    events = [json.loads(line) for line in log.read_text().splitlines()]
    (event,) = [
        entry for entry in events if entry["objectRef"].get("resource") == "configmaps" and entry["verb"] == "create"
    ]
    assert event["annotations"]["p/name"] == "made a"
    assert "p/nothing" not in event["annotations"]
    (failure,) = json.loads(event["annotations"]["validation.policy.admission.k8s.io/validation_failure"])
    assert failure["message"] == "no"
    assert failure["policy"] == "p"
    assert failure["binding"] in ("noted", "again")
    assert failure["expressionIndex"] == 0


def test_the_status_names_problems_with_the_types(api: Api, ns: str, bound: Bound, widgets: Crd) -> None:
    constraints = {
        "resourceRules": [
            {**rules("deployments", "replicasets", group="apps"), "apiVersions": ["v1"]},
            {**rules(widgets.plural, group=widgets.group), "apiVersions": ["v1"]},
        ]
    }
    validations = [
        {"expression": "object.spec.replicas > 1", "messageExpression": "'x' + object.metadata.name"},
        {"expression": "object.metadata.labels['a'] == 'b' && object.metadata.creationTimestamp < timestamp(5)"},
    ]
    name = bound({"validations": validations, "matchConstraints": constraints})
    path = f"{GROUP}/validatingadmissionpolicies/{name}"
    eventually_equal(lambda: api.get(path).json()["status"].get("observedGeneration"), 1)
    (warning,) = api.get(path).json()["status"]["typeChecking"]["expressionWarnings"]
    assert warning["fieldRef"] == "spec.validations[0].expression"
    assert warning["warning"] == (
        f"{widgets.group}/v1, Kind=Widget: ERROR: <input>:1:12: undefined field 'replicas'\n"
        " | object.spec.replicas > 1\n | ...........^\n"
    )
    api.patch(path, {"spec": {"validations": [{"expression": "true"}]}}).expect(200)
    eventually(lambda: api.get(path).json()["status"] == {"observedGeneration": 2, "typeChecking": {}})


def test_variables_that_refer_to_each_other_end(api: Api, ns: str, bound: Bound) -> None:
    chain = [{"name": "a0", "expression": "1"}]
    chain += [{"name": f"a{at}", "expression": f"variables.a{at - 1} + 1"} for at in range(1, 2000)]
    bound(says("variables.a1999 == 2000", variables=chain))
    failure = api.post(f"/api/v1/namespaces/{ns}/configmaps", config_map()).fails(422, "Invalid")
    assert "nests too deep" in failure["message"]


def test_all_parameters_of_a_request_share_a_budget(api: Api, ns: str, bound: Bound) -> None:
    path = f"/api/v1/namespaces/{ns}/configmaps"
    for index in range(14):
        api.post(path, config_map(f"p{index}", labels={"limit": "yes" if index < 4 else "no"})).expect(201)
    # Each expression takes some 900,000 steps of the 100,000,000 of a request.
    loops = "lists.range(1000).all(a, lists.range(300).all(b, true))"
    spec = says(*[loops] * 10, paramKind={"apiVersion": "v1", "kind": "ConfigMap"})
    matches = {"matchExpressions": [{"key": "limit", "operator": "Exists"}]}
    name = bound(spec, paramRef={"selector": matches, "parameterNotFoundAction": "Deny"})
    assert "cost budget" in api.post(path, config_map()).fails(422, "Invalid")["message"]
    few = {"spec": {"paramRef": {"selector": {"matchLabels": {"limit": "yes"}, "matchExpressions": None}}}}
    api.patch(f"{GROUP}/validatingadmissionpolicybindings/{name}", few).expect(200)
    api.post(path, config_map()).expect(201)


def test_expensive_expressions_end(api: Api, ns: str, bound: Bound) -> None:
    loops = "lists.range(1000).all(a, " * 3 + "true" + ")" * 3
    bound(says(*[loops] * 12))
    failure = api.post(f"/api/v1/namespaces/{ns}/configmaps", config_map()).fails(422, "Invalid")
    assert "actual cost limit exceeded" in failure["message"] or "cost budget" in failure["message"]
    api.get(f"/api/v1/namespaces/{ns}").expect(200)
