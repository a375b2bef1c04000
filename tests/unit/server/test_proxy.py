"""Requests that one server passes on to another one's Unix socket."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from starlette.responses import PlainTextResponse

from ctrlhost.server.listener import HttpServer
from ctrlhost.server.proxy import behind_proxy, proxied
from tests.support.other_user import needs_root, run_as_nobody

CONNECT = """
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
print(b"".join(iter(lambda: client.recv(1000), b"")).decode())
"""
REQUEST = b"GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"

Ask = Callable[..., bytes]


@pytest.fixture
def path() -> Iterator[Path]:
    with TemporaryDirectory() as directory:
        yield Path(directory) / "pages.sock"


@pytest.fixture
def ask(path: Path) -> Iterator[Ask]:
    """Return a function that sends bytes to a server in front of the socket, and returns all that comes."""
    retry: list[float | None] = [2.5]
    server = HttpServer("127.0.0.1:0", proxied(lambda: path, 60.0, lambda: retry[0]))
    server.start()
    host, port = server.address.split(":")

    def send(request: bytes = REQUEST, retry_after: float | None = 2.5) -> bytes:
        retry[0] = retry_after
        with socket.create_connection((host, int(port)), 30) as client:
            with contextlib.suppress(ConnectionError):
                client.sendall(request)
            return b"".join(iter(lambda: client.recv(1 << 16), b""))

    yield send
    assert server.stop(10)


@contextlib.contextmanager
def serving(path: Path, app: Any) -> Iterator[None]:
    server = HttpServer(f"unix:{path}", behind_proxy(app))
    server.start()
    yield
    assert server.stop(10)


@contextlib.contextmanager
def answering(path: Path, answer: bytes) -> Iterator[None]:
    """Answer one request at a Unix socket with these bytes, and close the connection."""

    def body() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(answer)

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        thread = threading.Thread(target=body)
        thread.start()
        yield
        thread.join(30)


def test_without_a_server_the_answer_says_when_to_retry(path: Path, ask: Ask) -> None:
    body = b"\r\n\r\nthe process of the plugin is down\n"
    answer = ask()
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nretry-after: 3\r\n" in answer.lower()
    assert answer.endswith(body)
    assert b"\r\nretry-after: 1\r\n" in ask(retry_after=0.0).lower()
    unknown = ask(retry_after=None)
    assert unknown.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after" not in unknown.lower()
    # What is left of a dead process.
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert ask().endswith(body)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-", b"nonsense\r\n\r\n"])
def test_a_server_that_ends_before_its_answer_is_down(path: Path, ask: Ask, answer: bytes) -> None:
    with answering(path, answer):
        assert ask().startswith(b"HTTP/1.1 503 ")


def test_an_answer_that_ends_early_is_cut(path: Path, ask: Ask) -> None:
    with answering(path, b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\npart"):
        answer = ask()
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\npart")


def test_informational_answers_are_passed_over(path: Path, ask: Ask) -> None:
    with answering(path, b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n"):
        assert ask().startswith(b"HTTP/1.1 204 No Content\r\n")


def test_an_answer_may_come_before_the_request_was_read(path: Path, ask: Ask) -> None:
    with serving(path, PlainTextResponse("too much\n", 413)):
        answer = ask(
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10000000\r\nConnection: close\r\n\r\n" + b"x" * 1000
        )
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert answer.endswith(b"\r\n\r\ntoo much\n")


def test_a_request_that_cannot_be_passed_on_is_the_clients_mistake(path: Path, ask: Ask) -> None:
    with serving(path, PlainTextResponse("fine\n")):
        two_hosts = REQUEST.replace(b"\r\n\r\n", b"\r\nHost: other\r\n\r\n")
        assert ask(two_hosts).startswith(b"HTTP/1.1 400 ")
        assert ask().endswith(b"fine\n")


def test_the_app_sees_the_client_and_the_scheme(path: Path, ask: Ask) -> None:
    seen = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            seen.append(scope)
            await PlainTextResponse("fine\n")(scope, receive, send)

    with serving(path, app):
        assert ask(b"GET /a HTTP/1.0\r\nX-Ctrlhost-Client: https 192.0.2.1 9\r\nTE: trailers\r\n\r\n").endswith(
            b"fine\n"
        )
    (scope,) = seen
    assert scope["client"][0] == "127.0.0.1"
    assert scope["scheme"] == "http"
    assert scope["headers"] == [(b"host", b"localhost")]


@needs_root
def test_a_connection_of_another_user_is_refused(path: Path, ask: Ask) -> None:
    with serving(path, PlainTextResponse("fine\n")):
        assert path.stat().st_mode & 0o777 == 0o600
        assert ask().endswith(b"fine\n")
        path.parent.chmod(0o755)
        path.chmod(0o666)
        assert run_as_nobody(CONNECT, str(path), imports="import socket, sys").startswith("HTTP/1.1 403 ")
        assert ask().endswith(b"fine\n")


def test_errors_below_the_api_are_json(path: Path, ask: Ask) -> None:
    answer = ask(b"GET /api/v1/keys/a/b HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert {b"content-type: application/json", b"retry-after: 3"} <= set(head.lower().split(b"\r\n"))
    said = json.loads(body)
    assert said["error"] == "the process of the plugin is down"
    assert "/api/v1/status" in said["hint"]
