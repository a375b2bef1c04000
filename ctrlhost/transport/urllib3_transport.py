"""The transport over urllib3: connections to one API server, shared by all threads of a host.

Whole requests use the fast path of `connection_pool`; streams use urllib3's pools.
"""

from __future__ import annotations

import functools
import logging
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import urllib3
from urllib3 import HTTPHeaderDict
from urllib3.connection import HTTPConnection
from urllib3.exceptions import InsecureRequestWarning, ProtocolError

from ctrlhost._core import __version__
from ctrlhost.errors import TransportError
from ctrlhost.transport.body import BodyStream
from ctrlhost.transport.connection_pool import ConnectionPool, bypasses_proxy
from ctrlhost.transport.errors import as_transport_errors
from ctrlhost.transport.interface import Permit, Query, Response, Stream, StreamTimeouts
from ctrlhost.transport.metrics import ClientMetrics
from ctrlhost.transport.responses import error_from_response

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ctrlhost.kubeconfig.connection import Connection

log = logging.getLogger("ctrlhost.client.urllib3_transport")

DEFAULT_TIMEOUT = 30.0
"""Seconds for a whole request without its own timeout."""

_MAX_ERROR_BYTES = 1024 * 1024
#: The idle connections of a transport for few requests, such as those of a lease.
_SEPARATE_POOL = 2
_PIECE = 256 * 1024
_FIXED = {"Accept": "application/json", "User-Agent": f"ctrlhost/{__version__}"}


class _Senders(NamedTuple):
    """The connections for one state of the CA and the certificate."""

    whole: ConnectionPool
    manager: urllib3.PoolManager
    #: The pool for streams, and the prefix of its paths. Without a proxy it is the pool of the one server, which saves
    #: a lookup per request; a proxy needs the manager, which decides whether to send a path or a whole URL.
    pool: urllib3.PoolManager | urllib3.HTTPConnectionPool
    prefix: str


