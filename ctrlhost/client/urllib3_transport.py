"""The transport over urllib3: one pool of connections to one API server, shared by all threads of a host."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.exceptions import (
    HTTPError,
    InsecureRequestWarning,
    MaxRetryError,
    NewConnectionError,
    ProtocolError,
    ProxyError,
    ReadTimeoutError,
    SSLError,
)

from ctrlhost._core import __version__
from ctrlhost.client.answers import error_from_answer
from ctrlhost.client.body import BodyStream
from ctrlhost.client.metrics import ClientMetrics
from ctrlhost.client.no_proxy import bypasses_proxy
from ctrlhost.client.transport import Query, Response, Stream, StreamTimeouts
from ctrlhost.errors import TransportError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctrlhost.client.connection import Connection

log = logging.getLogger(__name__)

DEFAULT_TIMEOUT = 30.0
"""Seconds for a whole request that names no timeout of its own."""

_LARGEST_BODY = 256 * 1024 * 1024
_LARGEST_ERROR = 1024 * 1024
_PIECE = 256 * 1024


class Urllib3Transport:
    """Sends requests through a pool that keeps up to `pool_size` idle connections and opens more where needed."""

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
        self._pool: urllib3.HTTPConnectionPool | None = None
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
        with _as_transport_errors(what):
            response = self._send(method, path, query, body, headers, urllib3.Timeout(total=limit))
            try:
                data = _read_all(response, deadline, _LARGEST_BODY, what)
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
        with _as_transport_errors(what):
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
            self._pool = None
            if self._manager is not None:
                self._manager.clear()

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
        pool, prefix = self._current_pool()
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

    def _current_pool(self) -> tuple[urllib3.PoolManager | urllib3.HTTPConnectionPool, str]:
        """Give what sends, made anew when a certificate or the CA was replaced, and what it needs before a path.

        There is but one server, so its connections are not looked up for each request. A proxy's manager is asked
        each time: it alone knows what goes to the proxy as a path and what as a whole URL.
        """
        stamp = self._connection.stamp()
        with self._lock:
            if self._manager is None or (stamp != self._stamp and stamp is not None):
                self._manager, self._pool, self._stamp = self._make_manager(), None, stamp
            if self._manager.proxy is not None:
                return self._manager, self._base
            if self._pool is None:
                self._pool = self._manager.connection_from_url(self._base)
            return self._pool, self._path

    def _make_manager(self) -> urllib3.PoolManager:
        configuration = self._connection.configuration
        options: dict[str, Any] = {
            "num_pools": 4,
            "maxsize": self._pool_size,
            "block": False,
            "socket_options": _socket_options(),
        }
        context = self._connection.tls_context()
        if context is not None:
            options["ssl_context"] = context
            if configuration.tls_server_name:
                options["server_hostname"] = configuration.tls_server_name
                options["assert_hostname"] = configuration.tls_server_name if configuration.verify_ssl else False
            elif not configuration.verify_ssl:
                options["assert_hostname"] = False
        proxy = configuration.proxy
        if proxy and not bypasses_proxy(self._base, configuration.no_proxy or ""):
            if proxy.startswith("socks"):
                from urllib3.contrib.socks import SOCKSProxyManager

                return SOCKSProxyManager(proxy, **options)
            return urllib3.ProxyManager(proxy, proxy_headers=configuration.proxy_headers, **options)
        return urllib3.PoolManager(**options)


def encode_query(query: Query | None) -> str:
    """Write the parameters as the part of a URL that begins with `?`; nothing for none."""
    pairs = [
        (name, str(value).lower() if isinstance(value, bool) else str(value))
        for name, value in (query or {}).items()
        if value is not None
    ]
    return "?" + urlencode(pairs) if pairs else ""


def _headers(headers: Mapping[str, str] | None, authorization: str | None) -> dict[str, str]:
    sent = {"Accept": "application/json", "User-Agent": f"ctrlhost/{__version__}", **(headers or {})}
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


@contextmanager
def _as_transport_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (HTTPError, OSError, ValueError, AttributeError) as error:
        if isinstance(error, MaxRetryError) and isinstance(error.reason, Exception):
            raise _transport_error(what, error.reason) from error
        raise _transport_error(what, error) from error


def _transport_error(what: str, error: Exception) -> TransportError:
    if isinstance(error, NewConnectionError | ConnectionRefusedError):
        return TransportError(f"{what}: can not connect: {_root(error)}", sent=False)
    if isinstance(error, SSLError | ssl.SSLError):
        hint = (
            "the CA of the server goes into `certificate-authority` of the kubeconfig"
            if "CERTIFICATE_VERIFY" in str(error)
            else None
        )
        return TransportError(f"{what}: TLS failed: {_root(error)}", sent=False, hint=hint)
    if isinstance(error, ProxyError):
        return TransportError(f"{what}: the proxy failed: {_root(error)}", sent=False)
    if isinstance(error, urllib3.exceptions.ConnectTimeoutError):
        return TransportError(f"{what}: no connection in time", sent=False)
    if isinstance(error, ReadTimeoutError | TimeoutError):
        return TransportError(f"{what}: no answer in time")
    return TransportError(f"{what}: {_root(error)}")


def _root(error: BaseException) -> str:
    """Say the first cause in few words: urllib3 wraps errors in each other's texts."""
    seen: BaseException = error
    while seen.__cause__ is not None or (seen.args and isinstance(seen.args[-1], BaseException)):
        seen = seen.__cause__ if seen.__cause__ is not None else seen.args[-1]
    return getattr(seen, "strerror", None) or str(seen) or type(seen).__name__
