from __future__ import annotations

import threading

import pytest

from ctrlhost.client import Client
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
from tests.support.stub_api_server import (
    Body,
    Drop,
    Endless,
    Failure,
    Frames,
    Hang,
    Json,
    Raw,
    StubApiServer,
    echo,
    pod,
)

pytestmark = pytest.mark.behaviour("scale/SC50")
PODS = "/api/v1/namespaces/default/pods"


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
def test_a_failure_has_the_class_of_its_status_and_keeps_the_servers_message(server, client, code, reason, kind):
    causes = [{"reason": "FieldValueInvalid", "message": "too long", "field": "spec.x"}]
    server.on("PUT", f"{PODS}/a", Failure(code, reason, "no", details={"causes": causes, "retryAfterSeconds": 7}))
    with pytest.raises(kind) as caught:
        client.replace({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
    assert type(caught.value) is kind
    assert (caught.value.status, caught.value.reason, caught.value.message) == (code, reason, "no")
    assert caught.value.causes == tuple(causes)
    assert caught.value.retry_after == 7


def test_a_short_429_is_retried_even_for_writes_and_a_long_one_is_left_to_the_queue(server, client):
    server.on("POST", PODS, Failure(429, "TooManyRequests", retry_after=0), echo(201))
    client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
    assert len(server.requests) == 2
    server.on("POST", PODS, Failure(429, "TooManyRequests", retry_after=30))
    with pytest.raises(TooManyRequests) as caught:
        client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
    assert caught.value.retry_after == 30
    assert len(server.requests) == 3


def test_a_503_with_retry_after_is_retried_for_reads_only(server, client):
    server.on("GET", f"{PODS}/a", Failure(503, retry_after=0), Json(pod("a", 1)))
    assert client.get("v1", "Pod", "a")["metadata"]["name"] == "a"
    server.on("PUT", f"{PODS}/a", Failure(503, retry_after=0), Json(pod("a", 1)))
    with pytest.raises(ServerError):
        client.replace({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})


def test_a_read_with_a_broken_connection_is_retried_and_a_write_is_not(server, client):
    server.on("GET", f"{PODS}/a", Drop(), Json(pod("a", 1)))
    assert client.get("v1", "Pod", "a")["metadata"]["name"] == "a"
    server.on("PUT", f"{PODS}/a", Drop(), Json(pod("a", 1)))
    with pytest.raises(TransportError):
        client.replace({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(Body(b"<html><head><title>Login</title></head>"), "not JSON.*Login", id="html"),
        pytest.param(Body(b"[1]", content_type="application/json"), "not an object", id="list"),
        pytest.param(Body(b'{"a": ' * 100_000, content_type="application/json"), "not JSON", id="nested"),
        pytest.param(Body(b'{"a": "\xff\xfe"}', content_type="application/json"), "not JSON", id="not utf-8"),
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
def test_an_answer_without_an_object_is_a_transport_error_that_names_the_request(server, client, answer, message):
    server.on("GET", f"{PODS}/a", answer)
    with pytest.raises(TransportError, match=message) as caught:
        client.get("v1", "Pod", "a")
    assert f"{PODS}/a" in str(caught.value)


def test_an_html_page_with_an_error_status_is_an_error_of_that_status(server, client):
    server.on("PUT", f"{PODS}/a", Body(b"<html><body><h1>502 Bad Gateway</h1></body></html>", 502))
    with pytest.raises(ServerError, match="502 Bad Gateway") as caught:
        client.replace({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
    assert caught.value.status == 502
    assert "<" not in str(caught.value)


def test_an_endless_body_ends_at_the_timeout(server, client):
    server.on("GET", f"{PODS}/a", Endless(b"x"))
    with pytest.raises(TransportError, match="not complete in time"):
        client.get("v1", "Pod", "a", timeout=0.3)


def test_a_server_that_does_not_answer_fails_at_the_timeout(server, client):
    server.on("GET", f"{PODS}/a", Hang())
    with pytest.raises(TransportError, match="no response in time"):
        client.get("v1", "Pod", "a", timeout=0.1)


def test_a_failed_connection_is_reported_as_not_sent():
    stopped = StubApiServer().start()
    stopped.stop()
    with pytest.raises(TransportError, match="cannot connect") as caught:
        Client(stopped.url).create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
    assert caught.value.sent is False


def test_a_fully_read_body_returns_its_connection_to_the_pool(server, client):
    server.on("GET", "/api/v1/pods", Json({"a": 1}), Json({"b": 2}))
    for expected in (b'{"a": 1}', b'{"b": 2}'):
        stream = client.transport.stream("/api/v1/pods")
        assert b"".join(iter(stream.read, b"")) == expected
        assert stream.read() == b""
        stream.close()
    assert server.connections == 1


def test_a_list_on_a_closed_idle_connection_is_retried_on_a_new_one(server, client):
    server.on("GET", "/api/v1/pods", Drop(), Json({"a": 1}))
    stream = client.transport.stream("/api/v1/pods")
    assert stream.read() == b'{"a": 1}'
    assert server.connections == 2


def test_a_stream_closed_before_its_end_closes_its_connection(server, client):
    frames = Frames({"a": 1})
    server.on("GET", "/api/v1/pods", frames, Json({"b": 2}))
    stream = client.transport.stream("/api/v1/pods")
    assert stream.read() == b'{"a": 1}\n'
    threading.Timer(0.05, stream.close).start()
    assert stream.read() == b""
    assert frames.closed.wait(10)
    assert client.transport.request("GET", "/api/v1/pods").body == b'{"b": 2}'
    assert server.connections == 2


@pytest.mark.parametrize("coded", [b"x\r\n", b"5\r\nhelloXX", b"-5\r\n", b"\r\n", b"1" * 2000])
def test_a_stream_with_malformed_chunks_is_an_error(server, client, coded):
    server.on("GET", "/api/v1/pods", Raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + coded))
    stream = client.transport.stream("/api/v1/pods")
    with pytest.raises(TransportError, match=r"GET http.*/api/v1/pods"):
        list(iter(stream.read, b""))
