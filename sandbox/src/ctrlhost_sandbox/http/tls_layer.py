"""TLS between a connection and its socket.

asyncio's own layer costs several times as much as encrypting a watch event. This one has no queues: written data is
encrypted and passed to the socket's transport at once, whose limits then apply to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost_sandbox.http.http import Connection

HANDSHAKE_SECONDS = 30.0
_RECORD = 16 * 1024
_RECEIVED = 64 * 1024
_NOT_TLS = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"


class ReadBuffer:
    """Buffers for reading; one for all connections of a loop, since each consumes its bytes at once.

    Buffers that are allocated and freed at each read fragment the memory between long-lived objects.
    """

    def __init__(self) -> None:
        """Allocate a buffer for one read of a socket, and one for a TLS record."""
        self.received = memoryview(bytearray(_RECEIVED))
        self.plain = bytearray(_RECORD)
        self.plain_view = memoryview(self.plain)


class TlsLayer(asyncio.BufferedProtocol, asyncio.Transport):
    """A protocol to the socket's transport, and a transport to the protocol above it."""

    def __init__(self, context: ssl.SSLContext, inner: Connection, buffer: ReadBuffer) -> None:
        """Serve `inner`, which is connected once the handshake is done, and does not keep the buffers it receives."""
        super().__init__()
        self._inner = inner
        self._buffer = buffer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._socket = cast("asyncio.Transport", None)
        self._timer: asyncio.TimerHandle | None = None
        self._established = False

    # the protocol to the socket's transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the handshake's time-out."""
        self._socket = cast("asyncio.Transport", transport)
        self._timer = asyncio.get_running_loop().call_later(HANDSHAKE_SECONDS, self._socket.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forward it, if the connection was established."""
        if self._timer is not None:
            self._timer.cancel()
        if self._established:
            self._inner.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next read."""
        del sizehint
        return self._buffer.received

    def buffer_updated(self, nbytes: int) -> None:
        """Decrypt received bytes and forward them."""
        buffer = self._buffer
        self._incoming.write(buffer.received[:nbytes])
        try:
            if not self._established:
                self._tls.do_handshake()
                self._establish()
            while not self._socket.is_closing():
                count = cast("int", self._tls.read(_RECORD, buffer.plain))
                if not count:
                    self.close()
                    return
                self._inner.data_received(buffer.plain_view[:count])
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            # Send the alert, if any; a plain HTTP client gets an HTTP response instead.
            alert = self._outgoing.read()
            self._socket.write(_NOT_TLS if error.reason == "HTTP_REQUEST" else alert)
            self._socket.close()

    def eof_received(self) -> bool | None:
        """Return None, so that the transport closes itself: TLS has no half-open connections."""
        return None

    def pause_writing(self) -> None:
        """Forward that the send buffer is full."""
        if self._established:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Forward that the client reads again."""
        if self._established:
            self._inner.resume_writing()

    def _establish(self) -> None:
        self._established = True
        if self._timer is not None:
            self._timer.cancel()
        self._flush()
        self._inner.connection_made(self)

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._socket.write(self._outgoing.read())

    # the transport to the protocol above

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the client's verified certificate for `peercert`, None if it has none; else what the socket has."""
        return self._tls.getpeercert() if name == "peercert" else self._socket.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt `data`, which is not empty, and send it."""
        if not self._socket.is_closing():
            self._tls.write(data)
            self._socket.write(self._outgoing.read())

    def close(self) -> None:
        """Send a close notification, and close once everything is sent."""
        if not self._socket.is_closing():
            # `unwrap` would wait for the client's notification, which is not needed.
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()
            self._flush()
            self._socket.close()

    def abort(self) -> None:
        """Close without sending buffered data."""
        self._socket.abort()

    def is_closing(self) -> bool:
        """Return whether the connection is closing."""
        return self._socket.is_closing()

    def get_write_buffer_size(self) -> int:
        """Return the number of unsent bytes."""
        return self._socket.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set when the protocol above is paused."""
        self._socket.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        """Stop reading from the socket."""
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading from the socket."""
        self._socket.resume_reading()


def layered(context: ssl.SSLContext, make: Callable[[], Connection]) -> Callable[[], TlsLayer]:
    """Add TLS to the connections that `make` creates; for one event loop."""
    buffer = ReadBuffer()
    return lambda: TlsLayer(context, make(), buffer)