class Urllib3Transport:
    """Sends requests, keeps up to `pool_size` idle connections and opens more if needed."""

    def __init__(self, connection: Connection, *, pool_size: int = 32, metrics: ClientMetrics | None = None) -> None:
        """Use `connection`; sends nothing yet. Counts in `metrics`, by default in new ones."""
        self._connection = connection
        self._pool_size = pool_size
        self.metrics = metrics or ClientMetrics()
        self._base = connection.url
        self._host, self._path = urlsplit(self._base).netloc, urlsplit(self._base).path
        self._lock = threading.Lock()
        self._stamp: object = None
        self._senders: _Senders | None = None
        proxy = connection.configuration.proxy
        self._proxied = bool(proxy) and not bypasses_proxy(self._base, connection.configuration.no_proxy or "")
        if not connection.configuration.verify_ssl and self._base.startswith("https:"):
            log.warning("the certificate of %s is not verified, as configured", self._base)
            # urllib3 would warn with every connection.
            urllib3.disable_warnings(InsecureRequestWarning)

    def separate(self) -> Urllib3Transport:
        """Return a transport with the same credentials and metrics, and connections of its own."""
        return Urllib3Transport(self._connection, pool_size=_SEPARATE_POOL, metrics=self.metrics)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        permit: Permit | None = None,
    ) -> Response:
        """Return the response, whatever its status; see `Transport.request`."""
        limit = DEFAULT_TIMEOUT if timeout is None else timeout
        deadline = time.monotonic() + limit
        what = f"{method} {self._base}{path}"
        target = path + encode_query(query)

        def send(senders: _Senders, headers: Mapping[str, str]) -> tuple[Any, float]:
            return senders.whole.request(method, target, headers, body, deadline, what, permit)

        with as_transport_errors(what):
            response: Response = self._authorized(method, headers, deadline, send)
        return response

    def stream(
        self,
        path: str,
        *,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        timeouts: StreamTimeouts | None = None,
    ) -> Stream:
        """GET `path` and return its body; see `Transport.stream`."""
        limits = timeouts or StreamTimeouts()
        what = f"GET {self._base}{path}"
        target = path + encode_query(query)
        timeout = urllib3.Timeout(connect=limits.connect, read=limits.connect)
        with as_transport_errors(what):
            try:
                response = self._open(target, headers, timeout, limits.connect)
            except ProtocolError as error:
                if not isinstance(error.args[-1], ConnectionError):
                    raise
                # The server had closed the idle connection.
                response = self._open(target, headers, timeout, limits.connect)
            if response.status != 200:
                try:
                    data = _read_all(response, time.monotonic() + limits.connect, _MAX_ERROR_BYTES, what)
                finally:
                    response.close()
                raise error_from_response(Response(response.status, _lower(response.headers), data), what)
            return BodyStream(response, what, limits.idle)

    def close(self) -> None:
        """Drop the idle connections; a later request opens new ones."""
        with self._lock:
            if self._senders is not None:
                self._senders.whole.retire()
                self._senders.manager.clear()
                self._senders = None

    def _open(self, target: str, headers: Mapping[str, str] | None, timeout: urllib3.Timeout, limit: float) -> Any:
        """GET over urllib3's pools, and return the response without its body; the credentials may take `limit`."""

        def send(senders: _Senders, headers: Mapping[str, str]) -> tuple[Any, float]:
            every = HTTPHeaderDict({**_FIXED, **headers})
            for name, value in self._connection.headers:
                every.add(name, value)
            response = senders.pool.urlopen(
                "GET",
                senders.prefix + target,
                headers=every,
                timeout=timeout,
                preload_content=False,
                decode_content=True,
                retries=False,
                redirect=False,
            )
            return response, time.perf_counter()

        return self._authorized("GET", headers, time.monotonic() + limit, send)

    def _authorized(
        self,
        method: str,
        headers: Mapping[str, str] | None,
        deadline: float,
        send: Callable[[_Senders, Mapping[str, str]], tuple[Any, float]],
    ) -> Any:
        """Send with the credentials, and once more if the server rejected them and they have changed meanwhile.

        The credentials may take until `deadline`, by `time.monotonic`. `send` returns the response and the
        `time.perf_counter` when it began.
        """
        credentials = self._connection.credentials
        headers = headers or {}
        attempt = 1
        while True:
            # Read first: this may load a new certificate.
            authorization = credentials.authorization(max(deadline - time.monotonic(), 0.0))
            sent = headers if authorization is None else {**headers, "Authorization": authorization}
            senders = self._current()
            started, began, code = time.perf_counter(), 0.0, "<error>"
            try:
                response, began = send(senders, sent)
                code = str(response.status)
            finally:
                self.metrics.observe(method, self._host, code, (began or time.perf_counter()) - started)
            if response.status != 401 or attempt == 2:
                return response
            if not credentials.refresh(authorization, max(deadline - time.monotonic(), 0.0)):
                return response
            if isinstance(response, urllib3.BaseHTTPResponse):
                response.drain_conn()
                response.release_conn()
            attempt = 2

    def _current(self) -> _Senders:
        """Return the connections, new ones if a certificate or the CA was replaced."""
        stamp = self._connection.stamp()
        with self._lock:
            current = self._senders
            if current is None or (stamp != self._stamp and stamp is not None):
                if current is not None:
                    current.whole.retire()
                manager = self._make_manager(self._options())
                pool = manager.connection_from_url(self._base)
                whole = ConnectionPool(self._base, [*_FIXED.items(), *self._connection.headers], self._pool_size, pool)
                if self._proxied:
                    current = _Senders(whole, manager, manager, self._base)
                else:
                    current = _Senders(whole, manager, pool, self._path)
                self._senders, self._stamp = current, stamp
            return current

    def _options(self) -> dict[str, Any]:
        """Return urllib3's options for a connection."""
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
        if not self._proxied:
            return urllib3.PoolManager(**pools)
        if proxy.startswith("socks"):
            from urllib3.contrib.socks import SOCKSProxyManager

            return SOCKSProxyManager(proxy, **pools)
        return urllib3.ProxyManager(proxy, proxy_headers=configuration.proxy_headers, **pools)


def encode_query(query: Query | None) -> str:
    """Return the parameters as the part of a URL that begins with `?`, "" without parameters."""
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
    """Encode parameters; most requests have the same ones as an earlier request."""
    return "?" + urlencode(pairs)


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _read_all(response: Any, deadline: float, largest: int, what: str) -> bytes:
    pieces: list[bytes] = []
    size = 0
    # The socket's timeout limits each read, the deadline a body that arrives ever so slowly.
    for piece in response.stream(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > largest:
            raise TransportError(f"{what}: the response is larger than {largest >> 20} MiB")
        if time.monotonic() > deadline:
            raise TransportError(f"{what}: the response was not complete in time")
    return b"".join(pieces)


def _socket_options() -> list[tuple[int, int, int]]:
    """Return options that detect a dead peer within about a minute, as client-go does for its long-lived requests."""
    options = [*HTTPConnection.default_socket_options, (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return [(level, option, value) for level, option, value in options if isinstance(value, int)]
