"""The transport of the core: connections to one API server, shared by all threads of a host.

The core's I/O thread carries out requests and streams without the interpreter. Here are what they carry, the
credentials, and the certificates.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import re
import time
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from ctrlhost._core import HttpClient, MadeHere, __version__
from ctrlhost.kubeconfig.exec_credentials import ExecPlugin
from ctrlhost.transport.answers import Awaited, answers
from ctrlhost.transport.authorization import Authorization
from ctrlhost.transport.followed import NativeStream
from ctrlhost.transport.interface import (
    CONNECT_TIMEOUT,
    DEFAULT_TIMEOUT,
    Permit,
    Query,
    Response,
    Stream,
    StreamTimeouts,
)
from ctrlhost.transport.last_byte import last_byte_from
from ctrlhost.transport.metrics import ClientMetrics, Expiries
from ctrlhost.transport.responses import error_from_response
from ctrlhost.transport.trust import Trust

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost._core import HttpResponse, HttpStream
    from ctrlhost.kubeconfig.connection import Connection

log = logging.getLogger("ctrlhost.client.transport")

#: The idle connections of a transport, and of one for few requests, such as those of a lease.
_POOL, _SEPARATE_POOL = 32, 2
_FIXED = [("Accept", "application/json"), ("User-Agent", f"ctrlhost/{__version__}")]
_TARGET = re.compile(r"[!-~]+")


class _Call(NamedTuple):
    """A request without its credentials."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None
    permit: Permit | None
    #: Method and URL, for messages.
    what: str
    #: By `time.monotonic`.
    deadline: float

    def left(self) -> float:
        """Return the seconds until the deadline."""
        return max(self.deadline - time.monotonic(), 0.0)

    def with_credentials(self, authorization: str | None) -> list[tuple[str, str]]:
        """Return the headers of an attempt; `Accept` may be the request's own."""
        own = list(self.headers.items())
        if authorization is not None:
            own.append(("Authorization", authorization))
        given = {name.lower() for name in self.headers}
        return [*(each for each in _FIXED if each[0].lower() not in given), *own]


