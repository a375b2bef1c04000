"""The connections to one API server that no proxy is between: the idle ones, and new ones where there is none."""

from __future__ import annotations

import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError
from urllib3.util import parse_url

from ctrlhost.transport.http1 import Exchange, request_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost.transport.interface import Response


class Lines:
    """Sends requests, each over a connection of its own while it lasts. Safe to use from any thread."""

    def __init__(self, base: str, headers: Mapping[str, str], idle: int, options: Mapping[str, Any]) -> None:
        """Reach the server of the URL `base`; keep up to `idle` connections, made with urllib3's `options`.

        `headers` are those that all requests have.
        """
        url = parse_url(base)
        self._host, self._port, self._path = (url.host or "").strip("[]"), url.port, url.path or ""
        self._class = HTTPSConnection if url.scheme == "https" else HTTPConnection
        fixed = {"Host": url.netloc, "Accept-Encoding": "identity", **headers}
        self._fixed = "".join(f"{name}: {value}\r\n" for name, value in fixed.items())
        self._options = dict(options)
        self._room = idle
        # The one used last is taken first, so that a burst's connections can go stale while the others stay warm.
        self._idle: deque[HTTPConnection] = deque()
        weakref.finalize(self, _close_all, self._idle)

    def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        deadline: float,
        what: str,
    ) -> tuple[Response, float]:
        """Give the answer, whatever its status, and when its head was there, by `time.perf_counter`.

        TransportError without an answer, also urllib3's errors and OSError while connecting.
        """
        data = request_bytes(method, self._path + target, self._fixed, headers, body)
        connection = self._take(deadline)
        exchange = Exchange()
        try:
            response = exchange.run(connection, data, deadline, what)
        except BaseException:
            connection.close()
            raise
        if exchange.reusable:
            self._keep(connection)
        else:
            connection.close()
        return response, exchange.began

    def close(self) -> None:
        """Drop the idle connections; later requests open new ones."""
        _close_all(self._idle)

    def retire(self) -> None:
        """Drop the idle connections, and those in use when they are done."""
        self._room = 0
        self.close()

    def _take(self, deadline: float) -> HTTPConnection:
        while (connection := _last(self._idle)) is not None:
            # One that has something to read has been closed, or says what nobody asked for.
            if connection.is_connected:
                return connection
            connection.close()
        connection = self._class(
            self._host, self._port, timeout=max(deadline - time.monotonic(), 0.001), **self._options
        )
        try:
            connection.connect()
        except BaseException as error:
            connection.close()
            if isinstance(error, TimeoutError):
                raise ConnectTimeoutError(connection, "the TLS handshake took too long") from error
            raise
        return connection

    def _keep(self, connection: HTTPConnection) -> None:
        if len(self._idle) >= self._room:
            connection.close()
        else:
            self._idle.append(connection)


def _last(idle: deque[HTTPConnection]) -> HTTPConnection | None:
    try:
        return idle.pop()
    except IndexError:
        return None


def _close_all(idle: deque[HTTPConnection]) -> None:
    while (connection := _last(idle)) is not None:
        connection.close()
