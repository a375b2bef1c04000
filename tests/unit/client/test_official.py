"""`Client.official`: the official Python client over the transport of ours."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ctrlhost import AsyncClient, Client, ConfigError
from ctrlhost.client.target import Write
from ctrlhost.errors import Forbidden, TransportError
from ctrlhost.testing.faults import Faults, FaultyTransport
from tests.support.exec_program import ExecProgram
from tests.support.kubeconfigs import kubeconfig, written
from tests.support.objects import config_map
from tests.support.stub_api_server import Computed, Failure, Hang, Json, ReceivedRequest, StubApiServer

MAP = "/api/v1/namespaces/default/configmaps/a"
API = {
    "kind": "APIResourceList",
    "resources": [{"name": "widgets", "kind": "Widget", "namespaced": True}],
}


@pytest.fixture
def core(client: Client) -> Any:
    from kubernetes.client import CoreV1Api

    return CoreV1Api(client.official())


@pytest.mark.behaviour("authoring/AP9")
def test_a_client_has_one_official_client_and_a_derived_one_its_own(client: Client) -> None:
    api = client.official()
    assert client.official() is api
    derived = client.derive(field_manager="other")
    assert derived.official() is not api
    assert derived.official() is derived.official()
    assert AsyncClient(client).official() is api


@pytest.mark.behaviour("authoring/AP9")
def test_a_refused_credential_is_renewed_and_the_request_repeated(tmp_path: Path) -> None:
    from kubernetes.client import CoreV1Api

    def answer(request: ReceivedRequest) -> Any:
        return Json(config_map("a")) if request.headers["authorization"] == "Bearer token-2" else Failure(401)

    with StubApiServer() as server, closing(ExecProgram(tmp_path)) as program:
        server.on("GET", MAP, Computed(answer))
        client = Client.load(written(tmp_path, kubeconfig({"server": server.url}, program.user)))
        assert CoreV1Api(client.official()).read_namespaced_config_map("a", "default").metadata.name == "a"
        assert (program.runs, len(server.requests)) == (2, 2)
        client.close()


def test_requests_are_those_of_the_official_client_with_our_field_manager(
    client: Client, core: Any, server: StubApiServer
) -> None:
    reported: list[Write] = []
    core.api_client.over._on_write = reported.append
    for method, path in (("POST", MAP[:-2]), ("PUT", MAP), ("PATCH", MAP), ("DELETE", MAP), ("GET", MAP)):
        server.on(method, path, Json(config_map("a")))
    core.create_namespaced_config_map("default", config_map("a"))
    core.replace_namespaced_config_map("a", "default", config_map("a"), field_manager="mine")
    core.patch_namespaced_config_map("a", "default", [{"op": "test", "path": "/data", "value": None}])
    core.patch_namespaced_config_map("a", "default", {"data": None})
    core.delete_namespaced_config_map("a", "default", propagation_policy="Background")
    core.read_namespaced_config_map("a", "default", pretty="true")
    assert [(request.method, request.query, request.headers.get("content-type")) for request in server.requests] == [
        ("POST", {"fieldManager": "ctrlhost"}, "application/json"),
        ("PUT", {"fieldManager": "mine"}, "application/json"),
        ("PATCH", {"fieldManager": "ctrlhost"}, "application/json-patch+json"),
        ("PATCH", {"fieldManager": "ctrlhost"}, "application/strategic-merge-patch+json"),
        ("DELETE", {"propagationPolicy": "Background"}, None),
        ("GET", {"pretty": "true"}, None),
    ]
    assert [(write.verb, write.target.name, write.field_manager) for write in reported] == [
        ("create", "a", "ctrlhost"),
        ("replace", "a", "mine"),
        ("patch", "a", "ctrlhost"),
        ("patch", "a", "ctrlhost"),
        ("delete", "a", "ctrlhost"),
    ]


def test_custom_kinds_are_found_by_their_plural(client: Client, server: StubApiServer) -> None:
    from kubernetes.client import CustomObjectsApi

    widgets = "/apis/example.com/v1/namespaces/default/widgets"
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a b"}}
    reported: list[Write] = []
    client._on_write = reported.append
    server.on("GET", "/apis/example.com/v1", Json(API))
    server.on("POST", widgets, Json(widget, 201))
    server.on("PUT", f"{widgets}/a%20b/status", Json(widget))
    server.on("POST", "/apis/example.com/v1/namespaces/default/others", Json({**widget, "kind": "Other"}, 201))
    api = CustomObjectsApi(client.official())
    where = ("example.com", "v1", "default", "widgets")
    assert api.create_namespaced_custom_object(*where, widget) == widget
    assert api.replace_namespaced_custom_object_status(*where, "a b", widget) == widget
    # The server does not list this one: the request is sent nevertheless.
    assert api.create_namespaced_custom_object("example.com", "v1", "default", "others", widget)["kind"] == "Other"
    assert [(write.target.resource.kind, write.target.name, write.target.subresource) for write in reported] == [
        ("Widget", "a b", None),
        ("Widget", "a b", "status"),
    ]


def test_a_write_that_is_only_tried_is_not_reported(client: Client, core: Any, server: StubApiServer) -> None:
    reported: list[Write] = []
    client._on_write = reported.append
    server.on("PUT", MAP, Json(config_map("a")))
    core.replace_namespaced_config_map("a", "default", config_map("a"), dry_run="All")
    assert server.requests[-1].query["dryRun"] == "All"
    assert reported == []


def test_failures_are_exceptions_of_the_official_client(core: Any, server: StubApiServer) -> None:
    from kubernetes.client.exceptions import ApiException, ConflictException, NotFoundException

    server.on("PUT", MAP, Failure(409, "Conflict"))
    server.on("DELETE", MAP, Failure(507, "Full"))
    for error, call in (
        (NotFoundException, lambda: core.read_namespaced_config_map("a", "default")),
        (ConflictException, lambda: core.replace_namespaced_config_map("a", "default", config_map("a"))),
        (ApiException, lambda: core.delete_namespaced_config_map("a", "default")),
    ):
        with pytest.raises(error) as raised:
            call()
        assert '"kind": "Status"' in raised.value.body or '"kind":"Status"' in raised.value.body
    assert raised.value.status == 507


def test_the_faults_of_a_test_reach_it(client: Client) -> None:
    from kubernetes.client import CoreV1Api

    faults = Faults()
    api = CoreV1Api(Client.over(FaultyTransport(client.transport, faults)).official())
    faults.next("apply", Forbidden("not today"))
    faults.next("create", TransportError("cut", sent=True))
    from kubernetes.client.exceptions import ForbiddenException

    with pytest.raises(ForbiddenException, match="not today"):
        api.patch_namespaced_config_map(
            "a", "default", config_map("a"), field_manager="x", force=True, _content_type="application/apply-patch+yaml"
        )
    with pytest.raises(TransportError, match="cut"):
        api.create_namespaced_config_map("default", config_map("a"))


def test_what_needs_a_connection_of_its_own_is_not_implemented(core: Any, server: StubApiServer) -> None:
    from kubernetes import watch

    for call, hint in (
        (lambda: core.list_namespaced_pod("default", watch=True), "declare the kind as a source"),
        (lambda: next(watch.Watch().stream(core.list_namespaced_pod, "default")), "declare the kind as a source"),
        (lambda: core.connect_get_namespaced_pod_exec("a", "default", command=["ls"]), "kubernetes.stream.stream"),
    ):
        with pytest.raises(NotImplementedError, match=hint):
            call()
    assert server.requests == []
    with pytest.raises(ValueError, match="only, not to https"):
        core.api_client.rest_client.request("GET", "https://elsewhere.example/api")


def test_a_timeout_of_a_call_is_kept(core: Any, server: StubApiServer) -> None:
    server.on("GET", MAP, Hang())
    for timeout in (0.2, (5, 0.2)):
        with pytest.raises(TransportError, match="no response in time"):
            core.read_namespaced_config_map("a", "default", _request_timeout=timeout)


def test_without_the_package_the_error_says_what_to_install(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "kubernetes"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "ctrlhost.client.official", raising=False)
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(ConfigError, match="cannot be imported") as raised:
        client.official()
    assert raised.value.hint == "install it with `pip install kubernetes`"


def test_kubernetes_is_imported_at_the_first_use_only() -> None:
    program = (
        "import sys, ctrlhost, ctrlhost.testing, ctrlhost_sample; ctrlhost.Plugin; client = ctrlhost.Client('http://x');"
        "assert 'kubernetes' not in sys.modules; client.official(); assert 'kubernetes' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
