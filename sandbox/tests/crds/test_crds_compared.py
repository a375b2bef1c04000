"""The life of CRDs: approval, stored versions, termination; the sandbox is as a real kube-apiserver."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from sandbox.tests.conftest import Crd, crd_body
from tests.support.compared import Pair
from tests.support.http_client import APPLY, MERGE, TABLE, Api
from tests.support.waiting import eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
APPROVAL = "api-approved.kubernetes.io"
CONFORMANT = "KubernetesAPIApprovalPolicyConformant"
URL = "https://github.com/kubernetes/x/pull/1"


def condition(api: Api, url: str, name: str) -> dict[str, Any]:
    conditions = (api.get(url).json().get("status") or {}).get("conditions") or ()
    return next(({**entry, "lastTransitionTime": ""} for entry in conditions if entry["type"] == name), {})


@pytest.mark.behaviour("findings3/NS8")
def test_the_approval_of_a_protected_group(pair: Pair, group: str) -> None:
    body = crd_body(f"{group.partition('.')[0]}.x.k8s.io")
    url = f"{CRDS}/{body['metadata']['name']}"
    assert pair.ask("POST", CRDS, body)[0] == 422
    for value, reason, status in (
        (URL, "ApprovedAnnotation", "True"),
        ("unapproved, an experiment", "UnapprovedAnnotation", "False"),
        (f"{URL}2", "ApprovedAnnotation", "True"),
    ):
        body["metadata"]["annotations"] = {APPROVAL: value}
        if value == URL:
            pair.done("POST", CRDS, body)
        else:
            pair.done("PATCH", url, {"metadata": {"annotations": {APPROVAL: value}}}, content_type=MERGE)
        for api in (pair.ours, pair.theirs):
            eventually(lambda api=api, value=value: value in condition(api, url, CONFORMANT).get("message", ""))
        ours, wanted = (condition(api, url, CONFORMANT) for api in (pair.ours, pair.theirs))
        assert ours == wanted
        assert (ours["reason"], ours["status"]) == (reason, status)
    for value in ("yes", "", None):
        change = {"metadata": {"annotations": {APPROVAL: value}}}
        assert pair.ask("PATCH", url, change, content_type=MERGE)[0] == 422
    for api in (pair.ours, pair.theirs):
        api.delete(url).expect(200)


@pytest.mark.behaviour("findings3/NS8")
def test_other_groups_have_no_such_condition(pair: Pair, pair_crd: Callable[..., Crd]) -> None:
    crd = pair_crd()
    for api in (pair.ours, pair.theirs):
        assert condition(api, crd.url, CONFORMANT) == {}


def two_versions(group: str) -> dict[str, Any]:
    body = crd_body(group)
    body["spec"]["versions"].append({**copy.deepcopy(body["spec"]["versions"][0]), "name": "v2", "storage": False})
    return body


@pytest.mark.behaviour("findings3/NS11")
@pytest.mark.parametrize("stored", [["v1", "v9"], ["v9"], []])
def test_stored_versions_of_a_status_are_not_checked(pair: Pair, group: str, stored: list[str]) -> None:
    for api in (pair.ours, pair.theirs):
        crd = Crd(api, two_versions(group)).establish()
    status = {"status": {"storedVersions": stored}}
    objects = pair.done("PATCH", f"{crd.url}/status", status, content_type=MERGE)
    assert objects[0]["status"]["storedVersions"] == objects[1]["status"]["storedVersions"] == (stored or ["v1"])
    # The next write of the rest is checked.
    code, _ = pair.ask("PATCH", crd.url, {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    assert code == (422 if "v9" in stored else 200)
    names = {"status": {"acceptedNames": {"plural": "A_b", "kind": "k_"}}}
    assert pair.ask("PATCH", f"{crd.url}/status", names, content_type=MERGE)[0] == 422


@pytest.mark.behaviour("findings3/NB16")
def test_a_stored_version_that_is_removed_too_early(pair: Pair, group: str) -> None:
    body = two_versions(group)
    for api in (pair.ours, pair.theirs):
        crd = Crd(api, body).establish()
    versions = copy.deepcopy(body["spec"]["versions"])
    versions[0]["storage"], versions[1]["storage"] = False, True
    pair.done("PATCH", crd.url, {"spec": {"versions": versions}}, content_type=MERGE)
    removed = {"spec": {"versions": versions[1:]}}
    assert pair.ask("PATCH", crd.url, removed, content_type=MERGE)[0] == 422
    pair.done("PATCH", f"{crd.url}/status", {"status": {"storedVersions": ["v2"]}}, content_type=MERGE)
    assert pair.ask("PATCH", crd.url, removed, content_type=MERGE)[0] == 200


@pytest.mark.behaviour("findings3/NB16")
def test_creations_while_a_crd_terminates(pair: Pair, pair_crd: Callable[..., Crd]) -> None:
    crd = pair_crd()
    held = {**crd.obj("held"), "metadata": {"name": "held", "finalizers": ["example.org/x"]}}
    pair.done("POST", crd.path(pair.namespace), held)
    for api in (pair.ours, pair.theirs):
        api.delete(crd.url).expect(200)
        eventually(lambda api=api: condition(api, crd.url, "Terminating").get("reason") == "InstanceDeletionInProgress")

        def is_refused(api: Api = api) -> bool:
            return api.post(crd.path(pair.namespace), crd.obj("x"), dryRun="All").status == 403

        eventually(is_refused)
    assert pair.ask("POST", crd.path(pair.namespace), crd.obj("x"))[0] == 403
    applied: dict[str, Any] = {"content_type": APPLY, "fieldManager": "me"}
    for more in ({"dryRun": "All"}, {}):
        assert pair.ask("PATCH", crd.path(pair.namespace, "x"), crd.obj("x"), **applied, **more)[0] == 403
    path = crd.path(pair.namespace, "held")
    assert pair.ask("PATCH", path, crd.obj("held", size=1), **applied)[0] == 200
    assert pair.ask("PATCH", path, {"spec": {"size": 2}}, content_type=MERGE)[0] == 200
    for api in (pair.ours, pair.theirs):
        api.patch(path, {"metadata": {"finalizers": None}}).expect(200)


@pytest.mark.behaviour("findings3/NB16")
def test_a_terminating_crd_without_objects_takes_new_ones(pair: Pair, group: str) -> None:
    body = crd_body(group)
    body["metadata"]["finalizers"] = ["example.org/x"]
    for api in (pair.ours, pair.theirs):
        crd = Crd(api, body).establish()
        eventually(lambda api=api, crd=crd: api.get(crd.path(pair.namespace)).status == 200)
        api.delete(crd.url).expect(200)
        eventually(lambda api=api, crd=crd: api.get(crd.url).json()["metadata"]["finalizers"] == ["example.org/x"])
        eventually(
            lambda api=api, crd=crd: api.post(crd.path(pair.namespace), crd.obj("x"), dryRun="All").status == 201
        )
    ours, wanted = (condition(api, crd.url, "Terminating") for api in (pair.ours, pair.theirs))
    assert ours == wanted
    assert (ours["status"], ours["reason"]) == ("False", "InstanceDeletionCompleted")
    for api in (pair.ours, pair.theirs):
        api.patch(crd.url, {"metadata": {"finalizers": None}}).expect(200)


@pytest.mark.behaviour("findings3/NB16")
@pytest.mark.parametrize(
    ("time", "code"),
    [
        ("2026-01-02T03:04:05Z", 201),
        ("2026-01-02T3:04:05Z", 201),
        ("2026-01-02T03:04:05.5+01:00", 201),
        ("2026-01-02t03:04:05z", 400),
        ("2026-01-02T03:04:05z", 400),
        ("2026-01-02t03:04:05Z", 400),
        ("2026-01-02 03:04:05Z", 400),
        ("2026-01-02T24:04:05Z", 400),
    ],
)
def test_times(pair: Pair, time: str, code: int) -> None:
    path = f"/api/v1/namespaces/{pair.namespace}"
    event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": pair.namespace}, "firstTimestamp": time}
    assert pair.ask("POST", f"{path}/events", event, dryRun="All")[0] == code
    created = {"metadata": {"name": "c", "creationTimestamp": time}}
    assert pair.ask("POST", f"{path}/configmaps", created, dryRun="All")[0] == code
    lease = {"metadata": {"name": "l"}, "spec": {"renewTime": time}}
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{pair.namespace}/leases"
    assert pair.ask("POST", leases, lease, dryRun="All")[0] == 400


@pytest.mark.behaviour("findings3/NB15")
@pytest.mark.parametrize("custom", [False, True])
def test_the_uid_of_a_former_object(pair: Pair, pair_crd: Callable[..., Crd], custom: bool) -> None:
    if custom:
        crd = pair_crd()
        path, body = crd.path(pair.namespace, "x"), crd.obj("x")
    else:
        path = f"/api/v1/namespaces/{pair.namespace}/configmaps/x"
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    applied: dict[str, Any] = {"content_type": APPLY, "fieldManager": "me"}
    former = {**body, "metadata": {"name": "x", "uid": "00000000-0000-0000-0000-000000000000"}}
    assert pair.ask("PATCH", path, former, **applied)[0] == 409
    pair.done("PATCH", path, body, **applied)
    for more in ({}, {"force": "true"}, {"dryRun": "All"}):
        code, failure = pair.ask("PATCH", path, former, **applied, **more)
        assert (code, failure["causes"][0]["field"]) == (422, "metadata.uid")
        assert failure["causes"][0]["message"].endswith("field is immutable")
    assert pair.ask("PATCH", path, {"metadata": former["metadata"]}, content_type=MERGE)[0] == 422
    live = pair.ours.get(path).expect(200)["metadata"]["uid"]
    own = {**body, "metadata": {"name": "x", "uid": live}}
    assert pair.ours.patch(path, own, **applied).status == 200


@pytest.mark.behaviour("findings3/NS7")
def test_columns_and_selectable_fields_are_described(pair: Pair, pair_crd: Callable[..., Crd]) -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Color", "type": "string", "jsonPath": ".spec.color", "description": "the color", "priority": 1},
    ]
    selectable = [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}]
    crd = pair_crd(additionalPrinterColumns=columns, selectableFields=selectable)
    accept = {"Accept": TABLE}
    heads = [
        api.request("GET", crd.path(pair.namespace), headers=accept).expect(200) for api in (pair.ours, pair.theirs)
    ]
    # The name's description is a text of the sandbox's own.
    assert heads[0]["columnDefinitions"][1:] == heads[1]["columnDefinitions"][1:]
    assert heads[0]["columnDefinitions"][1]["description"].endswith(": .spec.size")
    name = f"{'.'.join(reversed(crd.group.split('.')))}.v1.Widget"

    def version_3(api: Api) -> dict[str, Any]:
        answer = api.get(f"/openapi/v3/apis/{crd.group}/v1")
        return answer.json()["components"]["schemas"] if answer.status == 200 else {}

    def version_2(api: Api) -> dict[str, Any]:
        # A real server writes this document anew after each change, and has none meanwhile.
        answer = api.get("/openapi/v2")
        return answer.json()["definitions"] if answer.status == 200 and answer.body else {}

    for document in (version_3, version_2):
        for api in (pair.ours, pair.theirs):
            eventually(lambda document=document, api=api: name in document(api))
        described = [document(api)[name].get("x-kubernetes-selectable-fields") for api in (pair.ours, pair.theirs)]
        assert described[0] == described[1] == [{"fieldPath": "spec.color"}, {"fieldPath": "spec.size"}]


@pytest.mark.behaviour("findings3/NS10")
def test_discovery_and_failures_in_yaml(pair: Pair, pair_crd: Callable[..., Crd]) -> None:
    crd = pair_crd()
    base = f"/apis/{crd.group}"
    for path in ("/api", "/api/v1", "/apis", base, f"{base}/v1", crd.path(pair.namespace, "nope"), f"{base}/v9"):
        for accept in ("application/yaml", "application/json;q=0.5, application/yaml", "application/json"):
            answers = [api.request("GET", path, headers={"Accept": accept}) for api in (pair.ours, pair.theirs)]
            ours, wanted = ((answer.status, answer.headers["content-type"]) for answer in answers)
            assert ours == wanted, (path, accept)


WORDS = (
    *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package"),
    *("namespace", "return", "var", "void", "while"),
)
LITERALS = ("in", "true", "false", "null")


@pytest.mark.behaviour("findings3/NS12")
def test_rules_that_name_fields_by_reserved_words(pair: Pair, pair_crd: Callable[..., Crd]) -> None:
    fields = {name: {"type": "integer"} for name in (*WORDS, *LITERALS)}
    nested = {"type": "object", "properties": {"metadata": {"type": "object", "properties": fields}}}
    parts = {**fields, "t": {"type": "array", "maxItems": 3, "items": nested}}

    def body(rule: str) -> dict[str, Any]:
        spec = {"type": "object", "properties": parts, "x-kubernetes-validations": [{"rule": rule}]}
        return crd_body("words.example.org", schema={"type": "object", "properties": {"spec": spec}})

    for word in (*WORDS, *LITERALS):
        for form, valid in ((word, word not in LITERALS), (f"__{word}__", True)):
            for rule in (f"self.{form} > 1", f"has(self.{form})", f"self.t.all(x, x.metadata.{form} > 1)"):
                codes = [api.post(CRDS, body(rule), dryRun="All").status for api in (pair.ours, pair.theirs)]
                assert codes == [201 if valid else 422] * 2, rule
        # Without an object before it, such a word is no name.
        assert [api.post(CRDS, body(f"{word} > 1"), dryRun="All").status for api in (pair.ours, pair.theirs)] == [
            422
        ] * 2
    rules = [{"rule": f"self.{word} == self.__{word}__ && self.{word} > 1"} for word in WORDS]
    spec = {"type": "object", "properties": fields, "x-kubernetes-validations": rules}
    crd = pair_crd(schema={"type": "object", "properties": {"spec": spec}})
    good = dict.fromkeys(WORDS, 2)
    assert pair.ask("POST", crd.path(pair.namespace), crd.obj("x", **good), dryRun="All")[0] == 201
    for word in WORDS:
        code, failure = pair.ask("POST", crd.path(pair.namespace), crd.obj("x", **{**good, word: 1}), dryRun="All")
        assert (code, len(failure["causes"])) == (422, 1), word


@pytest.mark.behaviour("findings3/NS12")
def test_the_rule_of_jobset(pair: Pair, pair_crd: Callable[..., Crd]) -> None:
    """The rule of JobSet's volume claims that writes `t.metadata.namespace`."""
    rule = "self.templates.all(t, !has(t.metadata.namespace) || size(t.metadata.namespace) == 0)"
    text = {"type": "string", "maxLength": 63}
    metadata = {"type": "object", "properties": {"name": text, "namespace": text}}
    claim = {"type": "object", "properties": {"metadata": metadata}}
    spec = {
        "type": "object",
        "properties": {"templates": {"type": "array", "maxItems": 50, "items": claim}},
        "x-kubernetes-validations": [{"rule": rule, "message": "namespace cannot be set"}],
    }
    crd = pair_crd(schema={"type": "object", "properties": {"spec": spec}})
    for namespace, code in (("x", 422), ("", 201)):
        claims = [{"metadata": {"name": "a", "namespace": namespace}}]
        assert pair.ask("POST", crd.path(pair.namespace), crd.obj("x", templates=claims), dryRun="All")[0] == code
