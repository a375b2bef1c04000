"""HTTP to daemons: posts one body to an address within a time, and keeps the connection for the next call.

The calls go to addresses of pods and nowhere else, so there is no resolver, no proxy, no redirect and no TLS here.
"""

from __future__ import annotations

import http.client
import io
import socket
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ctrlhost_bitcoin.rpc import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost.clock import Clock

LARGEST_BODY = 8 * 1024 * 1024
"""Bytes of an answer that are read; a longer one is no answer."""

# A daemon closes what was idle for 30 s, so younger ones are worth a try.
_LONGEST_IDLE = 25.0
_IDLE_KEPT = 512


class HttpAnswer(NamedTuple):
    """An answer of whatever status."""

    status: int
    body: bytes


class HttpLayer(Protocol):
    """What sends bodies to daemons. All methods may be called from any thread."""

    def post(
        self, host: str, port: int, body: bytes, headers: Mapping[str, str], *, connect: float, answer: float
    ) -> HttpAnswer:
        """Post and give the answer; `connect` and `answer` are limits in seconds. Raises `RpcFailure`s."""
        ...

    def close(self) -> None:
        """Drop the idle connections, and keep no others."""
        ...


class PooledHttp:
    """The `HttpLayer` over sockets: at most `_IDLE_KEPT` idle connections in all, the least recently used go first."""

    def __init__(self, clock: Clock, *, largest: int = LARGEST_BODY) -> None:
        """Connect to nobody yet."""
        self._clock, self._largest = clock, largest
        self._lock = threading.Lock()
        self._kept = _IDLE_KEPT
        self._idle: OrderedDict[_Connection, float] = OrderedDict()

    def post(
        self, host: str, port: int, body: bytes, headers: Mapping[str, str], *, connect: float, answer: float
    ) -> HttpAnswer:
        """Post and give the answer; where the daemon had closed an idle connection, once more over a new one."""
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
        """Drop the idle connections, and keep none after later calls."""
        with self._lock:
            idle, self._idle = self._idle, OrderedDict()
            self._kept = 0
        for connection in idle:
            connection.close()

    def _exchange(self, connection: _Connection, body: bytes, headers: Mapping[str, str], limit: float) -> HttpAnswer:
        try:
            answer, reusable = connection.exchange(body, headers, limit, self._largest)
        except BaseException:
            connection.close()
            raise
        if reusable:
            self._keep(connection)
        else:
            connection.close()
        return answer

    def _take(self, host: str, port: int) -> _Connection | None:
        """Give the connection to the daemon that was idle for the shortest time, and drop those that were for long."""
        oldest = self._clock.now() - _LONGEST_IDLE
        found = None
        with self._lock:
            for connection in reversed(self._idle):
                if (connection.host, connection.port) == (host, port) and self._idle[connection] > oldest:
                    found = connection
                    break
            if found is not None:
                del self._idle[found]
            # They stand in the order of their last use.
            old = []
            while self._idle and next(iter(self._idle.values())) <= oldest:
                old.append(self._idle.popitem(last=False)[0])
        for connection in old:
            connection.close()
        return found

    def _keep(self, connection: _Connection) -> None:
        dropped = None
        with self._lock:
            self._idle[connection] = self._clock.now()
            if len(self._idle) > self._kept:
                dropped, _ = self._idle.popitem(last=False)
        if dropped is not None:
            dropped.close()


class _Unanswered(Exception):
    """The connection ended before the first byte of an answer."""


class _Connection(http.client.HTTPConnection):
    """One connection to one daemon."""

    # Only `open` connects: what was closed must not come back by itself.
    auto_open = 0

    def open(self, limit: float) -> None:
        try:
            # Addresses only: a name would ask a resolver, without a time limit, and could lead anywhere.
            found = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
            )
        except (OSError, UnicodeError):
            raise errors.Refused("the host is no IP address") from None
        family, kind, protocol, _, address = found[0]
        try:
            connected = socket.socket(family, kind, protocol)
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
        self.sock: Any = _TimedSocket(connected)

    def exchange(self, body: bytes, headers: Mapping[str, str], limit: float, largest: int) -> tuple[HttpAnswer, bool]:
        """Send and receive within so many seconds; the answer, and whether the connection can be used again."""
        # Held here, since a connection that was cut closes itself.
        source: _TimedSocket = self.sock
        source.deadline = time.monotonic() + limit
        heard = source.heard
        try:
            self.request("POST", "/", body, dict(headers))
            response = self.getresponse()
            if (response.length or 0) > largest:
                raise errors.Protocol(f"the answer is larger than {largest >> 20} MiB")
            content = response.read(largest + 1)
        except TimeoutError:
            raise errors.Timeout(f"no answer within {limit:g} s") from None
        except OSError as error:
            if source.heard == heard:
                raise _Unanswered from None
            raise errors.Refused(f"the answer was cut: {error.strerror or 'connection closed'}") from None
        except (http.client.HTTPException, ValueError):
            raise errors.Protocol("the answer is not HTTP") from None
        if len(content) > largest:
            raise errors.Protocol(f"the answer is larger than {largest >> 20} MiB")
        return HttpAnswer(response.status, content), response.isclosed() and not response.will_close


class _TimedSocket:
    """What `http.client` needs of a socket, with one deadline for all reads and writes together.

    A time-out of the socket itself would begin anew with each byte of an answer that drips.
    """

    def __init__(self, inner: socket.socket) -> None:
        self._inner = inner
        self.deadline = 0.0
        self.heard = 0

    def sendall(self, data: bytes) -> None:
        self._limit()
        self._inner.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self))

    def receive(self, buffer: Any) -> int:
        self._limit()
        count = self._inner.recv_into(buffer)
        self.heard += count
        return count

    def close(self) -> None:
        self._inner.close()

    def _limit(self) -> None:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._inner.settimeout(left)


class _Reader(io.RawIOBase):
    """The reading side of a `_TimedSocket`; closing it leaves the connection open for the next call."""

    def __init__(self, source: _TimedSocket) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._source.receive(buffer)
