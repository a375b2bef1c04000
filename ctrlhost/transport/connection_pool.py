"""Connections to one API server, direct or through a proxy, for whole requests; and which URLs need no proxy."""

from __future__ import annotations

import ipaddress
import time
import weakref
from collections import deque
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from urllib3.exceptions import ConnectTimeoutError, HTTPError, ProxyError
from urllib3.util import parse_url

from ctrlhost.transport.http1 import Exchange, request_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from urllib3 import HTTPConnectionPool
    from urllib3.connection import HTTPConnection

    from ctrlhost.transport.interface import Permit, Response


class ConnectionPool:
    """Sends requests, one at a time over each connection. Safe to use from any thread."""

    def __init__(self, base: str, headers: Iterable[tuple[str, str]], idle: int, pool: HTTPConnectionPool) -> None:
        """Connect to the URL `base` as urllib3's `pool` does, and keep up to `idle` unused connections.

        `headers` are sent with all requests; a name may occur several times.
        """
        url = parse_url(base)
        self._pool: Any = pool
        #: Whether a proxy passes on bytes; a request over plain http names the whole URL, and a proxy passes on that.
        self._tunnels = pool.proxy is not None and url.scheme == "https"
        forwards = pool.proxy is not None and not self._tunnels
        self._prefix = base if forwards else url.path or ""
        fixed = [("Host", url.netloc), ("Accept-Encoding", "identity"), *headers]
        if forwards:
            fixed += (pool.proxy_headers or {}).items()
        self._fixed = "".join(f"{name}: {value}\r\n" for name, value in fixed)
        self._most_idle = idle
        # Last in, first out, so that the extra connections of a burst become stale while the others stay warm.
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
        permit: Permit | None = None,
    ) -> tuple[Response, float]:
        """Return the response, whatever its status, and the `time.perf_counter` when its head was complete.

        Raises TransportError without a response, urllib3's errors and OSError while connecting, and what the `permit`
        raises.
        """
        data = request_bytes(method, self._prefix + target, self._fixed, headers, body)
        connection = self._take(deadline)
        exchange = Exchange()
        try:
            response = exchange.run(connection, data, deadline, what, permit)
        except BaseException:
            connection.close()
            raise
        if exchange.reusable and len(self._idle) < self._most_idle:
            self._idle.append(connection)
        else:
            connection.close()
        return response, exchange.began

    def retire(self) -> None:
        """Drop the idle connections now, and those in use when they are done."""
        self._most_idle = 0
        _close_all(self._idle)

    def _take(self, deadline: float) -> HTTPConnection:
        while (connection := _last(self._idle)) is not None:
            # A readable idle connection was closed by the server, or carries unsolicited data.
            if connection.is_connected:
                return connection
            connection.close()
        return self._open(deadline)

    def _open(self, deadline: float) -> HTTPConnection:
        # Only urllib3's pool knows how its connections reach a proxy of each kind.
        connection: HTTPConnection = self._pool._new_conn()  # noqa: SLF001
        connection.timeout = max(deadline - time.monotonic(), 0.001)
        try:
            if self._tunnels:
                self._pool._prepare_proxy(connection)  # noqa: SLF001
            else:
                connection.connect()
        except BaseException as error:
            connection.close()
            if isinstance(error, TimeoutError):
                raise ConnectTimeoutError(connection, "no connection in time") from error
            through = connection.proxy is not None and not connection.has_connected_to_proxy
            if (through or self._tunnels) and isinstance(error, OSError | HTTPError | HTTPException):
                raise ProxyError("cannot connect through the proxy", error) from error
            raise
        return connection


def bypasses_proxy(url: str, rules: str) -> bool:
    """Return whether a rule of `NO_PROXY` covers the URL's host, as in the official client.

    A rule is a host, domain, `host:port`, IP network or `*`; rules are separated by commas.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    exact = {"*", host, f"{host}:{parts.port}"}
    for rule in filter(None, (each.strip().lower().lstrip(".") for each in rules.split(","))):
        if rule in exact or host.endswith("." + rule) or _in_network(host, rule):
            return True
    return False


def _in_network(host: str, rule: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(rule, strict=False)
    except ValueError:
        return False


def _last(idle: deque[HTTPConnection]) -> HTTPConnection | None:
    try:
        return idle.pop()
    except IndexError:
        return None


def _close_all(idle: deque[HTTPConnection]) -> None:
    while (connection := _last(idle)) is not None:
        connection.close()
