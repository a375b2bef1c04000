"""The transport over urllib3: connections to one API server, shared by all threads of a host.

Whole requests go over connections of urllib3 by the short way of `ctrlhost.client.lines`; streams, and everything that
goes through a proxy, by urllib3's own.
"""

from __future__ import annotations

import functools
import logging
import socket
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.exceptions import InsecureRequestWarning, ProtocolError

from ctrlhost._core import __version__
from ctrlhost.errors import TransportError
from ctrlhost.transport.body import BodyStream
from ctrlhost.transport.connection_pool import Lines
from ctrlhost.transport.errors import as_transport_errors
from ctrlhost.transport.http1 import LARGEST_BODY
from ctrlhost.transport.interface import Query, Response, Stream, StreamTimeouts
from ctrlhost.transport.metrics import ClientMetrics
from ctrlhost.transport.no_proxy import bypasses_proxy
from ctrlhost.transport.responses import error_from_answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost.kubeconfig.connection import Connection

log = logging.getLogger("ctrlhost.client.urllib3_transport")

DEFAULT_TIMEOUT = 30.0
"""Seconds for a whole request that names no timeout of its own."""

_LARGEST_ERROR = 1024 * 1024
_PIECE = 256 * 1024
_FIXED = {"Accept": "application/json", "User-Agent": f"ctrlhost/{__version__}"}


class Urllib3Transport:
    """Sends requests, keeps up to `pool_size` idle connections and opens more where needed."""

    def __init__(self, connection: Connection, *, pool_size: int = 32, metrics: ClientMetrics | None = None) -> None:
        """Take the connection as described; nothing is sent yet."""
        self._connection = connection
        self._pool_size = pool_size
        self.metrics = metrics or ClientMetrics()
        self._base = connection.url
        self._host, self._path = urlsplit(self._base).netloc, urlsplit(self._base).path
        self._lock = threading.Lock()
        self._stamp: object = None
        self._manager: urllib3.PoolManager | None = None
        self._senders: tuple[urllib3.PoolManager | urllib3.HTTPConnectionPool, str, Lines] | None = None
        proxy = connection.configuration.proxy
        self._proxied = bool(proxy) and not bypasses_proxy(self._base, connection.configuration.no_proxy or "")
        if not connection.configuration.verify_ssl and self._base.startswith("https:"):
            log.warning("the certificate of %s is not verified, as configured", self._base)
            # Said once, and not with every connection.
            urllib3.disable_warnings(InsecureRequestWarning)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Response:
        """Give the answer, whatever its status; see `Transport.request`."""
        limit = DEFAULT_TIMEOUT if timeout is None else timeout
        deadline = time.monotonic() + limit
        what = f"{method} {self._base}{path}"
        with as_transport_errors(what):
            if not self._proxied:
                return self._over_lines(method, path + encode_query(query), body, headers or {}, deadline, what)
            response = self._send(method, path, query, body, headers, urllib3.Timeout(total=limit))
            try:
                data = _read_all(response, deadline, LARGEST_BODY, what)
            except BaseException:
                response.close()
                raise
            response.release_conn()
        return Response(response.status, _lower(response.headers), data)

    def stream(
        self,
        path: str,
        *,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        timeouts: StreamTimeouts | None = None,
    ) -> Stream:
        """GET and give the body as it arrives; see `Transport.stream`."""
        limits = timeouts or StreamTimeouts()
        what = f"GET {self._base}{path}"
        with as_transport_errors(what):
            response = self._open(path, query, headers, limits.connect)
            if response.status != 200:
                try:
                    data = _read_all(response, time.monotonic() + limits.connect, _LARGEST_ERROR, what)
                finally:
                    response.close()
                raise error_from_answer(Response(response.status, _lower(response.headers), data), what)
            return BodyStream(response, what, limits.idle)

    def close(self) -> None:
        """Drop the idle connections; the transport can still be used and opens new ones."""
        with self._lock:
            if self._senders is not None and self._manager is not None:
                self._senders[2].retire()
                self._manager.clear()
                self._senders = None

    def _over_lines(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str], deadline: float, what: str
    ) -> Response:
        """Send without a proxy, and once more if the server refused credentials that have changed meanwhile."""
        credentials = self._connection.credentials
        attempt = 1
        while True:
            # Asked first, since this may bring a new certificate.
            authorization = credentials.authorization()
            sent = headers if authorization is None else {**headers, "Authorization": authorization}
            lines = self._current()[2]
            started, began, code = time.perf_counter(), 0.0, "<error>"
            try:
                response, began = lines.request(method, target, sent, body, deadline, what)
                code = str(response.status)
            finally:
                self.metrics.observe(method, self._host, code, (began or time.perf_counter()) - started)
            if response.status != 401 or attempt == 2 or not credentials.refused():
                return response
            attempt = 2

    def _open(self, path: str, query: Query | None, headers: Mapping[str, str] | None, limit: float) -> Any:
        """Send a GET, and once more if the server had closed the idle connection that was used for it."""
        timeout = urllib3.Timeout(connect=limit, read=limit)
        try:
            return self._send("GET", path, query, None, headers, timeout)
        except ProtocolError as error:
            if not isinstance(error.args[-1], ConnectionError):
                raise
        return self._send("GET", path, query, None, headers, timeout)

    def _send(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: bytes | None,
        headers: Mapping[str, str] | None,
        timeout: urllib3.Timeout,
    ) -> Any:
        """Send once, and once more if the server refused credentials that have changed meanwhile."""
        credentials = self._connection.credentials
        target = path + encode_query(query)
        response = None
        for attempt in (1, 2):
            authorization = credentials.authorization()
            response = self._send_once(method, target, body, _headers(headers, authorization), timeout)
            if response.status != 401 or attempt == 2 or not credentials.refused():
                break
            response.drain_conn()
            response.release_conn()
        return response

    def _send_once(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str], timeout: urllib3.Timeout
    ) -> Any:
        pool, prefix, _lines = self._current()
        started = time.perf_counter()
        code = "<error>"
        try:
            response = pool.urlopen(
                method,
                prefix + target,
                body=body,
                headers=dict(headers),
                timeout=timeout,
                preload_content=False,
                decode_content=True,
                retries=False,
                redirect=False,
            )
            code = str(response.status)
            return response
        finally:
            self.metrics.observe(method, self._host, code, time.perf_counter() - started)

    def _current(self) -> tuple[urllib3.PoolManager | urllib3.HTTPConnectionPool, str, Lines]:
        """Give what sends, made anew when a certificate or the CA was replaced, and what it needs before a path.

        There is but one server, so its connections are not looked up for each request. A proxy's manager is asked
        each time: it alone knows what goes to the proxy as a path and what as a whole URL.
        """
        stamp = self._connection.stamp()
        with self._lock:
            current = self._senders
            if current is None or (stamp != self._stamp and stamp is not None):
                if current is not None:
                    current[2].retire()
                options = self._options()
                manager, lines = self._make_manager(options), Lines(self._base, _FIXED, self._pool_size, options)
                current = (manager, self._base, lines)
                if not self._proxied:
                    current = (manager.connection_from_url(self._base), self._path, lines)
                self._manager, self._senders, self._stamp = manager, current, stamp
            return current

    def _options(self) -> dict[str, Any]:
        """Give what urllib3 needs to know to make a connection."""
        configuration = self._connection.configuration
        options: dict[str, Any] = {"socket_options": _socket_options()}
        context = self._connection.tls_context()
        if context is not None:
            options["ssl_context"] = context
            if configuration.tls_server_name:
                options["server_hostname"] = configuration.tls_server_name
                options["assert_hostname"] = configuration.tls_server_name if configuration.verify_ssl else False
            elif not configuration.verify_ssl:
                options["assert_hostname"] = False
        return options

    def _make_manager(self, options: Mapping[str, Any]) -> urllib3.PoolManager:
        configuration = self._connection.configuration
        pools = {"num_pools": 4, "maxsize": self._pool_size, "block": False, **options}
        proxy = configuration.proxy
        if self._proxied:
            if proxy.startswith("socks"):
                from urllib3.contrib.socks import SOCKSProxyManager

                return SOCKSProxyManager(proxy, **pools)
            return urllib3.ProxyManager(proxy, proxy_headers=configuration.proxy_headers, **pools)
        return urllib3.PoolManager(**pools)


