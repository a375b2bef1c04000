from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from stub_api_server import (
    Answer,
    Asked,
    Body,
    Computed,
    Drop,
    Endless,
    Failure,
    Frames,
    Hang,
    Json,
    Raw,
    StubApiServer,
    pod,
    pod_list,
)

import ctrlhost
from ctrlhost import _core
from ctrlhost.client import Client, Write
from ctrlhost.client.urllib3_transport import Urllib3Transport
from ctrlhost.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    ServerError,
    TooManyRequests,
    TransportError,
)

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def client(server):
    with_pool = Client(server.url)
    yield with_pool
    with_pool.close()


def echo(status: int = 200) -> Answer:
    return Computed(lambda asked: Json(asked.json(), status))


def test_an_object_is_read_as_a_plain_dict(server, client):
    server.on("GET", f"{PODS}/a", Json({"apiVersion": "v1", "kind": "Pod", **pod("a", 3)}))
    assert client.get("v1", "Pod", "a", "default")["metadata"]["resourceVersion"] == "3"


def test_a_namespaced_kind_without_a_namespace_means_the_one_of_the_context(server, client):
    server.on("GET", f"{PODS}/a", Json(pod("a", 3)))
    assert client.get("v1", "Pod", "a")["metadata"]["name"] == "a"


def test_a_cluster_scoped_kind_needs_no_namespace(server, client):
    server.on("GET", "/api/v1/nodes/n1", Json({"metadata": {"name": "n1"}}))
    assert client.get("v1", "Node", "n1")["metadata"]["name"] == "n1"


def test_what_is_not_there_is_an_error_for_get_and_nothing_for_find(server, client):
    server.on("GET", f"{PODS}/a", Failure(404, "NotFound", 'pods "a" not found'))
    with pytest.raises(NotFound, match='pods "a" not found'):
        client.get("v1", "Pod", "a", "default")
    assert client.find("v1", "Pod", "a", "default") is None


def test_a_list_fetches_page_by_page_and_stamps_each_item_with_its_kind(server, client):
    server.on(
        "GET",
        "/api/v1/pods",
        Json(pod_list(7, pod("a", 1), pod("b", 2), continue_="next")),
        Json(pod_list(7, pod("c", 3))),
    )
    found = list(client.list("v1", "Pod", page_size=2, label_selector="app in (x,y)"))
    assert [each["metadata"]["name"] for each in found] == ["a", "b", "c"]
    assert {(each["apiVersion"], each["kind"]) for each in found} == {("v1", "Pod")}
    first, second = server.requests
    assert first.query == {"limit": "2", "labelSelector": "app in (x,y)"}
    assert second.query == {"limit": "2", "labelSelector": "app in (x,y)", "continue": "next"}


@pytest.mark.behaviour("informers/PG4")
def test_a_snapshot_that_expires_between_two_pages_is_an_error_after_what_came_before(server, client):
    server.on(
        "GET", "/api/v1/pods", Json(pod_list(7, pod("a", 1), continue_="next")), Failure(410, "Expired", "too old")
    )
    pods = client.list("v1", "Pod")
    assert next(pods)["metadata"]["name"] == "a"
    with pytest.raises(Expired):
        next(pods)


@pytest.mark.behaviour("informers/PG5")
def test_a_list_stops_asking_when_its_reader_stops(server, client):
    # Nothing is fetched ahead: upstream fetches at least one page more than was read.
    server.on("GET", "/api/v1/pods", Json(pod_list(7, pod("a", 1), continue_="next")))
    next(client.list("v1", "Pod"))
    assert len(server.requests) == 1


def test_names_are_percent_encoded_and_can_not_climb_out_of_their_place(server, client):
    server.on("GET", "/api/v1/clusterroles", Failure(500))
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Aa%2Fb"
    server.on("GET", path, Json({"metadata": {"name": "system:a/b"}}))
    assert client.get("rbac.authorization.k8s.io/v1", "ClusterRole", "system:a/b")["metadata"]["name"] == "system:a/b"
    for name in ("", ".", ".."):
        with pytest.raises(ValueError, match="can not stand in a URL"):
            client.get("v1", "Pod", name, "default")
    with pytest.raises(ValueError, match="namespace"):
        client.get("v1", "Pod", "a", "..")
    assert len(server.requests) == 1


