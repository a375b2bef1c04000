"""Webhooks of the sandbox: where they listen, what waits for them, and what goes on meanwhile."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from ctrlhost_sandbox import Options, Sandbox
from ctrlhost_sandbox.cli.command import command

from tests.support.admission_rig import GROUP, config_map
from tests.support.http_client import JSON_PATCH, MERGE, Api
from tests.support.objects import container, core
from tests.support.waiting import eventually
from tests.support.webhook_server import (
    ALLOWED,
    WebhookServer,
    adds,
    configuration,
    denial,
    webhook,
    webhook_server,
)

VALIDATING, MUTATING = f"{GROUP}/validatingwebhookconfigurations", f"{GROUP}/mutatingwebhookconfigurations"


def api_of(sandbox: Sandbox) -> Api:
    return Api(sandbox.url, sandbox.ca, sandbox.token)


@pytest.fixture
def webhooks(tmp_path: Path) -> Iterator[WebhookServer]:
    with webhook_server(tmp_path / "tls") as server:
        yield server


@pytest.fixture
def own_api() -> Iterator[Api]:
    """A client of a sandbox of the test's own: webhooks concern everybody."""
    with Sandbox(controllers=["gc", "namespace", "workloads"]) as sandbox, api_of(sandbox) as client:
        yield client


def configure(api: Api, webhooks: WebhookServer, respond: Any, *, sort: str = "Validating", **more: Any) -> None:
    """Make a configuration with one webhook for ConfigMaps of the namespace `default`."""
    webhooks.webhooks["/w"] = respond
    selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}
    spec = webhook("w.example.test", webhooks.client_config("/w"), **{**selector, **more})
    path = VALIDATING if sort == "Validating" else MUTATING
    api.post(path, configuration("own", spec, sort=sort)).expect(201)


@pytest.mark.parametrize(("policy", "code"), [("Fail", 500), ("Ignore", 201)])
def test_a_webhook_that_hangs_is_given_up_after_its_time(
    own_api: Api, webhooks: WebhookServer, policy: str, code: int
) -> None:
    configure(own_api, webhooks, webhooks.hangs, timeoutSeconds=1, failurePolicy=policy)
    answer = own_api.post(core("default", "configmaps"), config_map())
    assert answer.status == code
    if code == 500:
        message = answer.json()["message"]
        assert 'failed calling webhook "w.example.test": failed to call webhook: Post "' in message
        assert message.endswith('/w?timeout=1s": context deadline exceeded')


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://localhost:99999/", "invalid port"),
        (f"https://{'a' * 70}.test/", "label"),
        ("https://a..b/", "label"),
        ("https://localhost:1/\u00e9", "ascii"),
    ],
)
def test_an_address_that_nobody_can_call_is_a_failed_call(own_api: Api, url: str, why: str, policy: str) -> None:
    spec = webhook("w.example.test", {"url": url}, failurePolicy=policy)
    own_api.post(VALIDATING, configuration("own", spec)).expect(201)
    answer = own_api.post(core("default", "configmaps"), config_map())
    assert answer.status == (500 if policy == "Fail" else 201)
    if policy == "Fail":
        message = answer.json()["message"]
        assert 'failed calling webhook "w.example.test"' in message
        assert why in message


def test_an_answer_that_is_nested_too_deeply_is_a_failed_call(own_api: Api, webhooks: WebhookServer) -> None:
    body = b'{"a":' * 100_000
    configure(own_api, webhooks, lambda _: (200, body, "application/json"), failurePolicy="Ignore")
    own_api.post(core("default", "configmaps"), config_map()).expect(201)


@pytest.mark.parametrize(
    ("response", "code"),
    [
        ({"allowed": True, "patch": None, "patchType": None, "warnings": None, "status": None}, 201),
        ({"allowed": False, "status": {"code": None, "message": None, "details": {"causes": None}}}, 400),
        ({"allowed": None}, 400),
        ({}, 400),
        ({"allowed": False, "status": {"code": 1000}}, 500),
        ({"allowed": False, "status": {"code": 2**40}}, 500),
    ],
)
def test_what_is_null_in_an_answer_is_missing(
    own_api: Api, webhooks: WebhookServer, response: dict[str, Any], code: int
) -> None:
    configure(own_api, webhooks, lambda _: response)
    assert own_api.post(core("default", "configmaps"), config_map()).status == code