def encode_query(query: Query | None) -> str:
    """Write the parameters as the part of a URL that begins with `?`; nothing for none."""
    if not query:
        return ""
    pairs = [
        (name, str(value).lower() if isinstance(value, bool) else str(value))
        for name, value in query.items()
        if value is not None
    ]
    return _encoded(tuple(pairs)) if pairs else ""


@functools.lru_cache(maxsize=256)
def _encoded(pairs: tuple[tuple[str, str], ...]) -> str:
    """Most requests have the same parameters as one before."""
    return "?" + urlencode(pairs)


def _headers(headers: Mapping[str, str] | None, authorization: str | None) -> dict[str, str]:
    sent = {**_FIXED, **(headers or {})}
    if authorization is not None:
        sent["Authorization"] = authorization
    return sent


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _read_all(response: Any, deadline: float, largest: int, what: str) -> bytes:
    pieces: list[bytes] = []
    size = 0
    # The socket's time-out bounds one read; only the clock bounds a body that drips for ever.
    for piece in response.stream(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > largest:
            raise TransportError(f"{what}: the answer is larger than {largest >> 20} MiB")
        if time.monotonic() > deadline:
            raise TransportError(f"{what}: the answer was not complete in time")
    return b"".join(pieces)


def _socket_options() -> list[tuple[int, int, int]]:
    """Ask the kernel to notice a dead peer within about a minute, as client-go does for its long-lived requests."""
    options = [*HTTPConnection.default_socket_options, (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return [(level, option, value) for level, option, value in options if isinstance(value, int)]
