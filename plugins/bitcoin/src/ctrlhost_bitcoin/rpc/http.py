"""HTTP to daemons: posts one body to an address within a time, and keeps the connection for the next call.

Calls go only to addresses of pods, so there is no resolver, no proxy, no redirect and no TLS here.
"""

from __future__ import annotations

import http.client
import itertools
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ctrlhost_bitcoin.rpc import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost import Clock

#: Bytes of an answer that are read; a longer one is invalid.
MAX_BODY = 8 * 1024 * 1024
# A daemon closes connections that are idle for 30 s, so younger ones are worth a try.
_MAX_IDLE_SECONDS = 25.0
_MAX_IDLE = 512


class HttpAnswer(NamedTuple):
    """An answer of any status."""

    status: int
    body: bytes


class HttpLayer(Protocol):
    """Sends bodies to daemons. All methods may be called from any thread."""

    def post(
        self, host: str, port: int, body: bytes, headers: Mapping[str, str], *, connect: float, answer: float
    ) -> HttpAnswer:
        """Post and return the answer; `connect` and `answer` are limits in seconds. Raises `RpcFailure`s."""
        ...

    def close(self) -> None:
        """Close the idle connections, and keep none after later calls."""
        ...


class PooledHttp:
    """The `HttpLayer` over sockets; keeps at most `_MAX_IDLE` idle connections and closes the oldest first."""

    def __init__(self, clock: Clock) -> None:
        """Start without connections."""
        self._clock = clock
        self._lock = threading.Lock()
        self._kept = _MAX_IDLE
        #: When each connection became idle, oldest first.
        self._idle: dict[_Connection, float] = {}

    def post(
        self, host: str, port: int, body: bytes, headers: Mapping[str, str], *, connect: float, answer: float
    ) -> HttpAnswer:
        """Post and return the answer; retry over a new connection if the daemon had closed an idle one."""
        kept = self._take(host, port)
        if kept is not None:
            try:
                return self._exchange(kept, body, headers, answer)
            except _Unanswered:
                pass
        fresh = _Connection(host, port)
        fresh.open(connect)
        try:
            return self._exchange(fresh, body, headers, answer)
        except _Unanswered:
            raise errors.Refused("the connection was cut without an answer") from None

    def close(self) -> None:
        """Close the idle connections, and keep none after later calls."""
        with self._lock:
            idle, self._idle, self._kept = self._idle, {}, 0
        for connection in idle:
            connection.close()

    def _exchange(self, connection: _Connection, body: bytes, headers: Mapping[str, str], limit: float) -> HttpAnswer:
        try:
            answer, reusable = connection.exchange(body, headers, limit)
        except BaseException:
            connection.close()
            raise
        dropped: _Connection | None = connection
        if reusable:
            with self._lock:
                self._idle[connection] = self._clock.now()
                dropped = next(iter(self._idle)) if len(self._idle) > self._kept else None
                if dropped is not None:
                    del self._idle[dropped]
        if dropped is not None:
            dropped.close()
        return answer

    def _take(self, host: str, port: int) -> _Connection | None:
        """Return the daemon's connection that became idle last, and close those that were idle for too long."""
        oldest = self._clock.now() - _MAX_IDLE_SECONDS
        with self._lock:
            old = list(itertools.takewhile(lambda connection: self._idle[connection] <= oldest, self._idle))
            for connection in old:
                del self._idle[connection]
            taken = next(
                (
                    connection
                    for connection in reversed(self._idle)
                    if (connection.host, connection.port) == (host, port)
                ),
                None,
            )
            if taken is not None:
                del self._idle[taken]
        for connection in old:
            connection.close()
        return taken


class _Unanswered(Exception):
    """The connection ended before the first byte of an answer."""


class _Connection(http.client.HTTPConnection):
    """One connection to one daemon."""

    # Only `open` connects: `request` must not reopen a closed connection.
    auto_open = 0

    def open(self, limit: float) -> None:
        try:
            # Addresses only: a name would need a resolver, without a time limit, and could lead anywhere.
            addresses = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
            )
        except (OSError, UnicodeError):
            raise errors.Refused("invalid host: not an IP address") from None
        family, kind, protocol, _, address = addresses[0]
        try:
            connected = _TimedSocket(family, kind, protocol)
            try:
                connected.settimeout(limit)
                connected.connect(address)
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except BaseException:
                connected.close()
                raise
        except TimeoutError:
            raise errors.Timeout(f"no connection within {limit:g} s") from None
        except OSError as error:
            raise errors.Refused(f"no connection: {error.strerror or 'refused'}") from None
        self.sock: Any = connected

    def exchange(self, body: bytes, headers: Mapping[str, str], limit: float) -> tuple[HttpAnswer, bool]:
        """Send and receive within so many seconds; the answer, and whether the connection can be used again."""
        # Held here, since `http.client` drops the socket of a connection that ends.
        source: _TimedSocket = self.sock
        source.deadline = time.monotonic() + limit
        before = source.received
        try:
            self.request("POST", "/", body, dict(headers))
            response = self.getresponse()
            length = response.length or 0
            content = response.read(MAX_BODY + 1) if length <= MAX_BODY else b""
        except TimeoutError:
            raise errors.Timeout(f"no answer within {limit:g} s") from None
        except OSError as error:
            if source.received == before:
                raise _Unanswered from None
            raise errors.Refused(f"the answer was cut: {error.strerror or 'connection closed'}") from None
        except (http.client.HTTPException, ValueError):
            raise errors.Protocol("the answer is not HTTP") from None
        if max(length, len(content)) > MAX_BODY:
            raise errors.Protocol(f"the answer is larger than {MAX_BODY >> 20} MiB")
        return HttpAnswer(response.status, content), response.isclosed() and not response.will_close


class _TimedSocket(socket.socket):
    """A socket with one deadline for all reads and writes together.

    The time-out of a plain socket starts again with each byte of a slow answer.
    """

    deadline = 0.0
    received = 0

    def sendall(self, data: Any, flags: int = 0) -> None:
        self._limit()
        super().sendall(data, flags)

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        self._limit()
        count = super().recv_into(buffer, nbytes, flags)
        self.received += count
        return count

    def _limit(self) -> None:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.settimeout(left)
