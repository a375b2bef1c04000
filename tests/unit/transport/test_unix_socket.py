"""Requests and streams over a Unix socket."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctrlhost.errors import TransportError
from ctrlhost.kubeconfig.connection import from_unix_socket
from ctrlhost.transport.native import NativeTransport


@pytest.fixture
def path() -> Iterator[Path]:
    """A path that is short enough for a socket."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory, "server.sock")


@pytest.fixture
def listener(path: Path) -> Iterator[socket.socket]:
    """A socket on which the test answers."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
        sock.listen()
        yield sock


def answering(listener: socket.socket, *answers: bytes) -> list[bytes]:
    """Answer requests, each on the connection that it comes on; return the heads that came."""
    heads: list[bytes] = []

    def run() -> None:
        connection, _ = listener.accept()
        with connection:
            for answer in answers:
                heads.append(connection.recv(65536))
                connection.sendall(answer)

    threading.Thread(target=run, daemon=True).start()
    return heads


def test_requests_share_a_connection(path: Path, listener: socket.socket) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    heads = answering(listener, answer, answer)
    transport = NativeTransport(from_unix_socket(str(path)))
    assert [transport.request("GET", "/a", query={"b": 1}).body for _ in range(2)] == [b"ok", b"ok"]
    assert [head.split(b"\r\n")[0] for head in heads] == [b"GET /a?b=1 HTTP/1.1"] * 2
    transport.close()


def test_a_stream_is_read_as_it_arrives(path: Path, listener: socket.socket) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    answering(listener, head + b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")
    stream = NativeTransport(from_unix_socket(str(path))).stream("/a")
    received = b""
    while piece := stream.read():
        received += piece
    assert received == b"onetwo"
    stream.close()


def test_a_proxy_of_the_environment_is_not_for_sockets(
    path: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    answering(listener, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    assert NativeTransport(from_unix_socket(str(path))).request("GET", "/").body == b"ok"


@pytest.mark.parametrize("gone", [True, False])
def test_without_a_server_nothing_was_sent(path: Path, gone: bool) -> None:
    if not gone:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(path))
    transport = NativeTransport(from_unix_socket(str(path)))
    for call in (
        lambda: transport.request("GET", "/a"),
        lambda: transport.stream("/a", timeout=5),
    ):
        with pytest.raises(TransportError, match=os.strerror(2 if gone else 111)) as raised:
            call()
        assert not raised.value.sent
