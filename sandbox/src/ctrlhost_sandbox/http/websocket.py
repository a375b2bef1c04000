"""WebSocket (RFC 6455): the handshake, and the frames of a stream or a conversation.

As in kube-apiserver, only watches and connections to pods use it.
"""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING

from wsproto import ConnectionType
from wsproto.connection import Connection
from wsproto.events import BytesMessage, CloseConnection, Message, Ping, TextMessage
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import generate_accept_token

from ctrlhost_sandbox.apimachinery.status import Failure, bad_request
from ctrlhost_sandbox.http.channel import payload

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctrlhost_sandbox.http.messages import Request

_KEY_BYTES = 16
_MAX_MESSAGE = 1024 * 1024


def is_requested(request: Request) -> bool:
    """Return whether the client asks for a WebSocket."""
    options = request.headers.get("connection", "").lower()
    return request.headers.get("upgrade", "").lower() == "websocket" and "upgrade" in options


def handshake(request: Request, protocols: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return the headers of the 101 response; 400 for an invalid request, 403 for one that is not accepted.

    Of a conversation `protocols` are those that the server speaks. A watch needs an Origin, as in kube-apiserver.
    """
    headers = request.headers
    if not protocols and "origin" not in headers:
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
    offered = [name.strip() for name in headers.get("sec-websocket-protocol", "").split(",")]
    if protocols:
        spoken = next((name for name in offered if name in protocols), None)
        if spoken is None:
            text = f"unable to negotiate protocol: client supports {offered}, server accepts {list(protocols)}"
            raise Failure(403, "Forbidden", text)
    else:
        spoken = offered[0]
    if spoken:
        answer.append(("Sec-WebSocket-Protocol", spoken))
    return answer


class Frames:
    """The frames of one connection, after its handshake."""

    def __init__(self, *, binary: bool = False) -> None:
        """Start open; messages to the client are `binary`, or texts."""
        self._connection = Connection(ConnectionType.SERVER)
        self._binary = binary
        self._message = b""
        self.closed = False
        """Whether one side has closed the WebSocket."""

    def receive(self, data: bytes | memoryview) -> tuple[bytes, list[bytes]]:
        """Read frames of the client; return those that answer them, and its whole messages."""
        answer: bytes = b""
        messages: list[bytes] = []
        if self.closed:
            return answer, messages
        self._connection.receive_data(bytes(data))
        for event in self._connection.events():
            if isinstance(event, Ping):
                answer += self._connection.send(event.response())
            elif isinstance(event, CloseConnection):
                return answer + self.close(event.code), messages
            elif isinstance(event, Message):
                self._message += event.data.encode() if isinstance(event.data, str) else bytes(event.data)
                if len(self._message) > _MAX_MESSAGE:
                    return answer + self.close(CloseReason.MESSAGE_TOO_BIG), messages
                if event.message_finished:
                    messages.append(self._message)
                    self._message = b""
        return answer, messages

    def encode(self, chunks: Iterable[bytes]) -> bytes:
        """Frame each chunk of a stream as one message."""
        if self.closed:
            return b""
        return b"".join(map(self._connection.send, map(self._framed, chunks)))

    def _framed(self, chunk: bytes) -> BytesMessage | TextMessage:
        data = payload(chunk)
        return BytesMessage(data=bytes(data)) if self._binary else TextMessage(data=str(data, "utf-8"))

    def close(self, code: int = CloseReason.NORMAL_CLOSURE) -> bytes:
        """Return the frame that closes the WebSocket."""
        self.closed = True
        return self._connection.send(CloseConnection(code=code))