def test_creating_posts_to_the_collection_and_gives_the_servers_object(server, client):
    server.on("POST", PODS, echo(201))
    created = client.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "a-", "namespace": "default"}}
    )
    assert created["metadata"]["generateName"] == "a-"
    assert server.requests[0].query == {"fieldManager": "ctrlhost"}
    assert server.requests[0].headers["content-type"] == "application/json"


def test_an_owner_becomes_the_controller_of_what_it_creates(server, client):
    server.on("POST", PODS, echo(201))
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "default", "uid": "u1"},
    }
    mine = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    created = client.create(mine, owner)
    assert created["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "d",
            "uid": "u1",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert created["metadata"]["namespace"] == "default"
    assert mine == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}


def test_an_owner_of_another_namespace_or_beside_another_controller_is_refused(client):
    owner = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "d", "namespace": "elsewhere", "uid": "u1"}}
    with pytest.raises(ValueError, match="can not be owned from namespace elsewhere"):
        client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default"}}, owner)
    other = {"kind": "Pod", "name": "x", "uid": "u2", "controller": True}
    with pytest.raises(ValueError, match="controlled by Pod x already"):
        client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "ownerReferences": [other]}}, owner)
    with pytest.raises(ValueError, match="an owner needs uid"):
        client.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "d"}},
        )


def test_replace_apply_patch_and_delete_go_where_they_should(server, client):
    for method in ("PUT", "PATCH", "DELETE"):
        server.on(method, f"{PODS}/a", Json(pod("a", 4)))
        server.on(method, f"{PODS}/a/status", Json(pod("a", 5)))
    obj = {"apiVersion": "v1", "kind": "Pod", **pod("a", 3)}
    client.replace(obj)
    client.replace(obj, "status")
    client.apply(obj, field_manager="m", force=False)
    client.apply(obj, subresource="status")
    client.patch("v1", "Pod", "a", "default", {"metadata": {"labels": {"x": None}}})
    client.patch("v1", "Pod", "a", "default", [{"op": "remove", "path": "/spec"}], type="json")
    client.patch("v1", "Pod", "a", "default", {}, type="strategic", subresource="status")
    client.delete(
        "v1", "Pod", "a", "default", propagation="Foreground", preconditions={"uid": "u", "resourceVersion": "3"}
    )
    asked = [
        (each.method, each.path.removeprefix(PODS), each.query, each.headers.get("content-type", ""))
        for each in server.requests
    ]
    manager = {"fieldManager": "ctrlhost"}
    assert asked == [
        ("PUT", "/a", manager, "application/json"),
        ("PUT", "/a/status", manager, "application/json"),
        ("PATCH", "/a", {"fieldManager": "m", "force": "false"}, "application/apply-patch+yaml"),
        ("PATCH", "/a/status", {"fieldManager": "ctrlhost", "force": "true"}, "application/apply-patch+yaml"),
        ("PATCH", "/a", manager, "application/merge-patch+json"),
        ("PATCH", "/a", manager, "application/json-patch+json"),
        ("PATCH", "/a/status", manager, "application/strategic-merge-patch+json"),
        ("DELETE", "/a", {}, "application/json"),
    ]
    assert server.requests[-1].json() == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": "u", "resourceVersion": "3"},
    }


def test_deleting_a_collection_stays_in_one_namespace(server, client):
    server.on("DELETE", PODS, Json({"kind": "PodList", "items": []}))
    client.delete_collection("v1", "Pod", label_selector="a=b")
    assert server.requests[0].query == {"labelSelector": "a=b"}


