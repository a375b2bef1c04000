"""WebSocket (RFC 6455): the handshake, and the frames of a stream. As in kube-apiserver, only watches use it."""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING

from wsproto import ConnectionType
from wsproto.connection import Connection
from wsproto.events import CloseConnection, Ping, TextMessage
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import generate_accept_token

from ctrlhost_sandbox.apimachinery.status import Failure, bad_request
from ctrlhost_sandbox.http.channel import payload

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctrlhost_sandbox.http.messages import Request

_KEY_BYTES = 16


def is_requested(request: Request) -> bool:
    """Return whether the client asks for a WebSocket."""
    options = request.headers.get("connection", "").lower()
    return request.headers.get("upgrade", "").lower() == "websocket" and "upgrade" in options


def handshake(request: Request) -> list[tuple[str, str]]:
    """Return the headers of the 101 response; 400 for an invalid request, 403 for one without an Origin."""
    headers = request.headers
    if "origin" not in headers:
        raise Failure(403, "Forbidden", "a WebSocket request needs the header Origin")
    if headers.get("sec-websocket-version") != "13":
        raise bad_request("the header Sec-WebSocket-Version must be 13")
    key = headers.get("sec-websocket-key", "").encode("latin-1")
    try:
        valid = len(binascii.a2b_base64(key, strict_mode=True)) == _KEY_BYTES
    except binascii.Error:
        valid = False
    if not valid:
        raise bad_request("the header Sec-WebSocket-Key must be 16 bytes in base64")
    answer = [("Upgrade", "websocket"), ("Connection", "Upgrade")]
    answer.append(("Sec-WebSocket-Accept", generate_accept_token(key).decode()))
    if protocol := headers.get("sec-websocket-protocol", "").partition(",")[0].strip():
        answer.append(("Sec-WebSocket-Protocol", protocol))
    return answer


class Frames:
    """The frames of one connection, after its handshake."""

    def __init__(self) -> None:
        """Start open."""
        self._connection = Connection(ConnectionType.SERVER)
        self.closed = False
        """Whether one side has closed the WebSocket."""

    def receive(self, data: bytes | memoryview) -> bytes:
        """Read frames of the client; return those that answer them. Its messages are ignored, as by kube-apiserver."""
        if self.closed:
            return b""
        self._connection.receive_data(bytes(data))
        answer = b""
        for event in self._connection.events():
            if isinstance(event, Ping):
                answer += self._connection.send(event.response())
            elif isinstance(event, CloseConnection):
                return answer + self.close(event.code)
        return answer

    def encode(self, chunks: Iterable[bytes]) -> bytes:
        """Frame each chunk of a stream as one text message."""
        if self.closed:
            return b""
        texts = (TextMessage(data=str(payload(chunk), "utf-8")) for chunk in chunks)
        return b"".join(map(self._connection.send, texts))

    def close(self, code: int = CloseReason.NORMAL_CLOSURE) -> bytes:
        """Return the frame that closes the WebSocket."""
        self.closed = True
        return self._connection.send(CloseConnection(code=code))
