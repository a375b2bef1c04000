"""Watches over WebSockets, as fabric8 opens them; each test runs on the sandbox and on a real kube-apiserver."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
import websocket
from ctrlhost_sandbox import Sandbox

from tests.support.control_plane import ControlPlane
from tests.support.http_client import Api, names
from tests.support.objects import config_map, core

UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "keep-alive, Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


@pytest.fixture
def connect(each_api: Api, control_plane: ControlPlane) -> Callable[..., websocket.WebSocket]:
    """Open a WebSocket to a path of the server."""
    del control_plane

    def opened(path: str, **options: Any) -> websocket.WebSocket:
        context = each_api.pool.connection_pool_kw["ssl_context"]
        assert isinstance(context, ssl.SSLContext)
        address = each_api.url.replace("https://", "wss://")
        header = [f"Authorization: Bearer {each_api.token}"]
        return websocket.create_connection(
            address + path, timeout=20, sslopt={"context": context}, header=header, **options
        )

    return opened


def event(socket: websocket.WebSocket) -> tuple[str, dict[str, Any]]:
    """Return the type and the object of the next event, which is one text message."""
    opcode, data = socket.recv_data()
    assert opcode == websocket.ABNF.OPCODE_TEXT
    assert data.endswith(b"\n")
    message = json.loads(data)
    assert message.keys() == {"type", "object"}
    return message["type"], message["object"]


@pytest.mark.behaviour("findings/FS4")
def test_a_watch_over_a_websocket(each_api: Api, connect: Callable[..., websocket.WebSocket], namespace: str) -> None:
    path = core(namespace, "configmaps")
    version = each_api.revision(path)
    socket = connect(f"{path}?watch=true&fieldSelector=metadata.name%3Da&resourceVersion={version}")
    with closing(socket):
        assert socket.getstatus() == 101
        # Long texts take frames with a longer header.
        values = ["é", "x" * 300, "y" * 100_000]
        each_api.post(path, config_map("a", {"k": values[0]})).expect(201)
        each_api.post(path, config_map("b")).expect(201)
        for value in values[1:]:
            each_api.put(f"{path}/a", config_map("a", {"k": value})).expect(200)
        each_api.delete(f"{path}/a").expect(200)
        events = [event(socket) for _ in range(4)]
        assert [what for what, _ in events] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
        assert [obj["data"]["k"] for _, obj in events] == [*values, values[-1]]
        # Messages of the client have no effect, and it may close.
        socket.send("ignored")
        each_api.post(path, config_map("a")).expect(201)
        assert event(socket)[0] == "ADDED"
        socket.send_close()
        opcode, _ = socket.recv_data()
        assert opcode == websocket.ABNF.OPCODE_CLOSE
        with pytest.raises(websocket.WebSocketConnectionClosedException):
            socket.recv_data()


@pytest.mark.behaviour("findings/FS4")
def test_a_websocket_answers_pings(connect: Callable[..., websocket.WebSocket], namespace: str) -> None:
    path = core(namespace, "configmaps")
    with closing(connect(f"{path}?watch=true&fieldSelector=metadata.name%3Dmissing")) as socket:
        socket.ping("hello")
        opcode, frame = socket.recv_data_frame(control_frame=True)
        assert (opcode, frame.data) == (websocket.ABNF.OPCODE_PONG, b"hello")


@pytest.mark.behaviour("findings/FS4")
def test_a_watch_that_ends_closes_its_websocket(connect: Callable[..., websocket.WebSocket], namespace: str) -> None:
    path = core(namespace, "configmaps")
    with closing(connect(f"{path}?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Dmissing")) as socket:
        opcode, data = socket.recv_data()
        assert (opcode, data) == (websocket.ABNF.OPCODE_CLOSE, (1000).to_bytes(2))
        with pytest.raises(websocket.WebSocketConnectionClosedException):
            socket.recv_data()


@pytest.mark.behaviour("findings/FS4")
def test_only_a_watch_changes_the_protocol(each_api: Api, namespace: str) -> None:
    path = core(namespace, "configmaps")
    each_api.post(path, config_map("a")).expect(201)
    headers = {**UPGRADE, "Origin": each_api.url}
    assert "a" in names(each_api.request("GET", path, headers=headers))
    each_api.request("GET", f"{path}/missing", headers=headers).fails(404, "NotFound")
    # The connection can be used again.
    assert "a" in names(each_api.get(path))


@pytest.mark.behaviour("findings/FS4")
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"Origin": None}, 403),
        ({"Sec-WebSocket-Version": "8"}, 400),
        ({"Sec-WebSocket-Key": ""}, 400),
    ],
)
def test_a_bad_handshake_is_refused(each_api: Api, namespace: str, changes: dict[str, str | None], code: int) -> None:
    path = core(namespace, "configmaps")
    headers = {**UPGRADE, "Origin": each_api.url, **changes}
    sent = {name: value for name, value in headers.items() if value is not None}
    assert each_api.request("GET", path, headers=sent, watch="true").status == code


@pytest.mark.behaviour("findings/FS4")
def test_the_servers_own_address_is_an_allowed_origin(server: Sandbox, api: Api) -> None:
    path = "/api/v1/namespaces"
    port = server.url.rpartition(":")[2]
    for origin in (server.url, server.url.upper()):
        api.request("GET", path, headers={"Origin": origin}).expect(200)
    tunnel = {"Host": "localhost:9443", "Origin": "https://localhost:9443"}
    api.request("GET", path, headers=tunnel).expect(200)
    for origin in ("null", "", f"https://localhost:{port}", "http://127.0.0.1:3000", f"https://evil.example:{port}"):
        api.request("GET", path, headers={"Origin": origin}).fails(403, "Forbidden")
    both = {"Host": "evil.example", "Origin": "https://evil.example"}
    api.request("GET", path, headers=both).fails(403, "Forbidden")
