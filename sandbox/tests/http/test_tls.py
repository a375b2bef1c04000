"""The TLS layer below connections: handshakes in pieces, large bodies, clients without TLS."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest
from ctrlhost_sandbox import Sandbox
from ctrlhost_sandbox.http import tls_layer

from tests.support.http_client import TABLE, Api
from tests.support.objects import config_map, core
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(controllers=()) as server:
        yield server


def address(sandbox: Sandbox) -> tuple[str, int]:
    return "127.0.0.1", int(sandbox.url.rpartition(":")[2])


def context(sandbox: Sandbox) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=sandbox.ca)


def ready(sandbox: Sandbox, *headers: str) -> bytes:
    lines = ["GET /readyz HTTP/1.1", f"Host: localhost:{address(sandbox)[1]}", *headers, "", ""]
    return "\r\n".join(lines).encode()


def connect(sandbox: Sandbox, using: ssl.SSLContext | None = None) -> ssl.SSLSocket:
    plain = socket.create_connection(address(sandbox), timeout=20)
    return (using or context(sandbox)).wrap_socket(plain, server_hostname="localhost")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_1_2_and_1_3_are_supported(sandbox: Sandbox, version: ssl.TLSVersion) -> None:
    wanted = context(sandbox)
    wanted.minimum_version = wanted.maximum_version = version
    with connect(sandbox, wanted) as connection:
        connection.sendall(ready(sandbox))
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")


def test_a_client_with_another_authority_cannot_connect(sandbox: Sandbox) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(sandbox, ssl.create_default_context())


def test_a_handshake_may_arrive_byte_by_byte(sandbox: Sandbox) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context(sandbox).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with closing(socket.create_connection(address(sandbox), timeout=20)) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sent = False
        while True:
            try:
                if not sent:
                    tls.do_handshake()
                    tls.write(ready(sandbox))
                    sent = True
                assert tls.read(4096).startswith(b"HTTP/1.1 200")
                return
            except ssl.SSLWantReadError:
                for byte in outgoing.read():
                    plain.sendall(bytes([byte]))
                incoming.write(plain.recv(7))


@pytest.mark.parametrize(
    "first", [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"\x00" * 3000]
)
def test_connections_without_tls_are_closed(sandbox: Sandbox, first: bytes) -> None:
    with closing(socket.create_connection(address(sandbox), timeout=20)) as plain:
        plain.sendall(first)
        answer = b""
        with suppress(ConnectionResetError):
            while more := plain.recv(4096):
                answer += more
        assert (b"Client sent an HTTP request to an HTTPS server." in answer) is first.startswith(b"GET")
    with connect(sandbox) as connection:
        connection.sendall(ready(sandbox))
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")


def test_an_unfinished_handshake_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_layer, "HANDSHAKE_SECONDS", 0.05)
    with Sandbox() as sandbox, closing(socket.create_connection(address(sandbox), timeout=20)) as plain:
        plain.sendall(b"\x16\x03\x01")
        with suppress(ConnectionResetError):
            assert plain.recv(1) == b""


def test_closing_the_connection_ends_a_watch(sandbox: Sandbox) -> None:
    with Api(sandbox.url, sandbox.ca, sandbox.token) as api:
        context = sandbox._context
        assert context is not None
        api.watch(core("default", "configmaps")).close()
        eventually(lambda: not context.watches)


def test_the_server_sends_a_close_notification(sandbox: Sandbox) -> None:
    with connect(sandbox) as connection:
        connection.sendall(ready(sandbox, "Connection: close"))
        answer = b""
        # Without a close notification this would raise.
        while more := connection.recv(4096):
            answer += more
        assert answer.endswith(b"ok")


def test_bodies_and_responses_of_many_records_arrive_complete(sandbox: Sandbox) -> None:
    with Api(sandbox.url, sandbox.ca, sandbox.token) as api:
        text = "".join(f"{number:07}" for number in range(100_000))
        for name in ("large-1", "large-2"):
            api.post(core("default", "configmaps"), config_map(name, {"k": text})).expect(201)
        items = api.get(core("default", "configmaps")).expect(200)["items"]
        assert [item["data"]["k"] == text for item in items] == [True, True]


def test_watches_of_one_encoding_differ_only_in_the_column_definitions(sandbox: Sandbox) -> None:
    with Api(sandbox.url, sandbox.ca, sandbox.token) as api:
        path = core("kube-public", "configmaps")
        started = api.revision(path)
        early = [api.watch(path, accept, resourceVersion=started) for accept in (None, None, TABLE, TABLE)]
        api.post(path, config_map("a", labels={"color": "red"})).expect(201)
        first = [watch.next() for watch in early]
        assert first[0] == first[1]
        assert first[2] == first[3]
        assert first[2]["object"]["columnDefinitions"]
        late = api.watch(path, TABLE, resourceVersion=api.revision(path))
        red = api.watch(path, resourceVersion=api.revision(path), labelSelector="color=red")
        api.patch(f"{path}/a", {"metadata": {"labels": {"color": "blue"}}}).expect(200)
        second = [watch.next() for watch in early]
        assert second[0] == second[1]
        assert second[2] == second[3]
        assert second[2]["object"]["columnDefinitions"] is None
        opened = late.next()
        assert opened["object"]["columnDefinitions"]
        assert opened["object"]["rows"] == second[2]["object"]["rows"]
        left = red.next()
        assert (left["type"], left["object"]["metadata"]["labels"]) == ("DELETED", {"color": "red"})
        assert json.dumps(second[0]["object"]).count("blue") == 1
