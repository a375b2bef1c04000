"""Calls over the pool of connections: answers that a server may send, and reuse of connections."""

from __future__ import annotations

import socket
import struct
import threading

import pytest

from ctrlhost.client import Client
from ctrlhost.errors import ApiError, TransportError
from tests.support.stub_api_server import Answer, Computed, Json, Raw, StubApiServer, pod
from tests.support.stub_http import Handler

pytestmark = pytest.mark.behaviour("scale/SC50")

CLOSE = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
TWO = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 500 Huh\r\n\r\n"


@pytest.fixture
def transport(server):
    client = Client(server.url, token="secret")
    yield client.transport
    client.close()


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        pytest.param(CLOSE + b"Content-Length: 2\r\n\r\n{}", b"{}", id="length"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n{}", b"{}", id="until the end of the connection"),
        pytest.param(b"HTTP/1.0 200 OK\r\n\r\n{}", b"{}", id="HTTP/1.0"),
        pytest.param(
            CLOSE + b"Transfer-Encoding: chunked\r\n\r\n1;a=b\r\n{\r\n1\r\n}\r\n0\r\nX: y\r\n\r\n",
            b"{}",
            id="chunks and a trailer",
        ),
        pytest.param(
            b"HTTP/1.1 103 Early Hints\r\nX: early\r\n\r\n" + CLOSE + b"Content-Length: 2\r\n\r\n{}",
            b"{}",
            id="an interim answer first",
        ),
        pytest.param(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", b"", id="nothing"),
        pytest.param(TWO, b"{}", id="two answers"),
    ],
)
def test_every_body_framing_yields_the_body(server, transport, raw, body):
    server.on("GET", "/x", Raw(raw), Json({"next": True}))
    answer = transport.request("GET", "/x")
    assert (answer.body, "x" in answer.headers and answer.headers["x"] == "early") == (body, False)
    assert transport.request("GET", "/x").body == b'{"next": true}', "the next answer is the next request's"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "closed the connection without a response"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "cut in the middle"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "cut in the middle"),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nhello", "switched protocols"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000, "too many headers"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", "compressed"),
    ],
)
def test_an_incomplete_answer_is_an_error_with_its_cause(server, transport, raw, message):
    server.on("POST", "/x", Raw(raw))
    with pytest.raises(TransportError, match=message):
        transport.request("POST", "/x", body=b"{}")


def test_one_connection_is_reused_until_the_transport_is_closed(server, transport):
    server.on("POST", "/x", Json({}))
    for _ in range(3):
        assert transport.request("POST", "/x", body=b"{}").status == 200
    assert server.connections == 1
    transport.close()
    assert transport.request("POST", "/x", body=b"{}").status == 200
    assert server.connections == 2


def test_the_pool_size_bounds_the_open_connections(server):
    from ctrlhost.kubeconfig.connection import from_url
    from ctrlhost.transport.native import NativeTransport

    both = threading.Barrier(3, timeout=10)

    def meet(_asked: object) -> Json:
        both.wait()
        return Json({})

    server.on("GET", "/meet", Computed(meet))
    server.on("GET", "/x", Json({}))
    transport = NativeTransport(from_url(server.url, None, None, True), pool_size=1)
    threads = [threading.Thread(target=transport.request, args=("GET", "/meet")) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.connections == 3
    for _ in range(3):
        transport.request("GET", "/x")
    assert server.connections == 3, "one of them was kept"
    transport.close()


def test_a_request_is_encoded_correctly_on_the_wire(server, transport):
    server.on("POST", "/a b/ü", Json({}))
    transport.request("POST", "/a b/ü", query={"x": "1&2", "y": True, "z": None}, headers={"X-One": "1"})
    request = server.requests[0]
    assert (request.path, request.query, request.body) == ("/a b/ü", {"x": "1&2", "y": "true"}, b"")
    headers = {
        "host": f"127.0.0.1:{server.port}",
        "authorization": "Bearer secret",
        "x-one": "1",
        "content-length": "0",
    }
    assert headers.items() <= request.headers.items()


@pytest.mark.behaviour("scale/SC16")
@pytest.mark.parametrize("value", ["1\r\nX-Two: 2", "1\n", "1\r", "1\0", "€"])
def test_a_header_that_would_become_two_is_refused_before_anything_is_sent(server, transport, value):
    with pytest.raises(ValueError, match="X-One"):
        transport.request("GET", "/a", headers={"X-One": value})
    with pytest.raises(ValueError, match="X-One"):
        transport.stream("/a", headers={"X-One": value})
    with pytest.raises(ValueError, match="header name"):
        transport.request("GET", "/a", headers={"X One": "1"})
    assert server.connections == 0


@pytest.mark.behaviour("scale/SC15")
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirection_is_an_error_that_names_the_host(server, status):
    with StubApiServer() as other:
        target = f"http://me:pw@localhost:{other.port}/api/v1/pods"
        server.on("GET", "/api/v1/namespaces/default/pods/a", Json({}, status, {"Location": target}))
        server.on("GET", "/api/v1/pods", Json({}, status, {"Location": target}))
        client = Client(server.url, token="secret")
        for call in (lambda: client.get("v1", "Pod", "a"), lambda: client.transport.stream("/api/v1/pods")):
            with pytest.raises(ApiError, match=rf"answered {status} and points to localhost,") as caught:
                call()
            assert caught.value.status == status
            assert "pw" not in str(caught.value)
        assert (other.connections, len(server.requests)) == (0, 2)


class Reset(Answer):
    """A connection that is reset without a response."""

    def send(self, handler: Handler) -> None:
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        handler.close_connection = True


class Large(Answer):
    """An answer of 257 MiB."""

    def __init__(self, head: dict[str, str]) -> None:
        self.head = head

    def send(self, handler: Handler) -> None:
        handler.start(200, self.head)
        write = handler.chunk if "Transfer-Encoding" in self.head else handler.wfile.write
        for _ in range(257):
            write(b"x" * (1 << 20))
        handler.drop()


@pytest.mark.behaviour("scale/SC9")
def test_a_read_that_was_reset_is_repeated_and_a_write_is_not(server):
    path = "/api/v1/namespaces/default/pods"
    server.on("POST", path, Reset(), Json(pod("a", 1)))
    server.on("GET", f"{path}/a", Reset(), Json(pod("a", 1)))
    client = Client(server.url)
    with pytest.raises(TransportError) as caught:
        client.create({"apiVersion": "v1", "kind": "Pod", **pod("a", 0)})
    assert caught.value.sent is True
    assert [request.method for request in server.requests] == ["POST"]
    assert client.get("v1", "Pod", "a")["metadata"]["name"] == "a"
    assert [request.method for request in server.requests] == ["POST", "GET", "GET"]


@pytest.mark.behaviour("scale/SC9")
def test_a_read_that_is_reset_again_fails(server):
    path = "/api/v1/namespaces/default/pods/a"
    server.on("GET", path, Reset())
    with pytest.raises(TransportError) as caught:
        Client(server.url).get("v1", "Pod", "a")
    assert caught.value.sent is True
    assert len(server.requests) == 2


@pytest.mark.behaviour("scale/SC18")
@pytest.mark.parametrize("head", [{"Content-Length": str(257 << 20)}, {"Transfer-Encoding": "chunked"}, {}])
def test_an_answer_beyond_the_limit_is_an_error_that_says_it(server, transport, head):
    server.on("GET", "/x", Large(head))
    with pytest.raises(TransportError, match="the response is larger than 256 MiB") as caught:
        transport.request("GET", "/x")
    assert caught.value.sent is True