class NativeTransport:
    """Sends requests, keeps up to `pool_size` idle connections and opens more if needed."""

    def __init__(
        self,
        connection: Connection,
        *,
        pool_size: int = _POOL,
        metrics: ClientMetrics | None = None,
        connect_timeout: float = CONNECT_TIMEOUT,
    ) -> None:
        """Use `connection`; sends nothing yet. Counts in `metrics`, by default in new ones.

        A new connection may take `connect_timeout` seconds. ConfigError if the connection's certificates or its proxy
        are unusable.
        """
        self._connection, self._connect_timeout = connection, connect_timeout
        self.metrics = metrics or ClientMetrics()
        self._base = connection.url
        parts = urlsplit(self._base)
        self.host, self._path = parts.netloc, parts.path
        self._authorization = Authorization(connection.credentials)
        self._trust = Trust(connection)
        self._here = MadeHere()
        https = parts.scheme == "https"
        port = parts.port or (443 if https else 80)
        self._last_byte = last_byte_from(connection.unix_socket or parts.hostname, port)
        self._client = HttpClient(
            https=https,
            host=parts.hostname or "",
            port=port,
            authority=parts.netloc,
            unix_socket=connection.unix_socket or None,
            headers=list(connection.headers),
            proxy=connection.proxy(),
            max_idle=pool_size,
            connect_timeout=connect_timeout,
            tls=self._trust.first,
            last_byte=self._last_byte,
        )
        self.metrics.follow(self, self._client)
        if isinstance(connection.credentials, ExecPlugin):
            connection.credentials.on_call = self.metrics.observe_exec_call
        if https and not connection.configuration.verify_ssl:
            log.warning("the certificate of %s is not verified, as configured", self._base)

    def separate(self) -> NativeTransport:
        """Return a transport with the same credentials and metrics, and connections of its own."""
        return NativeTransport(
            self._connection,
            pool_size=_SEPARATE_POOL,
            metrics=self.metrics,
            connect_timeout=self._connect_timeout,
        )

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
        call = self._call(method, path, query, body, headers, timeout, permit)
        authorization = self._authorization.header(call.left())
        sent_at = time.monotonic()
        response = self._send(call, authorization)
        if response.status == 401 and self._authorization.refresh(authorization, sent_at, call.left()):
            response = self._send(call, self._authorization.header(call.left()), rejected=True)
        return Response(response.status, response.headers, response.body)

    async def request_async(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as in `request`
        permit: Permit | None = None,
    ) -> Response:
        """Do `request` on an event loop; see `AsyncTransport.request_async`."""
        call = self._call(method, path, query, body, headers, timeout, permit)
        authorization = await self._authorization.header_async(call.left())
        sent_at = time.monotonic()
        response = await self._send_async(call, authorization)
        if response.status == 401 and await self._authorization.refresh_async(authorization, sent_at, call.left()):
            response = await self._send_async(call, await self._authorization.header_async(call.left()), rejected=True)
        return Response(response.status, response.headers, response.body)

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
        call = self._call("GET", path, query, None, headers, limits.connect, None)
        authorization = self._authorization.header(call.left())
        sent_at = time.monotonic()
        head, stream = self._open(call, authorization)
        if head.status == 401 and self._authorization.refresh(authorization, sent_at, call.left()):
            head, stream = self._open(call, self._authorization.header(call.left()), rejected=True)
        return _followed(call, limits, head, stream)

    async def stream_async(
        self,
        path: str,
        *,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        timeouts: StreamTimeouts | None = None,
    ) -> NativeStream:
        """Do `stream` on an event loop; see `FollowedTransport.stream_async`."""
        limits = timeouts or StreamTimeouts()
        call = self._call("GET", path, query, None, headers, limits.connect, None)
        authorization = await self._authorization.header_async(call.left())
        sent_at = time.monotonic()
        head, stream = await self._open_async(call, authorization)
        if head.status == 401 and await self._authorization.refresh_async(authorization, sent_at, call.left()):
            authorization = await self._authorization.header_async(call.left())
            head, stream = await self._open_async(call, authorization, rejected=True)
        return _followed(call, limits, head, stream)

    @property
    def url(self) -> str:
        """The address of the server, without credentials."""
        parts = urlsplit(self._base)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def expiries(self) -> Expiries:
        """Return when the credentials in use expire."""
        credentials = self._connection.credentials
        by_program = isinstance(credentials, ExecPlugin) and credentials.has_certificate
        return Expiries(credentials.expiry(), self._trust.expiry, by_program)

    def count_retry(self, method: str, code: str) -> None:
        """Count that a request is sent again after this answer, `<error>` for none."""
        self.metrics.observe_retry(method, self.host, code)

    @property
    def last_byte_age(self) -> float | None:
        """Seconds since the last byte of a response from the server; see `ProbedTransport.last_byte_age`."""
        return self._last_byte.age()

    def probe(self, timeout: float) -> int:
        """Return the status of `GET /version` over a new connection; see `ProbedTransport.probe`."""
        call = self._call("GET", "/version", None, None, None, timeout, None)
        self._renew(call, rejected=False)
        started = time.perf_counter()
        response = None
        try:
            headers = call.with_credentials(self._authorization.at_hand())
            response = self._client.probe(call.target, headers, call.left(), call.what)
        finally:
            self._observe(call, response, started)
        return response.status

    def connections(self) -> dict[str, int]:
        """Return the connections by state, and the handshakes so far."""
        return self._client.counts()

    def close(self) -> None:
        """Drop the idle connections; a later request opens new ones."""
        self._client.close()

    def _call(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: bytes | None,
        headers: Mapping[str, str] | None,
        timeout: float | None,
        permit: Permit | None,
    ) -> _Call:
        # Before any lock: another thread of the parent process may have held it.
        self._here.check()
        target = self._path + path + encode_query(query)
        if not _TARGET.fullmatch(target):
            target = quote(target, safe="%/:?#[]@!$&'()*+,;=~")
        deadline = time.monotonic() + (DEFAULT_TIMEOUT if timeout is None else timeout)
        return _Call(method, target, headers or {}, body, permit, f"{method} {self._base}{path}", deadline)

    def _send(self, call: _Call, authorization: str | None, *, rejected: bool = False) -> HttpResponse:
        self._renew(call, rejected)
        started = time.perf_counter()
        response = None
        try:
            response = self._client.call(
                call.method,
                call.target,
                call.with_credentials(authorization),
                call.body,
                call.left(),
                call.what,
                call.permit,
            )
        finally:
            self._observe(call, response, started)
        return response

    async def _send_async(self, call: _Call, authorization: str | None, *, rejected: bool = False) -> HttpResponse:
        self._renew(call, rejected)
        started = time.perf_counter()
        awaited = Awaited(asyncio.get_running_loop())
        response: HttpResponse | None = None
        cancel = self._client.begin(
            answers(),
            awaited.done,
            call.method,
            call.target,
            call.with_credentials(authorization),
            call.body,
            call.left(),
            call.what,
            call.permit,
        )
        try:
            response = await awaited.future
        except asyncio.CancelledError:
            if call.method == "GET":
                cancel.cancel()
            raise
        finally:
            self._observe(call, response, started)
        return response

    def _open(
        self, call: _Call, authorization: str | None, *, rejected: bool = False
    ) -> tuple[HttpResponse, HttpStream | None]:
        self._renew(call, rejected)
        started = time.perf_counter()
        head = None
        try:
            head, stream = self._client.stream(
                call.target, call.with_credentials(authorization), call.left(), call.what
            )
        finally:
            self._observe(call, head, started)
        return head, stream

    async def _open_async(
        self, call: _Call, authorization: str | None, *, rejected: bool = False
    ) -> tuple[HttpResponse, HttpStream | None]:
        self._renew(call, rejected)
        started = time.perf_counter()
        awaited = Awaited(asyncio.get_running_loop())
        head = stream = None
        self._client.begin_stream(
            answers(), awaited.done, call.target, call.with_credentials(authorization), call.left(), call.what
        )
        try:
            head, stream = await awaited.future
        finally:
            self._observe(call, head, started)
        return head, stream

    def _renew(self, call: _Call, rejected: bool) -> None:
        """Use new certificates for new connections, if there are some; count a request that was rejected before."""
        if rejected:
            self.count_retry(call.method, "401")
        tls = self._trust.changed(now=rejected)
        if tls is not None:
            self._client.set_tls(tls)

    def _observe(self, call: _Call, response: HttpResponse | None, started: float) -> None:
        code = "<error>" if response is None else str(response.status)
        seconds = time.perf_counter() - started if response is None else response.began
        self.metrics.observe(call.method, self.host, code, seconds, call.target[len(self._path) :])


def _followed(call: _Call, limits: StreamTimeouts, head: HttpResponse, stream: HttpStream | None) -> NativeStream:
    if stream is None:
        raise error_from_response(Response(head.status, head.headers, head.body), call.what)
    return NativeStream(stream, limits.idle, head.headers.get("content-type", ""))


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
