"""The connections of a listener: how many there are, and how long each may be silent."""

from __future__ import annotations

import asyncio
import contextlib
import http
import logging
import socket
import time
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from ctrlhost.server.guard import HEADERS
from ctrlhost.server.peers import peer_of

if TYPE_CHECKING:
    import ssl

    import uvicorn

    from ctrlhost.server.counts import ListenerCounts
    from ctrlhost.server.limits import Limits

log = logging.getLogger("ctrlhost.server")

#: Without uvicorn's own lines: what clients send must not fill the log, an answer that is cut off at the end of the
#: server is no error, and those of apps are logged where they occur.
_protocol_log = logging.getLogger("ctrlhost.server.protocol")
_protocol_log.setLevel(logging.CRITICAL)


class Connections:
    """The open connections of a listener. Belongs to the thread of its loop."""

    def __init__(
        self,
        config: uvicorn.Config,
        state: dict[str, Any],
        limits: Limits,
        counts: ListenerCounts,
        ssl_context: ssl.SSLContext | None,
    ) -> None:
        """Start without connections, for the app of `config` with this lifespan state."""
        self.limits = limits
        self.counts = counts
        #: Set when no connection is open.
        self.none_open = asyncio.Event()
        self.none_open.set()
        self.open: set[Connection] = set()
        self._config = config
        self._state = state
        self._ssl = ssl_context
        self._loop = asyncio.get_running_loop()
        self._uvicorn = ServerState()
        #: The tasks of requests in progress.
        self.requests = self._uvicorn.tasks
        self._date = 0

    def take(self, accepted: socket.socket) -> None:
        """Serve a connection; when there are too many, close the longest idle one, or this one if none is idle."""
        if self.limits.kept is not None:
            # So that a client that does not read is noticed, and takes little memory.
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.limits.kept)
        if len(self.open) >= self.limits.connections:
            self.counts.rejected["full"] += 1
            if not self.close_idle():
                accepted.close()
                return
        connection = Connection(self._config, self._uvicorn, self._state, self)
        self.open.add(connection)
        self.none_open.clear()
        connection.accepted = accepted
        connection.connecting = self._loop.create_task(self._connect(connection, accepted))

    async def _connect(self, connection: Connection, accepted: socket.socket) -> None:
        # From here on, the transport closes it.
        connection.accepted = None
        limit = self.limits.header if self._ssl is not None else None
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection, accepted, ssl=self._ssl, ssl_handshake_timeout=limit
            )
        except OSError:
            # A client without TLS, or with a version of it that is too old, or one that has left.
            if self._ssl is not None and connection in self.open:
                self.counts.rejected["tls"] += 1
            connection.abort()

    def close_idle(self) -> bool:
        """Close the connection that has been without a request for longest; return whether there was one."""
        idle = [connection for connection in self.open if not connection.in_progress]
        if idle:
            min(idle, key=lambda connection: connection.idle_since).abort()
        return bool(idle)

    def forget(self, connection: Connection) -> None:
        """Count a connection no more."""
        self.open.discard(connection)
        if not self.open:
            self.none_open.set()

    def date(self) -> None:
        """Renew the header that each answer has."""
        if (now := int(time.time())) != self._date:
            self._date = now
            self._uvicorn.default_headers = [(b"date", formatdate(now, usegmt=True).encode())]


class _Http(h11.Connection):
    """Remembers which status the last error of the client asks for."""

    status = 400

    def next_event(self) -> Any:
        try:
            return super().next_event()
        except h11.RemoteProtocolError as error:
            self.status = error.error_status_hint
            raise


class Connection(H11Protocol):
    """A connection with a limit for the time without a complete header. Its transport may come later, with TLS."""

    def __init__(
        self, config: uvicorn.Config, state: ServerState, app_state: dict[str, Any], connections: Connections
    ) -> None:
        """Begin to wait for the first header."""
        super().__init__(config, state, app_state)
        self.conn = self._http = _Http(h11.SERVER, connections.limits.header_bytes)
        self.logger = _protocol_log
        #: The socket until the transport is made, and what makes that.
        self.accepted: socket.socket | None = None
        self.connecting: asyncio.Task[None] | None = None
        #: The loop's time since which no request is in progress.
        self.idle_since = self.loop.time()
        self._all = connections
        self._built = False
        self._waiting: asyncio.TimerHandle | None = None
        #: Ends a connection whose client does not read.
        self._stalled: asyncio.TimerHandle | None = None
        self._await_header()

    @property
    def in_progress(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def abort(self) -> None:
        """Close the connection at once, whatever is under way."""
        self._stop_waiting()
        self._reads_again()
        self._all.forget(self)
        if self._built:
            self.transport.abort()
            return
        if self.connecting is not None:
            self.connecting.cancel()
        if self.accepted is not None:
            self.accepted.close()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to read."""
        super().connection_made(transport)
        self._built = True
        own = transport.get_extra_info("socket")
        if own is not None and own.family == getattr(socket, "AF_UNIX", None):
            self.app_state = {**self.app_state, "peer": peer_of(own)}
        if self not in self._all.open:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._stop_waiting()
        self._reads_again()
        self._all.forget(self)

    def pause_writing(self) -> None:
        """Wait for the client to read, for a limited time."""
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(self._all.limits.unread, self.abort)

    def resume_writing(self) -> None:
        """Go on, since the client reads."""
        super().resume_writing()
        self._reads_again()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        self._all.date()
        if not self.in_progress:
            self._await_header()
        super().data_received(data)
        if self.in_progress:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.idle_since = self.loop.time()
        super().on_response_complete()
        if not self.in_progress and self.conn.trailing_data[0]:
            self._await_header()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, also one whose client does not read the last answer."""
        super().timeout_keep_alive_handler()
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Answer a malformed request, or one with too long a header, and close the connection."""
        status = self._http.status
        self._all.counts.requests[status] += 1
        headers = [*self.server_state.default_headers, *HEADERS, (b"content-type", b"text/plain; charset=utf-8")]
        headers.append((b"connection", b"close"))
        text = "the header is too long" if status == 431 else msg
        response = h11.Response(status_code=status, headers=headers, reason=http.HTTPStatus(status).phrase.encode())
        # Beside the answer to an earlier request there can be no other one.
        with contextlib.suppress(h11.LocalProtocolError):
            for event in (response, h11.Data(data=f"error: {text}\n".encode()), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _await_header(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(self._all.limits.header, self._header_timeout)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _reads_again(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _header_timeout(self) -> None:
        self._all.counts.rejected["header_timeout"] += 1
        self.abort()
