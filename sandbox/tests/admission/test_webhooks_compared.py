"""Admission webhooks: the sandbox calls the same ones as a real kube-apiserver, and answers in the same words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.admission_rig import GROUP, Servers, config_map, rules, verdict_of, without_server_fields
from tests.support.http_client import APPLY, JSON_PATCH, MERGE, Answer, Api
from tests.support.objects import container
from tests.support.waiting import eventually
from tests.support.webhook_server import (
    ALLOWED,
    Respond,
    WebhookServer,
    adds,
    configuration,
    denial,
    other_bundle,
    patches,
    webhook,
    webhook_server,
)


def allows(_review: dict[str, Any]) -> dict[str, Any]:
    return ALLOWED


def raw(code: int, body: str, media: str = "application/json") -> Respond:
    """Return a webhook that answers with something else than a review."""
    return lambda _review: (code, body.encode(), media)


def says(**response: Any) -> Respond:
    """Return a webhook that admits, with more in its response."""
    return lambda _review: {**ALLOWED, **response}


NO = denial(code=403, message="no", reason="Forbidden")
WARNS = says(warnings=["mind this", "and that"])
CREATE = {"operations": ("CREATE",)}
UNREACHABLE = {"url": "https://127.0.0.1:1/x"}
#: The certificate of an authority that has signed nothing here.
OTHER_BUNDLE = other_bundle()


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook of a case: how it answers, and what its configuration has beside the usual."""

    respond: Respond = allows
    sort: str = "Validating"
    rules: tuple[dict[str, Any], ...] = ()
    more: dict[str, Any] = field(default_factory=dict)
    client: dict[str, Any] = field(default_factory=dict)


def mutating(respond: Respond, *rule: dict[str, Any], **more: Any) -> Hook:
    return Hook(respond, "Mutating", rule, more)


def validating(respond: Respond = allows, *rule: dict[str, Any], **more: Any) -> Hook:
    return Hook(respond, "Validating", rule, more)


def condition(*expressions: str) -> dict[str, Any]:
    """Return match conditions."""
    return {"matchConditions": [{"name": f"c{index}", "expression": text} for index, text in enumerate(expressions)]}


def in_namespaces(**labels: str) -> dict[str, Any]:
    return {"namespaceSelector": {"matchLabels": labels}}


