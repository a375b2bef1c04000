"""The sandbox and a real kube-apiserver give the same answers about the same roles."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

from tests.support.control_plane import KubeApiserver
from tests.support.http_client import APPLY, Api
from tests.support.rbac_rig import (
    AUTHENTICATION,
    RBAC,
    REVIEWS,
    account,
    add_role,
    api_of,
    bind,
    group,
    may,
    reference,
    rule,
    user,
)
from tests.support.waiting import eventually

HOME, AWAY = "rbac-home", "rbac-away"
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
RESOURCES = (
    ("", "pods"),
    ("", "pods/log"),
    ("", "pods/status"),
    ("", "secrets"),
    ("", "serviceaccounts/token"),
    ("", "nodes"),
    ("apps", "deployments"),
    ("apps", "deployments/scale"),
    ("coordination.k8s.io", "leases"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("rbac.test", "widgets"),
)
SUBJECTS = ("ann", "bob", "cleo", "dan", "eve", f"system:serviceaccount:{HOME}:robot", "nobody")


def prepare(api: Api) -> None:
    """Grant different rights to each subject."""
    for name in (HOME, AWAY):
        api.post("/api/v1/namespaces", {"metadata": {"name": name}}).expect(201)
    # Without a controller-manager the aggregated roles of the real server stay empty, so their parts are bound.
    bind(api, "ann-views", reference("system:aggregate-to-view"), user("ann"), namespace=HOME)
    bind(api, "bob-edits", reference("system:aggregate-to-edit"), user("bob"))
    named = add_role(api, "rbac-named", rule("get list delete", "core apps", "pods deployments secrets", "one"))
    bind(api, "cleo-one", named, user("cleo"))
    wild = rule("patch", "*", "*/status */scale"), rule("*", "rbac.test", "*"), rule("get post", urls="/x/* /y")
    bind(api, "dan-wild", add_role(api, "rbac-wild", *wild), user("dan"))
    bind(api, "dan-nothing", reference("rbac-none"), user("dan"))
    bind(api, "devs-admin", reference("system:aggregate-to-admin"), group("rbac-devs"), namespace=HOME)
    reading = add_role(api, "reading", rule("get list watch", "*", "*"), namespace=AWAY)
    bind(api, "robot", reading, account(HOME, "robot"), namespace=AWAY)
    makes = rule("create update patch get", "rbac.authorization.k8s.io", "*"), rule("get", "core", "pods", "a")
    bind(api, "maker", add_role(api, "rbac-maker", *makes), user("eve"))
    bind(api, "eve-last", reference("system:auth-delegator"), user("eve"))
    eventually(lambda: may(api, "create", "tokenreviews", who="eve", group="authentication.k8s.io"))


@pytest.fixture(scope="module")
def both(kube_apiserver: KubeApiserver) -> Iterator[tuple[Api, Api]]:
    """Clients of the sandbox and of the real server, with the same roles."""
    with (
        Sandbox(rbac=True) as sandbox,
        api_of(sandbox.kubeconfig) as ours,
        api_of(kube_apiserver.kubeconfig) as theirs,
    ):
        for api in (ours, theirs):
            prepare(api)
        yield ours, theirs


def allowed(api: Api, review_spec: dict[str, Any]) -> bool:
    verdict: bool = api.post(f"{REVIEWS}/subjectaccessreviews", {"spec": review_spec}).expect(201)["status"]["allowed"]
    return verdict


def test_decisions_on_resources_are_the_same(both: tuple[Api, Api]) -> None:
    ours, theirs = both
    questions = itertools.product(SUBJECTS, VERBS, RESOURCES, (HOME, AWAY, ""))
    granted = 0
    for number, (who, verb, (api_group, resource), namespace) in enumerate(questions):
        plural, _, subresource = resource.partition("/")
        attributes = {"verb": verb, "group": api_group, "resource": plural, "subresource": subresource}
        attributes |= {"namespace": namespace, "name": ("", "one")[number % 2]}
        question = {"user": who, "groups": ["system:authenticated"], "resourceAttributes": attributes}
        answers = allowed(ours, question), allowed(theirs, question)
        assert answers[0] == answers[1], question
        granted += answers[0]
    assert 200 < granted < 1000


@pytest.mark.parametrize("path", ["/", "/x", "/x/", "/x/y", "/y", "/y/z", "/api", "/apis/a/b", "/metrics", "/version/"])
@pytest.mark.parametrize("verb", ["get", "post", "delete"])
def test_decisions_on_paths_are_the_same(both: tuple[Api, Api], path: str, verb: str) -> None:
    for who in ("ann", "dan"):
        question = {
            "user": who,
            "groups": ["system:authenticated"],
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        assert allowed(both[0], question) == allowed(both[1], question)


def answer(api: Api, who: str, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
    """Send a request as `who`; return the status and the body without the parts that differ from call to call."""
    headers = {"Impersonate-User": who, **more.pop("headers", {})} if who else {}
    response = api.request(method, path, body, headers=headers, **more)
    value = response.json() if response.body[:1] == b"{" else response.body
    if isinstance(value, dict):
        value["metadata"] = {}
        if not value.get("details", True):
            del value["details"]
        value.pop("kind")
    return response.status, value


REFUSALS = [
    ("GET", f"/api/v1/namespaces/{HOME}/pods"),
    ("GET", "/api/v1/pods"),
    ("GET", f"/api/v1/namespaces/{HOME}/pods/x/log"),
    ("GET", f"/apis/apps/v1/namespaces/{HOME}/deployments/x/scale"),
    ("GET", "/apis/nope.test/v1/things"),
    ("GET", "/"),
    ("GET", "/metrics"),
    ("POST", "/healthz"),
    ("GET", f"/api/v1/namespaces/{HOME}"),
    ("PATCH", f"/api/v1/namespaces/{HOME}/finalize"),
    ("DELETE", f"/api/v1/namespaces/{HOME}/configmaps"),
    ("DELETE", "/api/v1/nodes/x"),
    ("GET", f"/api/v1/namespaces/{HOME}/pods?watch=1"),
    ("GET", f"/api/v1/namespaces/{HOME}/pods?fieldSelector=metadata.name%3Da"),
    ("GET", f"/api/v1/namespaces/{HOME}/pods?fieldSelector=metadata.name%3Da,status.phase%3DRunning"),
    ("PUT", f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/l"),
]


@pytest.mark.parametrize(("method", "path"), REFUSALS, ids=[f"{method} {path}" for method, path in REFUSALS])
def test_refusals_have_the_same_text(both: tuple[Api, Api], method: str, path: str) -> None:
    body = None if method in ("GET", "DELETE") else {"metadata": {"name": "l"}}
    for who in ("nobody", "dan"):
        ours, theirs = (answer(api, who, method, path, body) for api in both)
        assert ours[0] == theirs[0] == 403
        assert ours == theirs


def test_attempts_at_escalation_fail_the_same_way(both: tuple[Api, Api]) -> None:
    roles, bindings = f"{RBAC}/namespaces/{HOME}/roles", f"{RBAC}/namespaces/{HOME}/rolebindings"
    much = [rule("get list", "core apps", "pods secrets"), rule("get", "core", "pods", "a b")]
    applied = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "eves"},
        "rules": much,
    }
    attempts: list[tuple[Any, ...]] = [
        ("POST", roles, {"metadata": {"name": "much"}, "rules": much}),
        ("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "paths"}, "rules": [rule("get post", urls="/q /api")]}),
        ("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "all"}, "rules": [rule("*", "*", "*")]}),
        ("PATCH", f"{RBAC}/clusterroles/rbac-maker", {"rules": much}),
        (
            "POST",
            bindings,
            {"metadata": {"name": "x"}, "roleRef": reference("cluster-admin"), "subjects": [user("eve")]},
        ),
        (
            "POST",
            bindings,
            {"metadata": {"name": "x"}, "roleRef": reference("nope", "Role"), "subjects": [user("eve")]},
        ),
        (
            "POST",
            f"{RBAC}/clusterroles",
            {
                "metadata": {"name": "agg"},
                "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
                "rules": [],
            },
        ),
        ("PATCH", f"{RBAC}/clusterroles/eves", applied),
    ]
    for method, path, body in attempts:
        more: dict[str, Any] = {"content_type": "application/merge-patch+json"} if method == "PATCH" else {}
        if body is applied:
            more = {"content_type": APPLY, "fieldManager": "eve"}
        ours, theirs = (answer(api, "eve", method, path, body, **more) for api in both)
        assert ours[0] in (403, 404)
        assert ours == theirs


def rights(api: Api, who: str, namespace: str) -> set[str]:
    """Return the rights of a user, one entry for each verb and resource."""
    body = {"spec": {"namespace": namespace}}
    status = answer(api, who, "POST", f"{REVIEWS}/selfsubjectrulesreviews", body)[1]["status"]
    parts = {f"incomplete: {status['incomplete']}, {status.get('evaluationError')}"}
    for entry in status["resourceRules"]:
        names = tuple(entry.get("resourceNames", ()))
        for part in itertools.product(entry["verbs"], entry["apiGroups"], entry["resources"]):
            if not re.search("extensions|resource.k8s.io", part[1]):
                parts.add(str((*part, names)))
    for entry in status["nonResourceRules"]:
        parts |= {str(part) for part in itertools.product(entry["verbs"], entry["nonResourceURLs"])}
    return parts


@pytest.mark.parametrize("who", SUBJECTS)
def test_the_list_of_rights_is_the_same(both: tuple[Api, Api], who: str) -> None:
    for namespace in (HOME, AWAY):
        assert rights(both[0], who, namespace) == rights(both[1], who, namespace)


def test_reviews_have_the_same_answers(both: tuple[Api, Api]) -> None:
    attributes = {"verb": "get", "resource": "pods", "namespace": HOME}
    on_path = {"nonResourceAttributes": {"path": "/x", "verb": "get"}}
    local = f"{REVIEWS}/namespaces/{HOME}/localsubjectaccessreviews"
    reviews: list[tuple[str, str, Any]] = [
        ("ann", f"{REVIEWS}/selfsubjectaccessreviews", {"resourceAttributes": attributes}),
        ("dan", f"{REVIEWS}/selfsubjectaccessreviews", {"resourceAttributes": attributes}),
        ("dan", f"{REVIEWS}/selfsubjectaccessreviews", on_path),
        ("ann", f"{REVIEWS}/selfsubjectaccessreviews", {}),
        ("ann", f"{REVIEWS}/selfsubjectaccessreviews", {**on_path, "resourceAttributes": attributes}),
        ("ann", f"{REVIEWS}/selfsubjectrulesreviews", {}),
        ("eve", f"{REVIEWS}/subjectaccessreviews", {"user": "ann", "resourceAttributes": attributes}),
        ("eve", f"{REVIEWS}/subjectaccessreviews", {"resourceAttributes": attributes}),
        ("", local, {"user": "ann", "resourceAttributes": attributes}),
        ("", local, {"user": "ann", "resourceAttributes": {"verb": "get", "resource": "pods"}}),
        ("", local, {"user": "ann", **on_path}),
        ("eve", f"{AUTHENTICATION}/tokenreviews", {"token": "wrong"}),
        ("eve", f"{AUTHENTICATION}/tokenreviews", {}),
    ]
    for who, path, spec in reviews:
        ours, theirs = (answer(api, who, "POST", path, {"spec": spec}) for api in both)
        for verdict in (ours, theirs):
            for cause in verdict[1].get("details", {}).get("causes", ()):
                # The real server shows its own struct here, not the object.
                cause["message"] = re.sub(
                    r'\{"Path.*?\}', "{}", cause["message"].replace('{"path":"/x","verb":"get"}', "{}")
                )
            if "causes" in verdict[1].get("details", {}):
                del verdict[1]["message"]
        assert ours == theirs


def test_self_subject_reviews_are_the_same(both: tuple[Api, Api]) -> None:
    path = f"{AUTHENTICATION}/selfsubjectreviews"
    for headers in (
        {},
        {"Impersonate-Group": "g"},
        {"Impersonate-Uid": "1", "Impersonate-Extra-Scopes": "x", "Impersonate-Group": "system:masters"},
    ):
        ours, theirs = (answer(api, "ann", "POST", path, {}, headers=headers) for api in both)
        assert ours == theirs
    robot = f"system:serviceaccount:{HOME}:robot"
    assert answer(both[0], robot, "POST", path, {}) == answer(both[1], robot, "POST", path, {})
