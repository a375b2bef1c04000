"""What Kubernetes' own end-to-end tests of webhooks check that needs no pod, on the sandbox and on a real server.

The webhooks of upstream's test image are functions here, and listen on loopback.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.tests.conftest import Crd, crd_body
from tests.support.admission_rig import GROUP, config_map
from tests.support.http_client import MERGE, Api
from tests.support.objects import container, core
from tests.support.waiting import eventually
from tests.support.webhook_server import (
    ALLOWED,
    Respond,
    WebhookServer,
    configuration,
    denial,
    patches,
    webhook,
    webhook_server,
)

pytestmark = pytest.mark.behaviour("webhooks/WH26")
_serial = itertools.count(1)
FORBIDDEN = denial(code=403, reason="Forbidden", message="this is not allowed")


class Rig:
    """One server with webhooks for one namespace."""

    def __init__(self, api: Api, namespace: str, webhooks: WebhookServer) -> None:
        self.api, self.namespace, self.webhooks = api, namespace, webhooks
        self._configurations: list[str] = []

    def add(self, sort: str, *hooks: tuple[Respond, dict[str, Any]], **more: Any) -> str:
        """Register webhooks for the namespace, and return the path of their configuration once they are called."""
        name, marker = f"upstream-{next(_serial)}", f"marker-{next(_serial)}"
        selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}}
        specs = []
        for index, (respond, rule) in enumerate(hooks):
            path = f"/{name}/{index}"
            self.webhooks.webhooks[path] = respond
            client = self.webhooks.client_config(path)
            specs.append(webhook(f"h{index}.{name}.test", client, rule, **{**selector, **more}))
        self.webhooks.webhooks[f"/{name}/marker"] = denial(message="ready")
        ready = webhook(f"z.{name}.test", self.webhooks.client_config(f"/{name}/marker"), rule_of("configmaps"))
        ready |= {**selector, "objectSelector": {"matchLabels": {"marker": marker}}}
        url = f"{GROUP}/{sort.lower()}webhookconfigurations"
        self.api.post(url, configuration(name, *specs, ready, sort=sort)).expect(201)
        self._configurations.append(f"{url}/{name}")
        probe = config_map("marker")
        probe["metadata"]["labels"] = {"marker": marker}
        eventually(lambda: self.api.post(self.path("configmaps"), probe, dryRun="All").status != 201, 30)
        return f"{url}/{name}"

    def path(self, resource: str, name: str = "") -> str:
        return core(self.namespace, resource, name)

    def close(self) -> None:
        for path in self._configurations:
            self.api.delete(path)


def rule_of(*resources: str, group: str = "", **more: Any) -> dict[str, Any]:
    return {"apiGroups": [group], "apiVersions": ["*"], "operations": ["*"], "resources": list(resources), **more}


@pytest.fixture
def rig(each_api: Api, namespace: str, tmp_path: Path) -> Iterator[Rig]:
    with webhook_server(tmp_path / "tls") as webhooks:
        rig = Rig(each_api, namespace, webhooks)
        yield rig
        rig.close()


def test_webhook_resources_are_in_the_discovery_documents(each_api: Api) -> None:
    groups = {group["name"]: group for group in each_api.get("/apis").json()["groups"]}
    assert groups["admissionregistration.k8s.io"]["preferredVersion"]["version"] == "v1"
    resources = {entry["name"] for entry in each_api.get(GROUP).json()["resources"]}
    assert {"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} <= resources


def test_pods_and_config_maps_are_denied(rig: Rig) -> None:
    def pods(review: dict[str, Any]) -> dict[str, Any]:
        if review["request"]["object"]["metadata"]["name"] == "disallowed-pod":
            return FORBIDDEN(review)  # type: ignore[return-value]
        return ALLOWED

    def data(review: dict[str, Any]) -> dict[str, Any]:
        allowed = "webhook-disallow" not in ((review["request"]["object"] or {}).get("data") or {}).values()
        return {"allowed": allowed, "status": {"reason": "the configmap contains unwanted key and value"}}

    rig.add("Validating", (pods, rule_of("pods")), (data, rule_of("configmaps")))
    pod = {"metadata": {"name": "disallowed-pod"}, "spec": {"containers": [container()]}}
    answer = rig.api.post(rig.path("pods"), pod).fails(403, "Forbidden")
    assert answer["message"].endswith("denied the request: this is not allowed")
    bad = config_map("bad", key="webhook-disallow")
    answer = rig.api.post(rig.path("configmaps"), bad).fails(400)
    assert "the configmap contains unwanted key and value" in answer["message"]
    rig.api.post(rig.path("configmaps"), config_map("good", key="fine")).expect(201)
    rig.api.put(rig.path("configmaps", "good"), config_map("good", key="webhook-disallow")).fails(400)
    change = {"data": {"other": "webhook-disallow"}}
    rig.api.patch(rig.path("configmaps", "good"), change, content_type=MERGE).fails(400)
    assert rig.api.get(rig.path("configmaps", "good")).expect(200)["data"] == {"key": "fine"}


def test_custom_resources_are_denied_at_each_operation(rig: Rig, each_crd: Callable[..., Crd]) -> None:
    crd = each_crd()

    def respond(review: dict[str, Any]) -> dict[str, Any]:
        request = review["request"]
        obj = request["object"] or request["oldObject"]
        color = obj["spec"].get("color")
        denied = color == "webhook-disallow" or (request["operation"] == "DELETE" and color == "webhook-nondeletable")
        return {"allowed": not denied, "status": {"message": "the custom resource contains unwanted data"}}

    rig.add("Validating", (respond, rule_of(crd.plural, group=crd.group)))
    path = crd.path(rig.namespace)
    answer = rig.api.post(path, crd.obj("bad", color="webhook-disallow")).fails(400)
    assert "the custom resource contains unwanted data" in answer["message"]
    rig.api.post(path, crd.obj("kept", color="webhook-nondeletable")).expect(201)
    one = crd.path(rig.namespace, "kept")
    rig.api.patch(one, {"spec": {"color": "webhook-disallow"}}).fails(400)
    rig.api.delete(one).fails(400)
    rig.api.patch(one, {"spec": {"color": "any"}}).expect(200)
    rig.api.delete(one).expect(200)


def test_a_webhook_that_cannot_be_reached_refuses_everything(rig: Rig) -> None:
    nowhere = {"clientConfig": {"url": "https://127.0.0.1:1/x"}, "objectSelector": {"matchLabels": {"closed": "yes"}}}
    rig.add("Validating", (lambda _review: ALLOWED, rule_of("configmaps")), **nowhere)
    closed = config_map("closed")
    closed["metadata"]["labels"] = {"closed": "yes"}
    answer = rig.api.post(rig.path("configmaps"), closed).fails(500, "InternalError")
    assert "failed calling webhook" in answer["message"]


def stage(number: int) -> Respond:
    """Return a mutating webhook that adds its stage, if the stage before is there."""

    def respond(review: dict[str, Any]) -> Any:
        before = "mutation-start" if number == 1 else f"mutation-stage-{number - 1}"
        data = (review["request"]["object"] or {}).get("data") or {}
        if data.get(before) != "yes":
            return ALLOWED
        return patches({"op": "add", "path": f"/data/mutation-stage-{number}", "value": "yes"})(review)

    return respond


def test_config_maps_are_mutated_in_stages(rig: Rig) -> None:
    rule = rule_of("configmaps")
    rig.add("Mutating", (stage(1), rule), (stage(2), rule))
    stored = rig.api.post(rig.path("configmaps"), config_map("m", **{"mutation-start": "yes"})).expect(201)
    assert stored["data"] == {"mutation-start": "yes", "mutation-stage-1": "yes", "mutation-stage-2": "yes"}


def test_a_mutated_pod_gets_the_defaults_of_what_was_added(rig: Rig) -> None:
    added = {"name": "webhook-added-init-container", "image": "webhook-added-image", "resources": {}}
    rig.add("Mutating", (patches({"op": "add", "path": "/spec/initContainers", "value": [added]}), rule_of("pods")))
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container()], "serviceAccountName": "default"}}
    (initial,) = rig.api.post(rig.path("pods"), pod, dryRun="All").expect(201)["spec"]["initContainers"]
    assert initial["name"] == added["name"]
    assert initial["terminationMessagePolicy"] == "File"
    assert initial["terminationMessagePath"] == "/dev/termination-log"


def test_webhook_configurations_are_neither_mutated_nor_kept_from_deletion(rig: Rig) -> None:
    rule = rule_of("*", group="admissionregistration.k8s.io")
    everywhere = {"namespaceSelector": {}}
    label = patches({"op": "add", "path": "/metadata/labels", "value": {"added": "yes"}})
    rig.add("Validating", (FORBIDDEN, rule), **everywhere)
    rig.add("Mutating", (label, rule), **everywhere)
    path = f"{GROUP}/validatingwebhookconfigurations"
    name = f"dummy-{next(_serial)}"
    hook = webhook("a.dummy.test", {"url": "https://127.0.0.1:1/x"}, rule_of("invalid"), failurePolicy="Ignore")
    stored = rig.api.post(path, configuration(name, hook)).expect(201)
    assert "labels" not in stored["metadata"]
    rig.api.delete(f"{path}/{name}").expect(200)


def crd_with_data(each_crd: Callable[..., Crd], *fields: str) -> Crd:
    """Return a kind with `data`, which has these fields, or any without them."""
    data: dict[str, Any] = {"type": "object", "properties": {name: {"type": "string"} for name in fields}}
    if not fields:
        data = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return each_crd(schema={"type": "object", "properties": {"data": data}})


@pytest.mark.parametrize("pruned", [False, True])
def test_custom_resources_are_mutated_and_pruned(rig: Rig, each_crd: Callable[..., Crd], *, pruned: bool) -> None:
    crd = crd_with_data(each_crd, *(("mutation-start", "mutation-stage-1") if pruned else ()))
    rule = rule_of(crd.plural, group=crd.group)
    rig.add("Mutating", (stage(1), rule), (stage(2), rule))
    body = {**crd.obj("c"), "data": {"mutation-start": "yes"}}
    stored = rig.api.post(crd.path(rig.namespace), body).expect(201)["data"]
    rest = {} if pruned else {"mutation-stage-2": "yes"}
    assert stored == {"mutation-start": "yes", "mutation-stage-1": "yes", **rest}


def test_a_crd_is_denied(rig: Rig, group: str) -> None:

    selector = {"namespaceSelector": {}, "objectSelector": {"matchLabels": {"deny": group.partition(".")[0]}}}
    rule = rule_of("customresourcedefinitions", group="apiextensions.k8s.io")
    rig.add("Validating", (denial(message="the crd contains unwanted label"), rule), **selector)
    body = crd_body(group)
    body["metadata"]["labels"] = {"deny": group.partition(".")[0]}
    answer = rig.api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body).fails(400)
    assert "the crd contains unwanted label" in answer["message"]


def test_a_custom_resource_is_mutated_while_its_storage_version_changes(rig: Rig, each_crd: Callable[..., Crd]) -> None:
    crd = crd_with_data(each_crd)
    rule = rule_of(crd.plural, group=crd.group)
    rig.add("Mutating", (stage(1), rule), (stage(2), rule))
    rig.api.post(crd.path(rig.namespace), {**crd.obj("c"), "data": {"mutation-start": "yes"}}).expect(201)
    body = rig.api.get(crd.url).json()
    first = body["spec"]["versions"][0]
    body["spec"]["versions"] = [{**first, "storage": False}, {**first, "name": "v2", "storage": True}]
    rig.api.put(crd.url, body).expect(200)
    path = crd.path(rig.namespace, "c", "v2")
    change = {"data": {"dummy": "test"}}
    eventually(lambda: rig.api.patch(path, change, content_type=MERGE).status == 200, 30)
    assert rig.api.get(path).expect(200)["data"] == {
        "mutation-start": "yes",
        "mutation-stage-1": "yes",
        "mutation-stage-2": "yes",
        "dummy": "test",
    }


def test_time_outs_are_honoured(rig: Rig) -> None:
    rule = rule_of("configmaps")
    selector = {"objectSelector": {"matchLabels": {"slow": "yes"}}}
    slow = config_map("slow")
    slow["metadata"]["labels"] = {"slow": "yes"}
    first = rig.add("Validating", (rig.webhooks.hangs, rule), timeoutSeconds=1, **selector)
    answer = rig.api.post(rig.path("configmaps"), slow).fails(500, "InternalError")
    assert "context deadline exceeded" in answer["message"] or "request canceled" in answer["message"]
    rig.api.delete(first).expect(200)
    rig.add("Validating", (rig.webhooks.hangs, rule), timeoutSeconds=1, failurePolicy="Ignore", **selector)
    eventually(lambda: rig.api.post(rig.path("configmaps"), slow, dryRun="All").status == 201, 30)


@pytest.mark.parametrize("sort", ["Validating", "Mutating"])
def test_rules_that_are_changed_count_from_then_on(rig: Rig, sort: str) -> None:
    respond = FORBIDDEN if sort == "Validating" else stage(1)
    path = rig.add(sort, (respond, rule_of("configmaps")))
    body = config_map("c", **{"mutation-start": "yes"})

    def acts() -> bool:
        answer = rig.api.post(rig.path("configmaps"), body, dryRun="All")
        return answer.status == 403 or "mutation-stage-1" in answer.json()["data"]

    eventually(acts)
    for operations, wanted in ((["UPDATE"], False), (["CREATE"], True)):
        change = [{"op": "replace", "path": "/webhooks/0/rules/0/operations", "value": operations}]
        rig.api.patch(path, change, content_type="application/json-patch+json").expect(200)
        eventually(lambda wanted=wanted: acts() is wanted, 30)
    listed = rig.api.get(path.rpartition("/")[0]).expect(200)["items"]
    assert path.rpartition("/")[2] in {item["metadata"]["name"] for item in listed}


@pytest.mark.parametrize("sort", ["Validating", "Mutating"])
def test_match_conditions_are_stored_and_have_to_compile(rig: Rig, sort: str) -> None:
    path = f"{GROUP}/{sort.lower()}webhookconfigurations"
    conditions = [{"name": "a", "expression": "object.metadata.name != 'x'"}]
    name = f"conditions-{next(_serial)}"
    hook = webhook(
        "a.conditions.test", {"url": "https://127.0.0.1:1/x"}, rule_of("invalid"), matchConditions=conditions
    )
    stored = rig.api.post(path, configuration(name, hook, sort=sort)).expect(201)
    assert stored["webhooks"][0]["matchConditions"] == conditions
    changed = [{**conditions[0], "expression": "true"}]
    change = [{"op": "replace", "path": "/webhooks/0/matchConditions", "value": changed}]
    stored = rig.api.patch(f"{path}/{name}", change, content_type="application/json-patch+json").expect(200)
    assert stored["webhooks"][0]["matchConditions"] == changed
    rig.api.delete(f"{path}/{name}").expect(200)
    hook["matchConditions"] = [{"name": "a", "expression": "... [] bad expression"}]
    answer = rig.api.post(path, configuration(name, hook, sort=sort)).fails(422, "Invalid")
    assert "compilation failed" in answer["message"]


def test_everything_is_mutated_but_what_a_condition_skips(rig: Rig) -> None:
    skip = {"matchConditions": [{"name": "skip-me", "expression": "object.metadata.name != 'skip-me'"}]}
    rig.add("Mutating", (stage(1), rule_of("configmaps")), **skip)
    body = {"mutation-start": "yes"}
    assert rig.api.post(rig.path("configmaps"), config_map("skip-me", **body)).expect(201)["data"] == body
    mutated = {**body, "mutation-stage-1": "yes"}
    assert rig.api.post(rig.path("configmaps"), config_map("other", **body)).expect(201)["data"] == mutated
