"""A WebSocket to a pod: messages on numbered channels."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from websocket import ABNF, WebSocketException

from ctrlhost.errors import TransportError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctrlhost.transport.interface import HttpRequest, Transport

#: With the signal that a channel is closed (since Kubernetes 1.30), and without.
WITH_CLOSE, WITHOUT_CLOSE = "v5.channel.k8s.io", "v4.channel.k8s.io"
#: The bytes of a message: a socket that is writable takes as many without waiting.
PIECE = 16 * 1024
_CLOSE_CHANNEL = 255
#: Seconds in which the rest of a message arrives.
_STALL_TIMEOUT = 30.0


class PodChannels:
    """The channels of one connection, for one thread. `close` may be called from any."""

    def __init__(self, transport: Transport, request: HttpRequest, protocols: Sequence[str]) -> None:
        """Connect; ApiError if the server refuses it, TransportError if it does not answer."""
        self._what = request.what
        self._socket = transport.websocket(request, protocols)
        self._socket.settimeout(_STALL_TIMEOUT)

    def fileno(self) -> int:
        """Return the descriptor to wait for, unless something is `pending`."""
        return self._socket.sock.fileno() if self._socket.sock is not None else -1

    @property
    def pending(self) -> bool:
        """Whether there are bytes that were read from the descriptor already; TLS reads whole records."""
        pending = getattr(self._socket.sock, "pending", None)
        return pending is not None and pending() > 0

    def send(self, channel: int, data: bytes) -> None:
        """Send at most `PIECE` bytes on a channel."""
        with self._failing():
            self._socket.send_binary(bytes((channel,)) + data)

    def close_channel(self, channel: int) -> None:
        """End what is sent on a channel."""
        self.send(_CLOSE_CHANNEL, bytes((channel,)))

    def receive(self) -> tuple[int, bytes] | None:
        """Return the channel and the data of the next message, None at the end; a ping is one on channel -1."""
        with self._failing():
            opcode, frame = self._socket.recv_data_frame(control_frame=True)
        if opcode == ABNF.OPCODE_CLOSE:
            return None
        if opcode not in (ABNF.OPCODE_BINARY, ABNF.OPCODE_TEXT) or not frame.data:
            return -1, b""
        return frame.data[0], bytes(frame.data[1:])

    def close(self) -> None:
        """Drop the connection."""
        self._socket.shutdown()  # type: ignore[no-untyped-call]

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except (WebSocketException, OSError) as error:
            raise TransportError(f"{self._what}: the connection to the pod broke: {error}") from error