def test_long_warnings_are_cut(own_api: Api, webhooks: WebhookServer) -> None:
    configure(own_api, webhooks, lambda _: {"allowed": True, "warnings": ["x" * 100_000] * 30})
    answer = own_api.post(core("default", "configmaps"), config_map())
    assert answer.status == 201
    assert len(answer.headers["Warning"]) < 8192


def test_a_webhook_that_hangs_holds_up_only_its_own_request(own_api: Api, webhooks: WebhookServer) -> None:
    configure(own_api, webhooks, webhooks.hangs, timeoutSeconds=30)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(own_api.post, core("default", "configmaps"), config_map("slow"))
        eventually(lambda: webhooks.calls)
        for index in range(20):
            own_api.post(core("kube-system", "configmaps"), config_map(f"quick-{index}")).expect(201)
        assert own_api.get(core("default", "configmaps", "slow")).status == 404
        webhooks.stopping.set()
        assert waiting.result(60).status == 201


def test_a_write_that_was_overtaken_begins_again(own_api: Api, webhooks: WebhookServer) -> None:
    path = core("default", "configmaps", "c")
    own_api.post(core("default", "configmaps"), config_map("c", x="1")).expect(201)
    version = own_api.get(path).json()["metadata"]["resourceVersion"]
    go_on, first = threading.Event(), threading.Event()

    def respond(review: dict[str, Any]) -> dict[str, Any]:
        if "slow" in review["request"]["object"]["data"] and not first.is_set():
            first.set()
            go_on.wait(60)
        return ALLOWED

    configure(own_api, webhooks, respond, timeoutSeconds=30)
    with ThreadPoolExecutor(2) as threads:
        merge = {"data": {"slow": "yes"}}
        patched = threads.submit(own_api.patch, path, merge, content_type=MERGE)
        first.wait(60)
        own_api.patch(path, {"data": {"x": "2"}}, content_type=MERGE).expect(200)
        go_on.set()
        assert patched.result(60).expect(200)["data"] == {"x": "2", "slow": "yes"}
        assert [review["oldObject"]["data"]["x"] for review in webhooks.reviews("/w")] == ["1", "1", "2"]
        # One that names the version it has read is refused instead.
        first.clear()
        go_on.clear()
        stale = {"metadata": {"resourceVersion": own_api.get(path).json()["metadata"]["resourceVersion"]}, **merge}
        patched = threads.submit(own_api.patch, path, {**stale, "data": {"slow": "again"}}, content_type=MERGE)
        first.wait(60)
        own_api.patch(path, {"data": {"x": "3"}}, content_type=MERGE).expect(200)
        go_on.set()
        patched.result(60).fails(409, "Conflict")
    assert int(own_api.get(path).json()["metadata"]["resourceVersion"]) > int(version)


def test_a_namespace_that_is_deleted_meanwhile_gets_no_object(own_api: Api, webhooks: WebhookServer) -> None:
    own_api.post("/api/v1/namespaces", {"metadata": {"name": "brief"}}).expect(201)
    configure(
        own_api,
        webhooks,
        webhooks.hangs,
        timeoutSeconds=30,
        namespaceSelector={},
        objectSelector={"matchLabels": {"slow": "yes"}},
    )
    slow = config_map("slow")
    slow["metadata"]["labels"] = {"slow": "yes"}
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(own_api.post, core("brief", "configmaps"), slow)
        eventually(lambda: webhooks.calls)
        own_api.delete("/api/v1/namespaces/brief").expect(200)
        webhooks.stopping.set()
        waiting.result(60).expect(403, 404)
    eventually(lambda: own_api.get("/api/v1/namespaces/brief").status == 404)


def test_controllers_wait_for_webhooks_like_everybody(own_api: Api, webhooks: WebhookServer) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    webhooks.webhooks["/w"] = denial(code=403, message="no pods today")
    spec = webhook("w.example.test", webhooks.client_config("/w"), rule)
    own_api.post(VALIDATING, configuration("own", spec)).expect(201)
    labels = {"matchLabels": {"a": "b"}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container()]}}
    deployment = {"metadata": {"name": "d"}, "spec": {"replicas": 2, "selector": labels, "template": template}}
    own_api.post("/apis/apps/v1/namespaces/default/deployments", deployment).expect(201)
    eventually(lambda: len(webhooks.calls) > 1)
    assert own_api.get(core("default", "pods")).json()["items"] == []
    webhooks.webhooks["/w"] = lambda _review: ALLOWED
    eventually(lambda: len(own_api.get(core("default", "pods")).json()["items"]) == 2, 30)


