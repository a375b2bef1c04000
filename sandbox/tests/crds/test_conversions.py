"""Conversion webhooks: objects of a CRD in two versions, on the sandbox and on a real kube-apiserver."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.tests.conftest import Crd, crd_body
from tests.support.compared import Pair
from tests.support.http_client import APPLY, MERGE, Api
from tests.support.waiting import eventually
from tests.support.webhook_server import (
    ALLOWED,
    Respond,
    WebhookServer,
    configuration,
    patches,
    webhook,
    webhook_server,
)

NAMES = {"v1": "size", "v2": "amount"}


@pytest.fixture
def webhooks(tmp_path: Path) -> Iterator[WebhookServer]:
    with webhook_server(tmp_path / "tls") as server:
        server.webhooks["/convert"] = converts()
        yield server


def converts(change: Callable[[dict[str, Any]], None] = lambda _obj: None) -> Respond:
    """Return a webhook that renames the field of the other version, and then changes each object."""

    def respond(review: dict[str, Any]) -> dict[str, Any]:
        objects = copy.deepcopy(review["request"]["objects"])
        for obj in objects:
            obj["apiVersion"] = review["request"]["desiredAPIVersion"]
            wanted = NAMES[obj["apiVersion"].rpartition("/")[2]]
            spec = obj.get("spec") or {}
            for name in NAMES.values():
                if name in spec:
                    spec[wanted] = spec.pop(name)
            obj["metadata"].setdefault("annotations", {})["converted"] = wanted
            change(obj)
        return {"convertedObjects": objects, "result": {"status": "Success"}}

    return respond


def two_versions(webhooks: WebhookServer, body: dict[str, Any]) -> None:
    """Make a CRD one of two versions with a conversion webhook."""
    first = body["spec"]["versions"][0]
    second = {**copy.deepcopy(first), "name": "v2", "storage": False}
    for version in (first, second):
        spec = {"type": "object", "properties": {NAMES[version["name"]]: {"type": "integer"}}}
        version["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec
    body["spec"]["versions"] = [first, second]
    client = webhooks.client_config("/convert")
    hook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    body["spec"]["conversion"] = {"strategy": "Webhook", "webhook": hook}


def establish(api: Api, group: str, namespace: str, webhooks: WebhookServer) -> Crd:
    """Make a CRD of two versions, and wait until both are served."""
    body = crd_body(group)
    two_versions(webhooks, body)
    crd = Crd(api, body).establish()
    for version in NAMES:
        eventually(lambda version=version: api.get(crd.path(namespace, "", version)).status == 200)
    return crd


def store_the_second(api: Api, crd: Crd) -> dict[str, Any]:
    """Make the second version the stored one, and return the CRD."""
    body = api.get(crd.url).json()
    for version in body["spec"]["versions"]:
        version["storage"] = version["name"] == "v2"
    stored: dict[str, Any] = api.put(crd.url, body).expect(200)
    return stored


def spec_of(obj: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return obj["apiVersion"].rpartition("/")[2], obj["spec"]


def test_objects_are_converted_wherever_they_are_read_and_written(
    each_api: Api, namespace: str, group: str, webhooks: WebhookServer
) -> None:
    crd = establish(each_api, group, namespace, webhooks)
    created = each_api.post(crd.path(namespace), crd.obj(size=1)).expect(201)
    assert "converted" not in created["metadata"].get("annotations", {})
    path = crd.path(namespace, "a", "v2")
    other = each_api.get(path).expect(200)
    assert spec_of(other) == ("v2", {"amount": 1})
    assert other["metadata"]["annotations"]["converted"] == "amount"
    assert {name: other["metadata"][name] for name in ("uid", "resourceVersion")} == {
        name: created["metadata"][name] for name in ("uid", "resourceVersion")
    }
    listed = each_api.get(crd.path(namespace, "", "v2")).expect(200)["items"]
    assert [spec_of(obj) for obj in listed] == [("v2", {"amount": 1})]
    events = each_api.watch(crd.path(namespace, "", "v2"), resourceVersion=created["metadata"]["resourceVersion"])
    assert each_api.patch(path, {"spec": {"amount": 2}}, content_type=MERGE).expect(200)["spec"] == {"amount": 2}
    assert each_api.get(crd.path(namespace, "a")).expect(200)["spec"] == {"size": 2}
    each_api.patch(crd.path(namespace, "a"), {"spec": {"size": 3}}, content_type=MERGE).expect(200)
    each_api.patch(crd.path(namespace, "a", "v2") + "/status", {"status": {"x": 1}}, content_type=MERGE).expect(200)
    changes = events.take(3)
    assert [spec_of(event["object"])[1] for event in changes] == [{"amount": 2}, {"amount": 3}, {"amount": 3}]
    assert changes[2]["object"]["status"] == {"x": 1}
    applied = {**crd.obj("b", amount=5), "apiVersion": f"{group}/v2"}
    second = crd.path(namespace, "b", "v2")
    each_api.patch(second, applied, content_type=APPLY, fieldManager="me").expect(201)
    assert each_api.get(crd.path(namespace, "b")).expect(200)["spec"] == {"size": 5}
    replaced = each_api.get(second).expect(200)
    replaced["spec"]["amount"] = 6
    assert each_api.put(second, replaced).expect(200)["spec"] == {"amount": 6}
    initial = each_api.watch(crd.path(namespace, "", "v2")).take(2)
    assert [spec_of(event["object"])[1] for event in initial] == [{"amount": 3}, {"amount": 6}]
    each_api.delete(second).expect(200)
    assert each_api.get(crd.path(namespace, "b")).status == 404


def test_the_storage_version_moves_by_writing_each_object(
    each_api: Api, namespace: str, group: str, webhooks: WebhookServer
) -> None:
    crd = establish(each_api, group, namespace, webhooks)
    each_api.post(crd.path(namespace), crd.obj(size=1)).expect(201)
    assert store_the_second(each_api, crd)["status"]["storedVersions"] == ["v1", "v2"]
    path = crd.path(namespace, "a", "v2")
    # The new storage is not served at once on a real server.
    eventually(lambda: each_api.get(path).status == 200)
    eventually(lambda: each_api.put(path, each_api.get(path).json()).status == 200)
    webhooks.calls.clear()
    assert spec_of(each_api.get(path).expect(200)) == ("v2", {"amount": 1})
    assert spec_of(each_api.get(crd.path(namespace, "a")).expect(200)) == ("v1", {"size": 1})
    # It is stored in the second version, so that only the first one is converted to.
    assert {review["desiredAPIVersion"] for review in webhooks.reviews("/convert")} <= {f"{group}/v1"}


@pytest.mark.behaviour("webhooks/WH26")
def test_a_list_of_objects_that_are_stored_in_two_versions(
    each_api: Api, namespace: str, group: str, webhooks: WebhookServer
) -> None:
    crd = establish(each_api, group, namespace, webhooks)
    each_api.post(crd.path(namespace), crd.obj("one", size=1)).expect(201)
    store_the_second(each_api, crd)
    second = {**crd.obj("two", amount=2), "apiVersion": f"{group}/v2"}
    eventually(lambda: each_api.post(crd.path(namespace, "", "v2"), second).status in (201, 409))
    for version, name in NAMES.items():
        path = crd.path(namespace, "", version)
        eventually(lambda path=path: each_api.get(path).status == 200)
        listed = each_api.get(path).expect(200)["items"]
        assert [spec_of(obj) for obj in listed] == [(version, {name: 1}), (version, {name: 2})]


def renamed(obj: dict[str, Any]) -> None:
    obj["metadata"]["name"] = "other"


def of_another_kind(obj: dict[str, Any]) -> None:
    obj["kind"] = "Other"


def of_another_version(obj: dict[str, Any]) -> None:
    obj["apiVersion"] = "example.com/v7"


def without_metadata(obj: dict[str, Any]) -> None:
    del obj["metadata"]


FAILURES: dict[str, Respond] = {
    "refused": lambda _review: {"result": {"status": "Failure", "message": "size is odd"}},
    "refused without a message": lambda _review: {"result": {"status": "Failure"}},
    "no result": lambda review: {"convertedObjects": review["request"]["objects"]},
    "too few": lambda _review: {"convertedObjects": [], "result": {"status": "Success"}},
    "another name": converts(renamed),
    "another kind": converts(of_another_kind),
    "another version": converts(of_another_version),
    "no metadata": converts(without_metadata),
    "another uid": lambda _review: {"uid": "other", "result": {"status": "Success"}},
    "an error of the server": lambda _review: (500, b"broken", "text/plain"),
    "no JSON": lambda _review: (200, b"{}", "application/json"),
}


def test_a_conversion_that_fails_says_why_in_the_same_words(pair: Pair, group: str, webhooks: WebhookServer) -> None:
    crds = [establish(api, group, pair.namespace, webhooks) for api in (pair.ours, pair.theirs)]
    pair.done("POST", crds[0].path(pair.namespace), crds[0].obj(size=1))
    path = crds[0].path(pair.namespace, "a", "v2")
    for name, respond in FAILURES.items():
        webhooks.webhooks["/convert"] = respond
        code, failure = pair.ask("GET", path)
        assert code == 500, name
        assert f"conversion webhook for {group}/v1, Kind=Widget" in failure["message"], name
    webhooks.webhooks["/convert"] = converts()
    assert pair.done("GET", path)[0]["spec"] == {"amount": 1}


def test_a_list_is_one_review(api: Api, ns: str, make_crd: Callable[..., Crd], webhooks: WebhookServer) -> None:
    crd = make_crd()
    two_versions(webhooks, crd.body)
    crd.establish()
    for index in range(100):
        api.post(crd.path(ns), crd.obj(f"w-{index:03}", size=index)).expect(201)
    webhooks.calls.clear()
    listed = api.get(crd.path(ns, "", "v2")).expect(200)["items"]
    assert [obj["spec"]["amount"] for obj in listed] == list(range(100))
    assert [len(review["objects"]) for review in webhooks.reviews("/convert")] == [100]
    page = api.get(crd.path(ns, "", "v2"), limit=10).expect(200)
    assert len(page["items"]) == 10
    assert len(webhooks.reviews("/convert")[1]["objects"]) == 10


def test_a_watch_ends_with_the_error_of_a_conversion(
    api: Api, ns: str, make_crd: Callable[..., Crd], webhooks: WebhookServer
) -> None:
    crd = make_crd()
    two_versions(webhooks, crd.body)
    crd.establish()
    created = api.post(crd.path(ns), crd.obj(size=1)).expect(201)
    events = api.watch(crd.path(ns, "", "v2"), resourceVersion=created["metadata"]["resourceVersion"])
    webhooks.webhooks["/convert"] = FAILURES["refused"]
    api.patch(crd.path(ns, "a"), {"spec": {"size": 2}}).expect(200)
    (event,) = events.rest()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 500)
    assert "size is odd" in event["object"]["message"]


def test_events_stay_in_order_while_conversions_wait(
    api: Api, ns: str, make_crd: Callable[..., Crd], webhooks: WebhookServer
) -> None:
    crd = make_crd()
    two_versions(webhooks, crd.body)
    crd.establish()
    api.post(crd.path(ns), crd.obj("w", size=0)).expect(201)
    events = api.watch(crd.path(ns, "", "v2"), allowWatchBookmarks="true")
    for size in range(1, 30):
        api.patch(crd.path(ns, "w"), {"spec": {"size": size}}).expect(200)
    seen = [event["object"] for event in events.take(30) if event["type"] != "BOOKMARK"]
    versions = [int(obj["metadata"]["resourceVersion"]) for obj in seen]
    assert versions == sorted(versions)
    assert seen[-1]["spec"]["amount"] in range(30)


@pytest.mark.behaviour("webhooks/WH27")
def test_admission_webhooks_see_the_version_of_their_rules(
    each_api: Api, namespace: str, group: str, webhooks: WebhookServer
) -> None:
    crd = establish(each_api, group, namespace, webhooks)
    webhooks.webhooks["/mutate"] = patches({"op": "replace", "path": "/spec/size", "value": 7})
    webhooks.webhooks["/validate"] = lambda _review: ALLOWED
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["*"], "resources": [crd.plural]}
    urls = []
    for sort, path in (("Mutating", "/mutate"), ("Validating", "/validate")):
        entry = webhook(f"{sort.lower()}.{group}", webhooks.client_config(path), rule)
        url = f"/apis/admissionregistration.k8s.io/v1/{sort.lower()}webhookconfigurations"
        each_api.post(url, configuration(group, entry, sort=sort)).expect(201)
        urls.append(f"{url}/{group}")
    second = {**crd.obj(amount=1), "apiVersion": f"{group}/v2"}
    try:
        trying = {"dryRun": "All"}
        eventually(
            lambda: (
                each_api.post(crd.path(namespace, "", "v2"), second, **trying).json().get("spec") == {"amount": 7}
                and webhooks.reviews("/validate")
            )
        )
        created = each_api.post(crd.path(namespace, "", "v2"), second).expect(201)
        assert spec_of(created) == ("v2", {"amount": 7})
        assert spec_of(each_api.get(crd.path(namespace, "a")).expect(200)) == ("v1", {"size": 7})
        for path, size in (("/mutate", 1), ("/validate", 7)):
            review = webhooks.reviews(path)[-1]
            assert spec_of(review["object"]) == ("v1", {"size": size})
            assert (review["kind"]["version"], review["requestKind"]["version"]) == ("v1", "v2")
    finally:
        for url in urls:
            each_api.delete(url).expect(200)
