"""Responses of many megabytes: complete, in order, and without blocking other clients."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest
from ctrlhost_sandbox import Sandbox

from tests.support.http_client import Api
from tests.support.objects import config_map, core

COUNT, SIZE = 30, 500_000
PATH = core("default", "configmaps")


@pytest.fixture(scope="module")
def plain() -> Iterator[Sandbox]:
    """A sandbox with 15 MB of objects, without TLS."""
    with Sandbox(insecure_http=True, controllers=()) as sandbox, Api(sandbox.url) as api:
        for number in range(COUNT):
            api.post(PATH, config_map(f"c{number:02}", {"k": "x" * SIZE})).expect(201)
        yield sandbox


def connect(sandbox: Sandbox) -> socket.socket:
    host, _, port = sandbox.url.rpartition("/")[2].rpartition(":")
    return socket.create_connection((host, int(port)), timeout=20)


def request(sandbox: Sandbox, path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {sandbox.url.rpartition('/')[2]}\r\n\r\n".encode()


def read_answer(file: socket.SocketIO) -> bytes:
    length = 0
    assert file.readline().split()[1] == b"200"
    while (line := file.readline()) != b"\r\n":
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return file.read(length)


def test_a_client_that_does_not_read_blocks_no_other(plain: Sandbox) -> None:
    with connect(plain) as slow, Api(plain.url) as api:
        slow.sendall(request(plain, PATH) + request(plain, "/version"))
        for _ in range(20):
            api.get(f"{PATH}/c00").expect(200)
        api.post(PATH, config_map("later")).expect(201)
        with slow.makefile("rb") as file:
            items = json.loads(read_answer(file))["items"]
            # The response to the pipelined request follows.
            assert "gitVersion" in json.loads(read_answer(file))
        assert [item["metadata"]["name"] for item in items] == [f"c{number:02}" for number in range(COUNT)]
        assert {len(item["data"]["k"]) for item in items} == {SIZE}
        api.delete(f"{PATH}/later").expect(200)


def test_a_client_may_disconnect_during_a_response(plain: Sandbox) -> None:
    with connect(plain) as gone:
        gone.sendall(request(plain, PATH))
        gone.recv(1000)
    with Api(plain.url) as api:
        assert len(api.get(PATH).expect(200)["items"]) == COUNT


def test_pipelined_requests_are_answered_in_order(plain: Sandbox) -> None:
    names = [f"c{number % COUNT:02}" for number in range(300)]
    with connect(plain) as line:
        line.sendall(request(plain, PATH))
        line.sendall(b"".join(request(plain, f"{PATH}/{name}?fields=x") for name in names))
        with line.makefile("rb") as file:
            assert len(json.loads(read_answer(file))["items"]) == COUNT
            assert [json.loads(read_answer(file))["metadata"]["name"] for _ in names] == names


def test_a_connection_that_ends_with_its_answer_ends_once(plain: Sandbox, caplog: pytest.LogCaptureFixture) -> None:
    closing = request(plain, PATH).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    for _ in range(5):
        with connect(plain) as line:
            line.sendall(closing)
            with line.makefile("rb") as file:
                assert len(json.loads(read_answer(file))["items"]) == COUNT
                assert not file.read()
    with Api(plain.url) as api:
        api.get("/version").expect(200)
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