def test_a_call_about_one_object_whose_name_is_missing_is_never_about_all_of_them(server, client):
    nameless: Any = None
    for call in (
        lambda: client.get("v1", "Pod", nameless, "default"),
        lambda: client.find("v1", "Pod", nameless, "default"),
        lambda: client.delete("v1", "Pod", nameless, "default"),
        lambda: client.patch("v1", "Pod", nameless, "default", {}),
    ):
        with pytest.raises(TypeError, match="the name of a Pod is a text, not None"):
            call()
    assert server.requests == []


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_a_time_out_that_is_no_time_is_refused_before_anything_is_sent(server, client, timeout):
    with pytest.raises(ValueError, match="timeout is a number of seconds from 0 on"):
        client.get("v1", "Pod", "a", "default", timeout=timeout)
    assert server.requests == []


def test_writes_are_reported_to_whoever_asked_for_it(server, client):
    server.on("PATCH", f"{PODS}/a", Json(pod("a", 4)))
    seen: list[Write] = []
    plugin = client.derive(field_manager="plugin", on_write=seen.append)
    plugin.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
    assert server.requests[0].query["fieldManager"] == "plugin"
    assert [
        (write.verb, write.target.name, write.target.namespace, write.object["metadata"]["resourceVersion"])
        for write in seen
    ] == [("apply", "a", "default", "4")]


