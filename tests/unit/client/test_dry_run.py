"""The transport of a dry run on a scripted server: what reaches it, what is logged, and what the writer gets."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from ctrlhost import ApiError, AsyncClient, Client, Conflict, TransportError
from ctrlhost.client.dry_run import DryRunTransport
from ctrlhost.client.written_path import WrittenPath
from tests.support.stub_api_server import Failure, Json, StubApiServer

MAPS, SECRETS = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/secrets"
THINGS = "/apis/agg.test/v1/namespaces/default/things"


def openapi(*resources: str, version: str = "/api/v1", dry: bool = True) -> Json:
    """Return a document with the usual operations of some resources."""
    parameters = [{"name": "pretty", "in": "query"}, *([{"name": "dryRun", "in": "query"}] if dry else [])]
    operation = {"parameters": parameters}
    paths = {}
    for resource in resources:
        below = f"{version}/namespaces/{{namespace}}/{resource}"
        paths[below] = {"get": {}, "post": operation, "delete": operation}
        for path in (f"{below}/{{name}}", f"{below}/{{name}}/status"):
            paths[path] = {"get": {}, "put": operation, "patch": operation, "delete": operation}
    return Json({"openapi": "3.0.0", "paths": paths})


def config_map(name: str = "web", **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": "u", "resourceVersion": "5"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


@pytest.fixture
def cache() -> dict[tuple[str, str], dict[str, Any]]:
    """Cached objects by plural and name."""
    return {}


@pytest.fixture
def client(server: StubApiServer, cache: Any, caplog: pytest.LogCaptureFixture) -> Iterator[Client]:
    caplog.set_level(logging.INFO, "ctrlhost.dry_run")
    server.on("GET", "/openapi/v3/api/v1", openapi("configmaps", "secrets"))
    plain = Client(server.url)

    def cached(path: WrittenPath) -> Any:
        return cache.get((path.plural, path.name))

    yield plain.derive(transport=DryRunTransport(plain.transport, cached))
    plain.close()


def test_retries_are_counted_as_without_a_dry_run(server: StubApiServer, client: Client) -> None:
    server.on("POST", MAPS, Failure(429, "TooManyRequests", retry_after=0), Json(config_map(), 201))
    client.create(config_map())
    assert client.metrics is not None
    counted = {
        (sample.labels["verb"], sample.labels["code"]): sample.value
        for family in client.metrics.collect()
        for sample in family.samples
        if sample.name == "rest_client_request_retries_total"
    }
    assert counted == {("POST", "429"): 1}


def writes(server: StubApiServer) -> list[Any]:
    return [request for request in server.requests if request.method != "GET"]


def test_the_server_tries_an_update_and_the_difference_is_logged_once(
    client: Client, server: StubApiServer, cache: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cache["configmaps", "web"] = config_map(a="1", b="2")
    server.on("PUT", f"{MAPS}/web", Json(config_map(a="3", b="2")))
    for _ in range(3):
        assert client.replace(config_map(a="3", b="2"))["data"] == {"a": "3", "b": "2"}
    assert caplog.messages == ['dry run: would update ConfigMap default/web: data.a: "1" -> "3"']
    assert [write.query["dryRun"] for write in writes(server)] == ["All"] * 3
    server.on("PUT", f"{MAPS}/web", Json(config_map(a="4", b="2")))
    client.replace(config_map(a="4", b="2"))
    assert caplog.messages[1:] == ['dry run: would update ConfigMap default/web: data.a: "1" -> "4"']
    assert client.dry_run
    assert not Client(server.url).dry_run
    assert len([request for request in server.requests if request.path == "/openapi/v3/api/v1"]) == 1


def test_what_no_cache_has_is_read_from_the_server(
    client: Client, server: StubApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.on("GET", f"{MAPS}/web", Json(config_map(a="1")))
    server.on("PATCH", f"{MAPS}/web", Json(config_map(a="2")))
    server.on("PATCH", f"{MAPS}/web/status", Json(config_map(a="1")))
    client.patch("v1", "ConfigMap", "web", "default", {"data": {"a": "2"}})
    client.patch("v1", "ConfigMap", "web", "default", {"status": {}}, subresource="status")
    server.on("GET", f"{MAPS}/web", Failure(403, "Forbidden"))
    server.on("PATCH", f"{MAPS}/web", Json(config_map(a="3")))
    client.patch("v1", "ConfigMap", "web", "default", {"data": {"a": "3"}})
    assert caplog.messages == [
        'dry run: would update ConfigMap default/web: data.a: "1" -> "2"',
        "dry run: would update ConfigMap default/web (status): nothing",
        'dry run: would update ConfigMap default/web: data.a: "3"',
    ]


def test_creations_and_deletions_are_tried(
    client: Client, server: StubApiServer, cache: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cache["configmaps", "old"] = config_map("old")
    server.on("POST", MAPS, Json(config_map("new", a="1"), 201))
    server.on("PATCH", f"{MAPS}/applied", Json(config_map("applied", a="1"), 201))
    server.on("GET", f"{MAPS}/applied", Failure(404, "NotFound"))
    server.on("DELETE", f"{MAPS}/old", Json({"kind": "Status", "status": "Success", "details": {"uid": "u"}}))
    server.on("DELETE", MAPS, Json({"kind": "Status", "status": "Success"}))
    client.create({**config_map("new", a="1"), "metadata": {"name": "new", "namespace": "default"}})
    client.apply(config_map("applied", a="1"))
    client.delete("v1", "ConfigMap", "old", "default", propagation="Foreground")
    client.delete_collection("v1", "ConfigMap", "default", label_selector="app=web")
    assert caplog.messages == [
        'dry run: would create ConfigMap default/new: data.a: "1"',
        'dry run: would create ConfigMap default/applied: data.a: "1"',
        "dry run: would delete ConfigMap default/old",
        "dry run: would delete all configmaps in default that match app=web",
    ]
    # The server ignores the query of a deletion that has a body.
    bodies = [json.loads(write.body) for write in writes(server) if write.method == "DELETE"]
    assert bodies == [
        {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground", "dryRun": ["All"]},
        {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]},
    ]


def test_a_write_that_the_server_rejects_fails_as_usual(
    client: Client, server: StubApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.on("PUT", f"{MAPS}/web", Failure(409, "Conflict"))
    with pytest.raises(Conflict):
        client.replace(config_map())
    assert not caplog.messages


@pytest.mark.behaviour("operations/OP138")
def test_what_an_aggregated_api_cannot_try_is_not_sent(
    client: Client, server: StubApiServer, cache: Any, caplog: pytest.LogCaptureFixture
) -> None:
    listed = {"name": "things", "kind": "Thing", "namespaced": True, "verbs": []}
    server.on("GET", "/apis/agg.test/v1", Json({"kind": "APIResourceList", "resources": [listed]}))
    server.on("GET", "/openapi/v3/apis/agg.test/v1", openapi("things", version="/apis/agg.test/v1", dry=False))
    thing = {"apiVersion": "agg.test/v1", "kind": "Thing", "metadata": {"name": "a", "namespace": "default"}}
    cache["things", "a"] = {**thing, "spec": {"size": 1, "left": True}}
    why = "(not sent: the server's API does not offer dry runs of it)"
    assert client.create({**thing, "spec": {"size": 2}})["spec"] == {"size": 2}
    assert client.replace({**thing, "spec": {"size": 2}})["spec"] == {"size": 2}
    patched = client.patch("agg.test/v1", "Thing", "a", "default", {"spec": {"size": 3, "left": None}})
    assert patched == {**thing, "spec": {"size": 3}}
    operations = [{"op": "remove", "path": "/spec/left"}]
    client.patch("agg.test/v1", "Thing", "a", "default", operations, type="json")
    assert client.delete("agg.test/v1", "Thing", "a", "default")["status"] == "Success"
    assert asyncio.run(AsyncClient(client).create({**thing, "spec": {"size": 4}}))["spec"] == {"size": 4}
    assert caplog.messages == [
        f"dry run: would create Thing default/a {why}: spec.size: 2",
        f"dry run: would update Thing default/a {why}: spec.size: 1 -> 2; spec.left: true -> (none)",
        f"dry run: would update Thing default/a {why}: spec.size: 1 -> 3; spec.left: true -> (none)",
        f'dry run: would update Thing default/a {why}: [{{"op":"remove","path":"/spec/left"}}]',
        f"dry run: would delete Thing default/a {why}",
        f"dry run: would create Thing default/a {why}: spec.size: 4",
    ]
    assert writes(server) == []


@pytest.mark.behaviour("operations/OP138")
def test_without_a_document_nothing_is_sent(
    client: Client, server: StubApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.on("GET", "/openapi/v3/api/v1", Failure(403, "Forbidden"))
    client.create(config_map())
    assert "(not sent: " in caplog.text
    server.on("GET", "/openapi/v3/apis/apps/v1", Failure(503, "ServiceUnavailable"))
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "default"}}
    with pytest.raises(ApiError, match="503"):
        client.create(deployment)
    server.on("GET", "/openapi/v3/apis/apps/v1", Json(["no", "document"]))
    with pytest.raises(TransportError, match="not an OpenAPI document"):
        client.create(deployment)
    # Neither an object nor a collection.
    client.transport.request("POST", "/unknown/path", body=b'{"password": "s3cr3t"}')
    assert "would create /unknown/path (not sent: " in caplog.text
    assert "s3cr3t" not in caplog.text
    assert writes(server) == []


@pytest.mark.behaviour("operations/OP139")
@pytest.mark.parametrize(
    "message",
    [
        'admission webhook "a.b" does not support dry run',
        'admission webhook "a.b" denied the request: I have side effects, so no dryRun',
    ],
)
def test_a_webhook_that_refuses_dry_runs_counts_as_a_success(
    client: Client, server: StubApiServer, cache: Any, caplog: pytest.LogCaptureFixture, message: str
) -> None:
    cache["configmaps", "web"] = config_map(a="1")
    server.on("PUT", f"{MAPS}/web", Failure(400, "BadRequest", message))
    assert client.replace(config_map(a="2"))["data"] == {"a": "2"}
    assert caplog.messages == [
        f'dry run: would update ConfigMap default/web (not checked: {message}): data.a: "1" -> "2"'
    ]
    server.on("PUT", f"{MAPS}/web", Failure(400, "BadRequest", 'admission webhook "a.b" denied the request: never'))
    with pytest.raises(ApiError, match="never"):
        client.replace(config_map(a="2"))


@pytest.mark.behaviour("operations/OP139")
def test_values_of_secrets_do_not_show(
    client: Client, server: StubApiServer, cache: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    copy = {"kubectl.kubernetes.io/last-applied-configuration": '{"data":{"p":"s3cr3t-1"}}'}
    labelled = {"name": "web", "namespace": "default", "labels": {"team": "blue"}}
    before = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {**labelled, "annotations": copy},
        "data": {"p": "s3cr3t-1"},
    }
    after = {
        **before,
        "metadata": {**labelled, "annotations": {"own": "s3cr3t-3"}},
        "data": {"p": "s3cr3t-2", "q": "s3cr3t-4"},
    }
    cache["secrets", "web"] = before
    server.on("PUT", f"{SECRETS}/web", Json(after))
    server.on("POST", SECRETS, Json(after, 201))
    server.on("PATCH", f"{SECRETS}/web", Failure(400, "BadRequest", 'admission webhook "a" does not support dry run'))
    client.replace(after)
    client.create({**after, "stringData": {"r": "s3cr3t-5"}, "type": "Opaque"})
    client.patch("v1", "Secret", "web", "default", {"data": {"p": "s3cr3t-6"}})
    client.patch("v1", "Secret", "web", "default", [{"op": "add", "path": "/data/p", "value": "s3cr3t-7"}], type="json")
    assert "s3cr3t" not in caplog.text
    lines = [line for line in caplog.messages if line.startswith("dry run: would ")]
    assert "data.p: *** -> ***; data.q: (none) -> ***" in lines[0]
    assert "stringData.r: ***" in lines[1]
    assert 'metadata.labels.team: "blue"' in lines[1]
    assert lines[2].endswith(": data.p: *** -> ***")
    assert lines[3].endswith(": ***")


def test_reviews_are_sent_as_they_are(client: Client, server: StubApiServer, caplog: pytest.LogCaptureFixture) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    server.on("POST", path, Json({"kind": "SelfSubjectAccessReview", "status": {"allowed": True}}, 201))
    assert client.transport.request("POST", path, body=b"{}").status == 201
    (review,) = writes(server)
    assert "dryRun" not in review.query
    assert not caplog.messages
