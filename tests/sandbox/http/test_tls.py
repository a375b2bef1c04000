"""The layer of TLS under connections: what comes in pieces, at once, or not as TLS at all."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from ctrlhost.sandbox import Sandbox
from ctrlhost.sandbox.http import tls_layer
from tests.support.http_client import TABLE, Api
from tests.support.objects import config_map, core
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as server:
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
def test_both_versions_are_spoken(sandbox: Sandbox, version: ssl.TLSVersion) -> None:
    wanted = context(sandbox)
    wanted.minimum_version = wanted.maximum_version = version
    with connect(sandbox, wanted) as connection:
        connection.sendall(ready(sandbox))
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")


def test_a_client_that_trusts_another_authority_is_told_nothing(sandbox: Sandbox) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(sandbox, ssl.create_default_context())


def test_a_handshake_may_come_byte_by_byte(sandbox: Sandbox) -> None:
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
def test_what_is_not_tls_is_shut_out(sandbox: Sandbox, first: bytes) -> None:
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


def test_a_handshake_that_never_ends_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_layer, "HANDSHAKE_SECONDS", 0.05)
    with Sandbox() as sandbox, closing(socket.create_connection(address(sandbox), timeout=20)) as plain:
        plain.sendall(b"\x16\x03\x01")
        with suppress(ConnectionResetError):
            assert plain.recv(1) == b""


def test_the_client_ends_a_watch_by_closing(sandbox: Sandbox) -> None:
    with Api(sandbox.url, sandbox.ca, sandbox.token) as api:
        context = sandbox._context
        assert context is not None
        api.watch(core("default", "configmaps")).close()
        eventually(lambda: not context.watches)


def test_the_server_says_that_nothing_more_comes(sandbox: Sandbox) -> None:
    with connect(sandbox) as connection:
        connection.sendall(ready(sandbox, "Connection: close"))
        answer = b""
        # Without the server's closing word this would raise.
        while more := connection.recv(4096):
            answer += more
        assert answer.endswith(b"ok")


def test_bodies_and_answers_of_many_records_arrive_whole(sandbox: Sandbox) -> None:
    with Api(sandbox.url, sandbox.ca, sandbox.token) as api:
        text = "".join(f"{number:07}" for number in range(100_000))
        for name in ("large-1", "large-2"):
            api.post(core("default", "configmaps"), config_map(name, {"k": text})).expect(201)
        items = api.get(core("default", "configmaps")).expect(200)["items"]
        assert [item["data"]["k"] == text for item in items] == [True, True]


def test_watchers_in_one_form_see_the_same_bytes_but_for_the_heads_of_a_table(sandbox: Sandbox) -> None:
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