def test_objects_without_kind_or_name_are_refused_before_anything_is_sent(server, client):
    with pytest.raises(ValueError, match="apiVersion and kind"):
        client.create({"metadata": {"name": "a"}})
    with pytest.raises(ValueError, match=r"metadata\.name"):
        client.replace({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "a"}})
    with pytest.raises(ValueError, match="patch type"):
        client.patch("v1", "Pod", "a", "default", {}, type="magic")  # type: ignore[arg-type]
    assert server.requests == []


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Expired),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", ServerError),
        (504, "Timeout", ServerError),
        (418, "Teapot", ApiError),
    ],
)
def test_a_failure_has_the_class_of_its_status_and_keeps_what_the_server_says(server, client, code, reason, kind):
    causes = [{"reason": "FieldValueInvalid", "message": "too long", "field": "spec.x"}]
    server.on("PUT", f"{PODS}/a", Failure(code, reason, "no", details={"causes": causes, "retryAfterSeconds": 7}))
    with pytest.raises(kind) as caught:
        client.replace({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
    assert type(caught.value) is kind
    assert (caught.value.status, caught.value.reason, caught.value.message) == (code, reason, "no")
    assert caught.value.causes == tuple(causes)
    assert caught.value.retry_after == 7


def test_a_short_429_is_waited_out_even_for_writes_and_a_long_one_is_left_to_the_queue(server, client):
    server.on("POST", PODS, Failure(429, "TooManyRequests", retry_after=0), echo(201))
    client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
    assert len(server.requests) == 2
    server.on("POST", PODS, Failure(429, "TooManyRequests", retry_after=30))
    with pytest.raises(TooManyRequests) as caught:
        client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
    assert caught.value.retry_after == 30
    assert len(server.requests) == 3


def test_a_503_that_says_when_to_come_back_is_retried_for_reads_only(server, client):
    server.on("GET", f"{PODS}/a", Failure(503, retry_after=0), Json(pod("a", 1)))
    assert client.get("v1", "Pod", "a")["metadata"]["name"] == "a"
    server.on("PUT", f"{PODS}/a", Failure(503, retry_after=0), Json(pod("a", 1)))
    with pytest.raises(ServerError):
        client.replace({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})


def test_a_read_whose_connection_broke_is_sent_again_and_a_write_is_not(server, client):
    server.on("GET", f"{PODS}/a", Drop(), Json(pod("a", 1)))
    assert client.get("v1", "Pod", "a")["metadata"]["name"] == "a"
    server.on("PUT", f"{PODS}/a", Drop(), Json(pod("a", 1)))
    with pytest.raises(TransportError):
        client.replace({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        pytest.param(Body(b"<html><head><title>Login</title></head>"), "no JSON.*Login", id="html"),
        pytest.param(Body(b"[1]", content_type="application/json"), "no object", id="list"),
        pytest.param(Body(b'{"a": ' * 100_000, content_type="application/json"), "no JSON", id="nested"),
        pytest.param(Body(b'{"a": "\xff\xfe"}', content_type="application/json"), "no JSON", id="not utf-8"),
        pytest.param(Raw(b"hello\r\n\r\n"), "GET http", id="no http"),
        pytest.param(Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}"), "GET http", id="cut"),
        pytest.param(Raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), "GET http", id="bad chunk"),
        pytest.param(
            Raw(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello"),
            "GET http",
            id="no gzip",
        ),
        pytest.param(Raw(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000 + b"\r\n"), "GET http", id="headers"),
    ],
)
def test_an_answer_that_is_no_object_is_a_transport_error_that_names_the_request(server, client, answer, says):
    server.on("GET", f"{PODS}/a", answer)
    with pytest.raises(TransportError, match=says) as caught:
        client.get("v1", "Pod", "a")
    assert f"{PODS}/a" in str(caught.value)


def test_an_html_page_with_a_failure_code_is_an_error_of_that_code(server, client):
    server.on("PUT", f"{PODS}/a", Body(b"<html><body><h1>502 Bad Gateway</h1></body></html>", 502))
    with pytest.raises(ServerError, match="502 Bad Gateway") as caught:
        client.replace({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
    assert caught.value.status == 502
    assert "<" not in str(caught.value)


def test_an_endless_body_ends_at_the_time_out(server, client):
    server.on("GET", f"{PODS}/a", Endless(b"x"))
    with pytest.raises(TransportError, match="not complete in time"):
        client.get("v1", "Pod", "a", timeout=0.3)


def test_a_server_that_does_not_answer_is_given_up_at_the_time_out(server, client):
    server.on("GET", f"{PODS}/a", Hang())
    with pytest.raises(TransportError, match="no answer in time"):
        client.get("v1", "Pod", "a", timeout=0.1)


def test_a_server_that_is_not_there_was_never_sent_anything():
    gone = StubApiServer().start()
    gone.stop()
    with pytest.raises(TransportError, match="can not connect") as caught:
        Client(gone.url).create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
    assert caught.value.sent is False


CRD = {
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "foos", "kind": "Foo"},
        "versions": [{"name": "v1"}, {"name": "v1beta1"}],
    }
}


def test_a_loaded_crd_needs_no_discovery(server, client):
    client.add_crds([CRD])
    server.on("GET", "/apis/example.com/v1beta1/namespaces/default/foos/a", Json({}))
    client.get("example.com/v1beta1", "Foo", "a")
    assert len(server.requests) == 1


def test_an_unknown_kind_is_discovered_once_and_asked_for_again_while_it_is_missing(server, client):
    with pytest.raises(NotFound, match="no kind Foo") as caught:
        client.resource("example.com/v1", "Foo")
    assert "CustomResourceDefinition" in (caught.value.hint or "")
    listed = {"kind": "APIResourceList", "resources": []}
    server.on("GET", "/apis/example.com/v1", Json(listed))
    with pytest.raises(NotFound):
        client.resource("example.com/v1", "Foo")
    kinds = [
        {"name": "foos", "kind": "Foo", "namespaced": False, "verbs": ["get", "list"]},
        {"name": "foos/status", "kind": "Foo", "namespaced": True, "verbs": ["get"]},
    ]
    server.on("GET", "/apis/example.com/v1", Json({**listed, "resources": kinds}))
    assert client.resource("example.com/v1", "Foo").path() == "/apis/example.com/v1/foos"
    assert client.resource("example.com/v1", "Foo").verbs == ("get", "list")
    assert len(server.requests) == 3
    client.resources.forget("example.com/v1", "Foo")
    client.resource("example.com/v1", "Foo")
    assert len(server.requests) == 4


def test_requests_are_counted_under_the_usual_names(server, client):
    from prometheus_client import CollectorRegistry

    server.on("GET", f"{PODS}/a", Json(pod("a", 1)), Failure(404))
    client.get("v1", "Pod", "a")
    client.find("v1", "Pod", "a")
    registry = CollectorRegistry()
    registry.register(client.metrics)
    host = f"127.0.0.1:{server.port}"
    assert registry.get_sample_value("rest_client_requests_total", {"code": "200", "method": "GET", "host": host}) == 1
    assert registry.get_sample_value("rest_client_requests_total", {"code": "404", "method": "GET", "host": host}) == 1
    assert registry.get_sample_value("rest_client_request_duration_seconds_count", {"verb": "GET", "host": host}) == 2


def test_many_threads_share_one_client(server, client):
    def answer(asked: Asked) -> Answer:
        return Json(pod(asked.path.rsplit("/", 1)[1], 1))

    for number in range(40):
        server.on("GET", f"{PODS}/p{number}", Computed(answer))
    found: list[str] = []

    def work(start: int) -> None:
        found.extend(client.get("v1", "Pod", f"p{number}")["metadata"]["name"] for number in range(start, 40, 8))

    threads = [threading.Thread(target=work, args=(start,)) for start in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(f"p{number}" for number in range(40))


def test_the_client_is_public():
    assert ctrlhost.Client is Client
    assert isinstance(Client("http://127.0.0.1:1").transport, Urllib3Transport)


async def _use_async(server: StubApiServer, client: Client) -> list[str]:
    async_client = ctrlhost.AsyncClient(client)
    try:
        assert await async_client.find("v1", "Pod", "gone") is None
        written = await async_client.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
        assert written["metadata"]["resourceVersion"] == "4"
        return [each["metadata"]["name"] async for each in async_client.list("v1", "Pod")]
    finally:
        async_client.close()


def test_coroutines_do_what_the_client_does(server, client):
    import asyncio

    server.on("PATCH", f"{PODS}/a", Json(pod("a", 4)))
    server.on("GET", "/api/v1/pods", Json(pod_list(7, pod("a", 1), continue_="next")), Json(pod_list(7, pod("b", 3))))
    assert asyncio.run(_use_async(server, client)) == ["a", "b"]


def test_importing_the_client_reads_neither_the_models_nor_the_oauth_libraries():
    import subprocess
    import sys

    code = (
        "import sys; from ctrlhost.client import Client; Client('http://127.0.0.1:1'); "
        "print([name for name in ('kubernetes', 'pydantic', 'requests', 'oauthlib', 'yaml') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.replace("'", '"')) == []


def test_a_body_that_was_read_to_its_end_leaves_its_connection_to_the_next_request(server, client):
    server.on("GET", "/api/v1/pods", Json({"a": 1}), Json({"b": 2}))
    for expected in (b'{"a": 1}', b'{"b": 2}'):
        stream = client.transport.stream("/api/v1/pods")
        assert b"".join(iter(stream.read, b"")) == expected
        assert stream.read() == b""
        stream.close()
    assert server.connections == 1


def test_a_list_whose_idle_connection_was_closed_meanwhile_is_asked_for_on_a_new_one(server, client):
    server.on("GET", "/api/v1/pods", Drop(), Json({"a": 1}))
    stream = client.transport.stream("/api/v1/pods")
    assert stream.read() == b'{"a": 1}'
    assert server.connections == 2


def test_a_stream_that_is_closed_before_its_end_takes_its_connection_with_it(server, client):
    frames = Frames({"a": 1})
    server.on("GET", "/api/v1/pods", frames, Json({"b": 2}))
    stream = client.transport.stream("/api/v1/pods")
    assert stream.read() == b'{"a": 1}\n'
    threading.Timer(0.05, stream.close).start()
    assert stream.read() == b""
    assert frames.closed.wait(10)
    assert client.transport.request("GET", "/api/v1/pods").body == b'{"b": 2}'
    assert server.connections == 2


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_chunks_may_be_cut_anywhere(size):
    coded = b"5;x=y\r\nhello\r\n1\r\n \r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"
    chunks = _core.Body(chunked=True)
    out = b"".join(chunks.feed(coded[at : at + size]) for at in range(0, len(coded), size))
    assert (out, chunks.done) == (b"hello 0123456789", True)


@pytest.mark.parametrize("coded", [b"x\r\n", b"5\r\nhelloXX", b"-5\r\n", b"\r\n", b"1" * 2000])
def test_broken_chunks_are_refused(coded):
    with pytest.raises(ValueError, match=r".+"):
        _core.Body(chunked=True).feed(coded)