def test_a_client_that_leaves_ends_nothing(own_api: Api, webhooks: WebhookServer) -> None:
    configure(own_api, webhooks, webhooks.hangs, timeoutSeconds=30)
    parts = urlsplit(own_api.url)
    trust = ssl.create_default_context(cadata=own_api.ca)
    client = http.client.HTTPSConnection(parts.hostname or "", parts.port, context=trust)
    headers = {"Authorization": f"Bearer {own_api.token}", "Content-Type": "application/json"}
    client.request("POST", core("default", "configmaps"), json.dumps(config_map("left")), headers)
    eventually(lambda: webhooks.calls)
    client.close()
    webhooks.stopping.set()
    eventually(lambda: own_api.get(core("default", "configmaps", "left")).status == 200)


def service_config(bundle: str) -> dict[str, Any]:
    service = {"namespace": "default", "name": "hooks", "path": "/w", "port": 443}
    return configuration("own", webhook("w.example.test", {"service": service, "caBundle": bundle}), sort="Mutating")


def test_a_service_listens_where_its_endpoint_slices_say(tmp_path: Path) -> None:
    failed = 'Internal error occurred: failed calling webhook "w.example.test": failed to call webhook: Post '
    failed += '"https://hooks.default.svc:443/w?timeout=10s": '
    with Sandbox(controllers=["workloads", "service"]) as sandbox, api_of(sandbox) as api:
        api.post(MUTATING, service_config("")).expect(201)
        answer = api.post(core("default", "configmaps"), config_map()).fails(500, "InternalError")
        assert answer["message"] == f'{failed}service "hooks" not found'
        service = {"selector": {"a": "b"}, "ports": [{"name": "https", "port": 443, "targetPort": 1}]}
        api.post(core("default", "services"), {"metadata": {"name": "hooks"}, "spec": service}).expect(201)
        answer = api.post(core("default", "configmaps"), config_map()).fails(500, "InternalError")
        assert answer["message"] == f'{failed}no endpoints available for service "hooks"'
        pod = {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"containers": [container()]}}
        api.post(core("default", "pods"), pod).expect(201)
        pods = core("default", "pods", "p")
        eventually(lambda: api.get(pods).json()["status"].get("podIP"))
        with webhook_server(tmp_path / "tls", "hooks.default.svc", api.get(pods).json()["status"]["podIP"]) as server:
            server.webhooks["/w"] = adds("y")
            ports = [{"name": "https", "port": 443, "targetPort": int(server.url.rpartition(":")[2])}]
            api.patch(core("default", "services", "hooks"), {"spec": {"ports": ports}}).expect(200)
            client = {**service_config("")["webhooks"][0]["clientConfig"], "caBundle": server.bundle}
            spec = [{"op": "replace", "path": "/webhooks/0/clientConfig", "value": client}]
            api.patch(f"{MUTATING}/own", spec, content_type=JSON_PATCH).expect(200)
            eventually(lambda: api.post(core("default", "configmaps"), config_map(x="1")).status == 201, 30)
            assert api.get(core("default", "configmaps", "c")).json()["data"] == {"x": "1", "y": "x"}


def test_an_option_says_where_a_service_listens(tmp_path: Path) -> None:
    with webhook_server(tmp_path / "tls", "hooks.default.svc") as webhooks:
        host, port = webhooks.url.removeprefix("https://").split(":")
        options = Options(services={"default/hooks": (host, int(port))})
        with Sandbox(options=options) as sandbox, api_of(sandbox) as api:
            webhooks.webhooks["/w"] = adds("y")
            api.post(MUTATING, service_config(webhooks.bundle)).expect(201)
            stored = api.post(core("default", "configmaps"), config_map(x="1")).expect(201)
    assert stored["data"] == {"x": "1", "y": "x"}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("hooks=127.0.0.1:1", "invalid Service `hooks=127.0.0.1:1`: write NS/NAME=HOST:PORT"),
        ("default/hooks", "invalid address ``"),
        ("default/hooks=127.0.0.1", "invalid address `127.0.0.1`: write HOST:PORT"),
    ],
)
def test_a_wrong_service_option_is_one_line(value: str, problem: str) -> None:
    outcome = CliRunner().invoke(command, ["--service", value])
    assert outcome.exit_code == 2
    assert problem in outcome.output.replace("\n", " ")