SEVEN = config_map(x="7")
UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
AGAIN = {"reinvocationPolicy": "IfNeeded"}
IGNORE = {"failurePolicy": "Ignore"}
#: The webhooks of each case, which are asked about the creation of a ConfigMap with `x: "7"`.
CASES: dict[str, list[Hook]] = {
    "allowed": [validating()],
    "denied": [validating(NO)],
    "denied without a status": [validating(lambda _review: {"allowed": False})],
    "denied with a reason only": [validating(denial(reason="Invalid"))],
    "denied with a code only": [validating(denial(code=429))],
    "denied with the code of a success": [validating(denial(code=200, message="fine", status="Success"))],
    "denied with a cause": [
        validating(
            denial(
                code=422,
                reason="Invalid",
                message="x is wrong",
                details={"causes": [{"reason": "FieldValueInvalid", "message": "7", "field": "data.x"}]},
            )
        )
    ],
    "denied with a name": [validating(denial(code=409, message="m", details={"name": "n", "kind": "k", "group": "g"}))],
    "two of one configuration": [validating(), validating()],
    "the second denies": [validating(), validating(NO)],
    "both deny with the same words": [validating(NO), mutating(NO)],
    "warnings": [validating(WARNS)],
    "warnings of a denial": [validating(lambda _review: {"allowed": False, "warnings": ["why"]})],
    "warnings of both sorts": [mutating(says(warnings=["first"])), validating(says(warnings=["second"]))],
    "mutated": [mutating(adds("y"))],
    "mutated by two in order": [mutating(adds("y", "1")), mutating(adds("y", "2"))],
    "mutated, then denied": [mutating(adds("y")), validating(NO)],
    "mutated metadata": [mutating(patches({"op": "add", "path": "/metadata/labels/new", "value": "l"}))],
    "removed": [mutating(patches({"op": "remove", "path": "/data/x"}))],
    "an unknown field": [mutating(patches({"op": "add", "path": "/unknown", "value": 1}))],
    "a patch of nothing": [mutating(patches())],
    "a patch that does not fit": [mutating(patches({"op": "remove", "path": "/data/nothing"}))],
    "a replacement of what is not there": [mutating(patches({"op": "replace", "path": "/data/nothing", "value": "v"}))],
    "a test that fails": [mutating(patches({"op": "test", "path": "/data/x", "value": "8"}))],
    "a patch that breaks the type": [mutating(patches({"op": "replace", "path": "/data", "value": "text"}))],
    "a patch that makes it invalid": [mutating(patches({"op": "add", "path": "/data/bad key", "value": "v"}))],
    "a patch without its type": [mutating(says(patch="W10="))],
    "a type without a patch": [mutating(says(patchType="JSONPatch"))],
    "called again": [mutating(adds("y"), **AGAIN), mutating(adds("z"))],
    "called again only for others": [mutating(adds("y"), **AGAIN)],
    "never called again": [mutating(adds("y")), mutating(adds("z"))],
    "called again although nothing changes": [mutating(allows, **AGAIN), mutating(allows)],
    "three, of which two are called again": [
        mutating(allows, **AGAIN),
        mutating(adds("a"), **AGAIN),
        mutating(adds("b")),
    ],
    "unreachable": [Hook(more={"clientConfig": UNREACHABLE})],
    "unreachable and ignored": [Hook(more={"clientConfig": UNREACHABLE, **IGNORE})],
    "unreachable, mutating": [mutating(allows, clientConfig=UNREACHABLE)],
    "unreachable, mutating and ignored": [mutating(allows, clientConfig=UNREACHABLE, **IGNORE), mutating(adds("y"))],
    "another authority": [Hook(client={"caBundle": OTHER_BUNDLE})],
    "a bundle of nonsense": [Hook(client={"caBundle": "bm9uc2Vuc2U="})],
    "no such Service": [Hook(more={"clientConfig": {"service": {"namespace": "default", "name": "nothing"}}})],
    "an error of the server": [validating(raw(500, "broken", "text/plain"))],
    "an error of the server, ignored": [validating(raw(500, "broken", "text/plain"), **IGNORE)],
    "not found": [validating(raw(404, "nothing", "text/plain"))],
    "unavailable": [validating(raw(503, "later", "text/plain"))],
    "a gateway's time-out": [validating(raw(504, "late", "text/plain"))],
    "forbidden": [validating(raw(403, "not you", "text/plain"))],
    "a redirection": [validating(raw(399, "", "text/plain"))],
    "another uid": [validating(says(uid="other"))],
    "another kind of answer": [validating(raw(200, json.dumps({"response": {"allowed": True}})))],
    "no response": [validating(raw(200, json.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"})))],
    "condition that holds": [validating(NO, **condition("object.data.x == '7'"))],
    "condition that does not": [validating(NO, **condition("object.data.x == '8'"))],
    "condition that fails": [validating(NO, **condition("object.nothing == 1"))],
    "condition that fails, ignored": [validating(NO, **condition("object.nothing == 1"), **IGNORE)],
    "condition that fails beside a false one": [validating(NO, **condition("object.nothing == 1", "false"))],
    "condition about the user": [validating(NO, **condition("'system:masters' in request.userInfo.groups"))],
    "condition of a mutating one": [mutating(NO, **condition("object.nothing == 1"))],
    "another resource": [validating(NO, rules("secrets"))],
    "another operation": [validating(NO, rules("configmaps", operations=("UPDATE",)))],
    "every operation": [validating(NO, rules("configmaps", operations=("*",)))],
    "another group": [validating(NO, rules("configmaps", group="apps"))],
    "every group and resource": [validating(NO, rules("*", group="*"))],
    "every sub-resource": [validating(NO, rules("*/*", group="*"))],
    "only sub-resources": [validating(NO, rules("configmaps/*"))],
    "cluster scope": [validating(NO, rules("configmaps", scope="Cluster"))],
    "namespaced scope": [validating(NO, rules("configmaps", scope="Namespaced"))],
    "the second rule": [validating(NO, rules("secrets"), rules("configmaps"))],
    "namespaces that match": [validating(NO, **in_namespaces(team="a"))],
    "namespaces that do not": [validating(NO, **in_namespaces(team="b"))],
    "reviews of v1beta1": [validating(NO, admissionReviewVersions=["v1beta1", "v1"])],
    "an unknown version of reviews first": [validating(NO, admissionReviewVersions=["v2", "v1"])],
}
#: Cases in which the object is created.
ADMITTED = {
    "allowed",
    "warnings",
    "mutated",
    "called again",
    "unreachable and ignored",
    "unreachable, mutating and ignored",
    "condition that fails, ignored",
    "another resource",
}
#: The mutating webhooks that are called, in order.
CALLED = {
    "called again": ["0", "1", "0"],
    "called again only for others": ["0"],
    "never called again": ["0", "1"],
    "called again although nothing changes": ["0", "1"],
    "three, of which two are called again": ["0", "1", "2", "0", "1"],
}


@dataclass(frozen=True, slots=True)
class Rig:
    """Both servers with the webhooks of all cases."""

    servers: Servers
    webhooks: WebhookServer

    def side(self, api: Api) -> str:
        return "ours" if api is self.servers.ours else "theirs"

    def configure(self, case: str, hooks: list[Hook], **more: Any) -> None:
        """Make the configurations of a case on both servers: its webhooks are asked about objects with its label."""
        for api in (self.servers.ours, self.servers.theirs):
            for sort in ("Mutating", "Validating"):
                specs = []
                for index, hook in enumerate(hooks):
                    if hook.sort != sort:
                        continue
                    path = f"/{self.side(api)}/{label_of(case)}/{index}"
                    self.webhooks.webhooks[path] = hook.respond
                    name, client = (
                        f"h{index}.{label_of(case)}.test",
                        {**self.webhooks.client_config(path), **hook.client},
                    )
                    selector = {"objectSelector": {"matchLabels": {"case": label_of(case)}}}
                    specs.append(webhook(name, client, *hook.rules, **{**selector, **hook.more, **more}))
                if specs:
                    name = f"{sort.lower()}-{label_of(case)}"
                    path = f"{GROUP}/{sort.lower()}webhookconfigurations"
                    api.post(path, configuration(name, *specs, sort=sort)).expect(201)

    def outcome(self, api: Api, case: str, answer: Answer) -> tuple[Any, ...]:
        """Return what the answer says, the object that it has, and which webhooks were called in which order."""
        code, message, reason, causes, warnings = verdict_of(answer)
        side = self.side(api)
        texts = [UID.sub("UID", message).replace(f"/{side}/", "/side/")]
        causes = [
            {**cause, "message": UID.sub("UID", cause["message"]).replace(f"/{side}/", "/side/")} for cause in causes
        ]
        obj = without_server_fields(answer.json()) if code < 300 and "metadata" in answer.json() else None
        called = self.webhooks.called(f"/{side}/{label_of(case)}/")
        validators = [path for path in called if CASES.get(case, [Hook()])[int(path)].sort == "Validating"]
        ordered = [path for path in called if path not in validators]
        return code, texts, reason, causes, warnings, obj, ordered, sorted(validators)

    def compare(self, case: str, method: str, path: str, body: Any = None, **query: Any) -> tuple[Any, ...]:
        """Send a request to both servers; require the same outcome, and return it."""
        outcomes = []
        for api in (self.servers.ours, self.servers.theirs):
            side = self.side(api)
            self.webhooks.calls[:] = [call for call in self.webhooks.calls if not call[0].startswith(f"/{side}/")]
            outcomes.append(self.outcome(api, case, api.request(method, path, body, **query)))
        ours, theirs = outcomes
        assert ours == theirs
        return ours

    def reviews(self, case: str) -> list[dict[str, Any]]:
        """Return the first review that each server sent to the first webhook of a case."""
        return [self.webhooks.reviews(f"/{side}/{label_of(case)}/0")[0] for side in ("ours", "theirs")]

    def wait(self) -> None:
        """Wait until the real server calls the webhooks: the ones of both sorts that were made last."""
        for sort in ("mutating", "validating"):
            marked = config_map(f"marker-{sort}")
            marked["metadata"]["labels"] = {"case": f"marker-{sort}"}
            path = self.servers.path("configmaps")
            eventually(lambda: self.servers.theirs.post(path, marked, dryRun="All").status == 403, 30.0)  # noqa: B023


def label_of(case: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in case.lower())


@pytest.fixture(scope="module")
def rig(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Return both servers with the webhooks of all cases, which the real one calls."""
    with webhook_server(tmp_path_factory.mktemp("webhooks") / "tls") as webhooks:
        rig = Rig(servers, webhooks)
        for case, hooks in CASES.items():
            rig.configure(case, hooks)
        for case, hooks in OTHER_CASES.items():
            rig.configure(case, hooks)
        rig.configure("marker mutating", [mutating(NO)])
        rig.configure("marker validating", [validating(NO)])
        rig.wait()
        yield rig
        for api in (servers.ours, servers.theirs):
            for sort in ("mutating", "validating"):
                api.request("DELETE", f"{GROUP}/{sort}webhookconfigurations").expect(200)


def labelled(case: str, obj: dict[str, Any]) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "labels": {"case": label_of(case)}}}


@pytest.mark.behaviour("webhooks/WH27")
@pytest.mark.parametrize("case", CASES)
def test_the_same_webhooks_are_called_with_the_same_result(rig: Rig, case: str) -> None:
    outcome = rig.compare(case, "POST", rig.servers.path("configmaps"), labelled(case, SEVEN), dryRun="All")
    assert case not in ADMITTED or outcome[0] == 201
    if case in CALLED:
        assert outcome[6] == CALLED[case]


#: Webhooks whose requests differ from the creation of a ConfigMap.
OTHER_CASES: dict[str, list[Hook]] = {
    "changes": [mutating(adds("y"), rules("configmaps", operations=("UPDATE",)))],
    "deletions": [validating(NO, rules("configmaps", operations=("DELETE",)))],
    "patch of a deletion": [mutating(adds("y"), rules("configmaps", operations=("DELETE",)))],
    "statuses": [validating(NO, rules("pods/status"))],
    "pods": [validating(NO, rules("pods"))],
    "scales": [validating(NO, rules("deployments/scale", group="apps"), objectSelector={}, **in_namespaces(team="a"))],
    "evictions": [validating(NO, rules("pods/eviction"), objectSelector={}, **in_namespaces(team="a"))],
    "namespaces": [validating(NO, rules("namespaces"))],
    "configurations": [
        validating(NO, rules("*", group="admissionregistration.k8s.io")),
    ],
    "what is sent": [validating(NO, rules("configmaps"))],
}


@pytest.mark.behaviour("webhooks/WH27")
def test_changes_by_each_verb_are_patched_alike(rig: Rig) -> None:
    path = rig.servers.path("configmaps", "changes")
    rig.servers.both("POST", rig.servers.path("configmaps"), config_map("changes", x="1"))
    changed = labelled("changes", config_map("changes", x="2"))
    assert rig.compare("changes", "PUT", path, changed)[5]["data"] == {"x": "2", "y": "x"}
    merge = {"data": {"x": "3"}}
    assert rig.compare("changes", "PATCH", path, merge, content_type=MERGE)[5]["data"] == {"x": "3", "y": "x"}
    patch = [{"op": "remove", "path": "/data/y"}]
    assert rig.compare("changes", "PATCH", path, patch, content_type=JSON_PATCH)[5]["data"] == {"x": "3", "y": "x"}
    applied = labelled("changes", config_map("changes", x="4"))
    outcome = rig.compare("changes", "PATCH", path, applied, content_type=APPLY, fieldManager="test", force="true")
    assert outcome[5]["data"] == {"x": "4", "y": "x"}


@pytest.mark.behaviour("webhooks/WH27")
def test_deletions_are_asked_about_the_object_before(rig: Rig) -> None:
    collection = rig.servers.path("configmaps")
    for case in ("deletions", "patch of a deletion"):
        name = label_of(case)
        rig.servers.both("POST", collection, labelled(case, config_map(name, x="1")))
        assert rig.compare(case, "DELETE", rig.servers.path("configmaps", name))[0] in (403, 500)
    selector = {"labelSelector": "case=deletions"}
    assert rig.compare("deletions", "DELETE", collection, **selector)[0] == 403
    ours, theirs = (rig.webhooks.reviews(f"/{side}/deletions/0")[-1] for side in ("ours", "theirs"))
    assert (ours["object"], ours["operation"], ours["oldObject"]["data"]) == (None, "DELETE", {"x": "1"})
    assert (theirs["object"], theirs["operation"], theirs["oldObject"]["data"]) == (None, "DELETE", {"x": "1"})


@pytest.mark.behaviour("webhooks/WH27")
def test_sub_resources_are_resources_of_their_own(rig: Rig) -> None:
    pod = {"metadata": {"name": "w"}, "spec": {"containers": [container()], "serviceAccountName": "default"}}
    assert rig.compare("statuses", "POST", rig.servers.path("pods"), labelled("statuses", pod))[0] == 201
    status = {"status": {"message": "m"}}
    path = rig.servers.path("pods", "w/status")
    assert rig.compare("statuses", "PATCH", path, status, content_type=MERGE)[0] == 403
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "w"}}
    assert rig.compare("evictions", "POST", rig.servers.path("pods", "w/eviction"), eviction)[0] == 403
    assert rig.compare("pods", "DELETE", rig.servers.path("pods", "w"), labelled("pods", {"metadata": {}}))[0] == 200
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "w"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container()]}},
        },
    }
    apps = "/apis/apps/v1"
    rig.servers.both("POST", rig.servers.path("deployments", group=apps), deployment)
    path = rig.servers.path("deployments", "w/scale", group=apps)
    scale = {"spec": {"replicas": 1}}
    assert rig.compare("scales", "PATCH", path, scale, content_type=MERGE)[0] == 403


@pytest.mark.behaviour("webhooks/WH27")
def test_namespaces_match_by_their_own_labels_and_configurations_never(rig: Rig) -> None:
    namespace = {"metadata": {"name": "guarded", "labels": {"case": "namespaces"}}}
    assert rig.compare("namespaces", "POST", "/api/v1/namespaces", namespace, dryRun="All")[0] == 403
    other = configuration("guarded", webhook("a.b.test", UNREACHABLE))
    other["metadata"]["labels"] = {"case": "configurations"}
    path = f"{GROUP}/validatingwebhookconfigurations"
    outcome = rig.compare("configurations", "POST", path, other, dryRun="All")
    assert (outcome[0], outcome[6:]) == (201, ([], []))


@pytest.mark.behaviour("webhooks/WH27")
def test_a_webhook_is_sent_the_same_review(rig: Rig) -> None:
    obj = labelled("what is sent", SEVEN)
    query = {"fieldManager": "me", "fieldValidation": "Strict", "dryRun": "All"}
    rig.compare("what is sent", "POST", rig.servers.path("configmaps"), obj, **query)
    ours, theirs = rig.reviews("what is sent")
    for review in (ours, theirs):
        assert len(review.pop("uid")) == 36
        assert review["userInfo"].pop("username")
        del review["userInfo"]
        review["object"] = without_server_fields(review["object"])
    assert ours == theirs
