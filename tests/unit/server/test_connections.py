"""How many connections a server keeps, and for how long."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from starlette.responses import PlainTextResponse, StreamingResponse

from ctrlhost._core import ListenerCounts, ServerTls
from ctrlhost.server.limits import ADMIN, METRICS, PROBES, STATUS, Limits, limited
from ctrlhost.server.listener import Front, HttpServer
from tests.support.tls_files import Authority
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour
GET = b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n"
SMALL = replace(STATUS, connections=3)


class Rig:
    """A server whose app answers `held` when the test allows it, and `stream` without end."""

    def __init__(self, limits: Limits, tls: ServerTls | None = None) -> None:
        self.counts = ListenerCounts()
        self.began = threading.Semaphore(0)
        self.free = threading.Event()
        self.left = threading.Event()
        self.server = HttpServer("127.0.0.1:0", self.answer, limits=limits, counts=self.counts, tls=tls, front=Front())
        self.server.start()
        self.clients = contextlib.ExitStack()

    async def answer(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        response: Any = PlainTextResponse("fine\n")
        if scope["path"] == "/held":
            self.began.release()
            while not await asyncio.to_thread(self.free.wait, 0.01):
                pass
        elif scope["path"] == "/fails":
            raise RuntimeError("on purpose")
        elif scope["path"] == "/cut":
            response = StreamingResponse(self.broken())
        elif scope["path"] == "/waits":
            self.began.release()
            while (await receive())["type"] != "http.disconnect":
                pass
            self.left.set()
            return
        elif scope["path"] == "/echo":
            await self.echo(receive, send)
            return
        elif scope["path"] == "/large":
            response = PlainTextResponse("x" * (16 << 20))
        elif scope["path"] == "/client":
            response = PlainTextResponse(str(scope["client"][0]))
        elif scope["path"] == "/stream":
            response = StreamingResponse(self.events(), media_type="text/event-stream")
        await response(scope, receive, send)

    async def broken(self) -> Any:
        yield b"part"
        raise RuntimeError("on purpose")

    async def echo(self, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        more = True
        while more:
            message = await receive()
            more = message.get("more_body", False)
            await send({"type": "http.response.body", "body": message["body"], "more_body": more})

    async def events(self) -> Any:
        while True:
            yield b": here\n\n"
            await asyncio.sleep(0.01)

    def connect(self, sends: bytes = b"") -> socket.socket:
        host, port = self.server.address.split(":")
        client = self.clients.enter_context(socket.create_connection((host, int(port)), 30))
        client.sendall(sends)
        return client


Start = Callable[..., Rig]


@pytest.fixture
def start() -> Iterator[Start]:
    rigs: list[Rig] = []

    def started(limits: Limits = SMALL, **more: Any) -> Rig:
        rigs.append(Rig(limits, **more))
        return rigs[-1]

    yield started
    for rig in rigs:
        rig.free.set()
        assert rig.server.stop(30)
        rig.clients.close()


def read(client: socket.socket) -> bytes:
    """Return all that comes until the end of the connection."""
    answer = b""
    with contextlib.suppress(ConnectionError):
        while piece := client.recv(1 << 16):
            answer += piece
    return answer


def answered(client: socket.socket, request: bytes = GET % b"") -> bool:
    """Return whether a connection still answers."""
    try:
        client.sendall(request)
        answer = b""
        while not answer.endswith(b"fine\n") and (piece := client.recv(1 << 16)):
            answer += piece
        return answer.startswith(b"HTTP/1.1 200 ")
    except ConnectionError:
        return False


def test_the_limits_are_those_of_the_specification() -> None:
    assert (PROBES.connections, METRICS.connections, STATUS.connections, ADMIN.connections) == (64, 32, 128, 8)
    assert (PROBES.idle, METRICS.idle, STATUS.idle, ADMIN.idle) == (30, 60, 60, 5)
    assert (PROBES.answer, METRICS.answer, STATUS.answer, ADMIN.answer) == (1, 10, 10, 60)
    assert (PROBES.body, METRICS.body, STATUS.body, ADMIN.body) == (0, 0, 0, 64 << 10)
    assert {(limits.header, limits.header_bytes) for limits in (PROBES, METRICS, STATUS, ADMIN)} == {(5.0, 16 << 10)}


@behaviour("operations/OP5")
def test_a_full_server_closes_the_longest_idle_connection(start: Start) -> None:
    rig = start(replace(PROBES, connections=3))
    clients = [rig.connect() for _ in range(3)]
    # The first one is used last.
    assert all(answered(client) for client in (clients[1], clients[2], clients[0]))
    assert answered(rig.connect())
    assert read(clients[1]) == b""
    assert answered(clients[0])
    assert answered(clients[2])
    assert rig.counts.rejected == {"full": 1}


@behaviour("operations/OP6")
def test_a_server_full_of_requests_closes_the_new_connection(start: Start) -> None:
    rig = start(replace(METRICS, connections=3))
    busy = [rig.connect(GET % b"held") for _ in range(3)]
    for _ in busy:
        assert rig.began.acquire(timeout=30)
    assert read(rig.connect(GET % b"")) == b""
    assert rig.counts.rejected == {"full": 1}
    rig.free.set()
    assert all(client.recv(1 << 16).startswith(b"HTTP/1.1 200 ") for client in busy)


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHo", GET % b""])
def test_a_header_that_does_not_end_is_closed(start: Start, sent: bytes) -> None:
    rig = start(replace(SMALL, header=0.3))
    client = rig.connect()
    if sent.endswith(b"\r\n\r\n"):
        assert answered(client, sent)
        sent = b"GET"
    client.sendall(sent)
    assert read(client) == b""
    assert rig.counts.rejected == {"header_timeout": 1}


def test_an_idle_connection_is_closed_and_not_counted(start: Start) -> None:
    rig = start(replace(SMALL, idle=1, header=0.3))
    client = rig.connect()
    assert answered(client)
    assert read(client) == b""
    assert rig.counts.rejected == {}


@behaviour("operations/OP9")
@pytest.mark.parametrize(
    ("request_sent", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nA: " + b"a" * (17 << 10) + b"\r\n\r\n", 431),
        # In parts, and never ending.
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nA: " + b"a" * (17 << 10), 431),
        (b"GET /" + b"a" * (17 << 10) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody", 413),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", 413),
    ],
)
def test_long_headers_and_bodies_are_refused(start: Start, request_sent: bytes, status: int) -> None:
    rig = start()
    answer = read(rig.connect(request_sent))
    head = answer.partition(b"\r\n\r\n")[0].lower()
    assert head.startswith(b"http/1.1 %d " % status)
    assert b"connection: close" in head
    assert b"x-content-type-options: nosniff" in head
    assert rig.counts.requests == {status: 1}


def test_a_malformed_request_is_answered_and_does_not_fill_the_log(start: Start, caplog) -> None:
    rig = start()
    assert read(rig.connect(b"\x16\x03\x01 hello\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
    assert rig.counts.requests == {400: 1}
    assert not caplog.records


def test_a_stream_that_is_not_read_does_not_hold_up_the_end(start: Start, caplog) -> None:
    rig = start()
    rig.connect(GET % b"stream").recv(10)
    eventually(lambda: rig.counts.requests.get(200) == 1)
    rig.connect()
    assert rig.server.stop(30)
    assert not caplog.records


def test_an_answer_that_takes_too_long_is_504(start: Start) -> None:
    limits = replace(SMALL, answer=0.2)
    rig = start(limits)
    server = HttpServer("127.0.0.1:0", limited(rig.answer, limits), limits=limits)
    server.start()
    host, port = server.address.split(":")
    with socket.create_connection((host, int(port)), 30) as client:
        client.sendall(GET % b"held")
        answer = read(client)
    assert answer.startswith(b"HTTP/1.1 504 ")
    assert answer.endswith(b"error: no answer within 0.2 s\n")
    assert server.stop(30)


def test_a_server_with_a_certificate_serves_https(start: Start, tmp_path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("localhost")
    rig = start(replace(SMALL, connections=1), tls=ServerTls(certificate.encode(), key.encode()))
    # A connection before its handshake has a place, which the next one takes.
    silent = rig.connect()
    client = ssl.create_default_context(cadata=authority.pem)
    host, port = rig.server.address.split(":")
    with client.wrap_socket(socket.create_connection((host, int(port)), 30), server_hostname="localhost") as secure:
        secure.sendall(GET % b"")
        assert secure.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
    assert read(silent) == b""
    assert not read(rig.connect(GET % b"")).startswith(b"HTTP/1.1 200 ")
    eventually(lambda: rig.counts.rejected == {"full": 1, "tls": 1})


def test_clients_that_read_nothing_do_not_keep_others_out(start: Start) -> None:
    rig = start(replace(SMALL, unread=0.2, answer=0.1))
    for _ in range(SMALL.connections):
        # The second answer waits until the first one, of which it reads nothing, is sent.
        assert rig.connect(GET % b"large" * 2).recv(1, socket.MSG_PEEK)
    assert eventually(lambda: answered(rig.connect()))


def test_a_client_cannot_claim_another_address(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    rig = start()
    header = b"Host: localhost\r\nX-Forwarded-For: 192.0.2.1\r\nConnection: close\r\n"
    answer = read(rig.connect(b"GET /client HTTP/1.1\r\n" + header + b"\r\n"))
    assert answer.endswith(b"\r\n127.0.0.1")


@behaviour("faster/FA19")
def test_certificates_are_replaced_beside_ten_thousand_requests(start: Start, tmp_path) -> None:
    authority = Authority(tmp_path)

    def pair() -> tuple[bytes, bytes]:
        certificate, key = authority.issue("localhost")
        return certificate.encode(), key.encode()

    tls = ServerTls(*pair())
    rig = start(replace(SMALL, connections=16), tls=tls)
    host, port = rig.server.address.split(":")
    context = ssl.create_default_context(cadata=authority.pem)

    def ask() -> set[tuple[int, bytes]]:
        answers = set()
        connection = http.client.HTTPSConnection("localhost", int(port), timeout=30, context=context)
        with contextlib.closing(connection) as client:
            client.connect()
            own = client.sock
            for _ in range(1250):
                client.request("GET", "/", headers={"Host": "localhost"})
                answer = client.getresponse()
                answers.add((answer.status, answer.read()))
            assert client.sock is own
        return answers

    shown = set()
    with ThreadPoolExecutor(8) as pool:
        asking = [pool.submit(ask) for _ in range(8)]
        while not all(asked.done() for asked in asking):
            tls.replace(*(new := pair()))
            with (
                socket.create_connection((host, int(port)), 30) as plain,
                context.wrap_socket(plain, server_hostname="localhost") as secure,
            ):
                certificate = secure.getpeercert(binary_form=True)
            assert certificate == ssl.PEM_cert_to_DER_cert(new[0].decode())
            shown.add(certificate)
    assert [asked.result() for asked in asking] == [{(200, b"fine\n")}] * 8
    assert len(shown) > 1
    assert rig.counts.requests == {200: 10_000}
    assert rig.counts.rejected == {}


def test_a_request_is_read_as_far_as_the_app_wants_it(start: Start) -> None:
    rig = start(replace(STATUS, unread=30))
    client = rig.connect(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
    piece = b"#" * 1000
    for _ in range(60):
        client.sendall(b"3e8\r\n" + piece + b"\r\n")
    client.sendall(b"0\r\n\r\nGET /more HTTP/1.0\r\n\r\n")
    answer = read(client)
    assert answer.count(b"HTTP/1.1 200 ") + answer.count(b"HTTP/1.0 200 ") == 2
    assert answer.count(b"#") == 60_000


def test_an_app_learns_that_the_client_has_left(start: Start) -> None:
    rig = start()
    client = rig.connect(GET % b"waits")
    assert rig.began.acquire(timeout=30)
    client.close()
    assert rig.left.wait(30)


@pytest.mark.parametrize(
    "request_sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_a_request_without_one_host_is_malformed(start: Start, request_sent: bytes) -> None:
    rig = start()
    assert read(rig.connect(request_sent)).startswith(b"HTTP/1.1 400 ")
    assert rig.counts.requests == {400: 1}


def test_an_app_that_fails_is_answered_500_or_cut(start: Start, caplog) -> None:
    rig = start()
    answer = read(rig.connect(GET % b"fails"))
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert answer.endswith(b"error: the host failed to answer\n")
    cut = read(rig.connect(GET % b"cut"))
    assert cut.startswith(b"HTTP/1.1 200 ")
    assert not cut.endswith(b"0\r\n\r\n")
    assert [record.getMessage() for record in caplog.records] == [
        "GET /fails failed: on purpose",
        "GET /cut failed: on purpose",
    ]
