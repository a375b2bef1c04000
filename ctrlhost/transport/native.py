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
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from ctrlhost._core import HttpClient, MadeHere, __version__
from ctrlhost.errors import Unauthorized
from ctrlhost.kubeconfig.exec_credentials import ExecPlugin
from ctrlhost.transport.answers import Awaited, answers
from ctrlhost.transport.authorization import Authorization
from ctrlhost.transport.followed import NativeStream
from ctrlhost.transport.interface import CONNECT_TIMEOUT, HttpRequest, Query, Response, Transport
from ctrlhost.transport.last_byte import last_byte_from
from ctrlhost.transport.metrics import ClientMetrics, Expiries
from ctrlhost.transport.responses import error_from_response
from ctrlhost.transport.steps import carry_out, carry_out_async
from ctrlhost.transport.trust import Trust

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from typing import Any, TypeAlias

    from websocket import WebSocket

    from ctrlhost._core import HttpResponse, HttpStream
    from ctrlhost.kubeconfig.connection import Connection

    #: A response; with its stream if it was streamed and the status is 200.
    _Answer: TypeAlias = tuple[HttpResponse, HttpStream | None]

log = logging.getLogger("ctrlhost.client.transport")

#: The idle connections of a transport, and of one for few requests, such as those of a lease.
_POOL, _SEPARATE_POOL = 32, 2
_FIXED = (("Accept", "application/json"), ("User-Agent", f"ctrlhost/{__version__}"))
_TARGET = re.compile(r"[!-~]+")


class _Call(msgspec.Struct, frozen=True):
    """A request without its credentials."""

    request: HttpRequest
    #: Whether the body of the response is a stream.
    streamed: bool
    target: str
    #: Method and URL, for messages.
    what: str
    #: By `time.monotonic`.
    deadline: float

    def left(self) -> float:
        """Return the seconds until the deadline."""
        return max(self.deadline - time.monotonic(), 0.0)

    def with_credentials(self, authorization: str | None) -> list[tuple[str, str]]:
        """Return the headers of an attempt; `Accept` may be the request's own."""
        own = self.request.headers
        headers = [*_fixed(tuple(own)), *own.items()]
        return headers if authorization is None else [*headers, ("Authorization", authorization)]


@functools.lru_cache(maxsize=256)
def _fixed(names: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the headers of each request but those that it has itself."""
    own = {name.lower() for name in names}
    return [(name, value) for name, value in _FIXED if name.lower() not in own]


class _Header(msgspec.Struct, frozen=True):
    """A step that returns the credentials of a call."""

    call: _Call


class _Refresh(msgspec.Struct, frozen=True):
    """A step that renews credentials that got a 401; it returns whether another attempt may carry new ones."""

    call: _Call
    rejected: str | None
    sent_at: float


class _Attempt(msgspec.Struct, frozen=True):
    """A step that sends a call; it returns the response, which is the head of a stream if there is one."""

    call: _Call
    headers: list[tuple[str, str]]


class NativeTransport(Transport):
    """Sends requests, keeps up to `pool_size` idle connections and opens more if needed."""

    metrics: ClientMetrics
    native_streams = True

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
        self.url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
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

    def connect_ahead(self) -> None:
        """Open a connection for the first request, in the background; if that fails, the request says why."""
        self._here.check()
        self._client.connect_ahead()

    def send(self, request: HttpRequest) -> Response:
        """Return the response, whatever its status; see `Transport.send`."""
        head, _ = carry_out(self._exchange(self._call(request)), self._do)
        return Response(head.status, head.headers, head.body)

    async def send_async(self, request: HttpRequest) -> Response:
        """Do `send` on an event loop. Cancelling drops the connection: the outcome is then unknown."""
        head, _ = await carry_out_async(self._exchange(self._call(request)), self._do_async)
        return Response(head.status, head.headers, head.body)

    def open(self, request: HttpRequest) -> NativeStream:
        """Return the body of the response; see `Transport.open`."""
        call = self._call(request, streamed=True)
        return _opened(call, *carry_out(self._exchange(call), self._do))

    async def open_async(self, request: HttpRequest) -> NativeStream:
        """Do `open` on an event loop."""
        call = self._call(request, streamed=True)
        return _opened(call, *await carry_out_async(self._exchange(call), self._do_async))

    def websocket(self, request: HttpRequest, protocols: Sequence[str]) -> WebSocket:
        """Open a WebSocket, with a socket of its own; see `Transport.websocket`."""
        from ctrlhost.transport.websockets import connect

        call = self._call(request)

        def attempt(authorization: str | None) -> WebSocket:
            headers = [*self._connection.headers, *call.with_credentials(authorization)]
            return connect(self._connection, call.target, headers, protocols, call.left(), call.what)

        authorization, sent_at = self._authorization.header(call.left()), time.monotonic()
        try:
            return attempt(authorization)
        except Unauthorized:
            if not self._authorization.refresh(authorization, sent_at, call.left()):
                raise
        return attempt(self._authorization.header(call.left()))

    def _exchange(self, call: _Call) -> Generator[_Header | _Refresh | _Attempt, Any, _Answer]:
        """Send a call; if its credentials are rejected, once more with new ones."""
        credentials = self._authorization
        authorization = credentials.header(call.left()) if credentials.ready() else (yield _Header(call))
        sent_at = time.monotonic()
        answer: _Answer = yield from self._attempt(call, authorization)
        if answer[0].status == 401 and (yield _Refresh(call, authorization, sent_at)):
            answer = yield from self._attempt(call, (yield _Header(call)), rejected=True)
        return answer

    def _attempt(
        self, call: _Call, authorization: str | None, *, rejected: bool = False
    ) -> Generator[_Attempt, _Answer, _Answer]:
        self._renew(call, rejected)
        started = time.perf_counter()
        answer = None
        try:
            answer = yield _Attempt(call, call.with_credentials(authorization))
        finally:
            self._observe(call, answer[0] if answer is not None else None, started)
        return answer

    def _do(self, step: _Header | _Refresh | _Attempt) -> Any:
        """Carry out a step in this thread."""
        call = step.call
        match step:
            case _Header():
                return self._authorization.header(call.left())
            case _Refresh(_, rejected, sent_at):
                return self._authorization.refresh(rejected, sent_at, call.left())
            case _Attempt(_, headers) if call.streamed:
                return self._client.stream(call.target, headers, call.left(), call.what)
            case _Attempt(_, headers):
                method, body, permit = call.request.method, call.request.body, call.request.permit
                return self._client.call(method, call.target, headers, body, call.left(), call.what, permit), None

    async def _do_async(self, step: _Header | _Refresh | _Attempt) -> Any:
        """Carry out a step on this event loop."""
        call = step.call
        match step:
            case _Header():
                return await self._authorization.header_async(call.left())
            case _Refresh(_, rejected, sent_at):
                return await self._authorization.refresh_async(rejected, sent_at, call.left())
            case _Attempt(_, headers) if call.streamed:
                awaited = Awaited(asyncio.get_running_loop())
                self._client.begin_stream(answers(), awaited.done, call.target, headers, call.left(), call.what)
                return await awaited.future
            case _Attempt(_, headers):
                return await self._begin(call, headers), None

    async def _begin(self, call: _Call, headers: list[tuple[str, str]]) -> HttpResponse:
        request, awaited = call.request, Awaited(asyncio.get_running_loop())
        cancel = self._client.begin(
            answers(),
            awaited.done,
            request.method,
            call.target,
            headers,
            request.body,
            call.left(),
            call.what,
            request.permit,
        )
        try:
            response: HttpResponse = await awaited.future
        except asyncio.CancelledError:
            cancel.cancel()
            raise
        return response

    def expiries(self) -> Expiries:
        """Return when the credentials in use expire."""
        credentials = self._connection.credentials
        by_program = isinstance(credentials, ExecPlugin) and credentials.has_certificate
        return Expiries(credentials.expiry(), self._trust.expiry, by_program)

    def account(self) -> str:
        """Return the source of the connection, its user, and when the credentials in use expire."""
        return self._connection.account()

    def count_retry(self, method: str, code: str) -> None:
        """Count that a request is sent again after this answer, `<error>` for none."""
        self.metrics.observe_retry(method, self.host, code)

    @property
    def last_byte_age(self) -> float | None:
        """Seconds since the last byte of a response from the server; see `Transport.last_byte_age`."""
        return self._last_byte.age()

    def probe(self, timeout: float) -> int:
        """Return the status of `GET /version` over a new connection; see `Transport.probe`."""
        call = self._call(HttpRequest("GET", "/version", timeout=timeout))
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

    def _call(self, request: HttpRequest, *, streamed: bool = False) -> _Call:
        # Before any lock: another thread of the parent process may have held it.
        self._here.check()
        target = self._path + request.path + encode_query(request.query)
        if not _TARGET.fullmatch(target):
            target = quote(target, safe="%/:?#[]@!$&'()*+,;=~")
        what = f"{request.method} {self._base}{request.path}"
        return _Call(request, streamed, target, what, time.monotonic() + request.timeout)

    def _renew(self, call: _Call, rejected: bool) -> None:
        """Use new certificates for new connections, if there are some; count a request that was rejected before."""
        if rejected:
            self.count_retry(call.request.method, "401")
        tls = self._trust.changed(now=rejected)
        if tls is not None:
            self._client.set_tls(tls)

    def _observe(self, call: _Call, response: HttpResponse | None, started: float) -> None:
        code = "<error>" if response is None else str(response.status)
        seconds = time.perf_counter() - started if response is None else response.began
        self.metrics.observe(call.request.method, self.host, code, seconds, call.target[len(self._path) :])


def _opened(call: _Call, head: HttpResponse, stream: HttpStream | None) -> NativeStream:
    if stream is None:
        raise error_from_response(Response(head.status, head.headers, head.body), call.what)
    return NativeStream(stream, call.request.idle, head.headers.get("content-type", ""))


def encode_query(query: Query | None) -> str:
    """Return the parameters as the part of a URL that begins with `?`, "" without parameters."""
    if not query:
        return ""
    pairs = tuple(_pairs(query))
    return _encoded(pairs) if pairs else ""


def _pairs(query: Query) -> Iterator[tuple[str, str]]:
    for name, values in query.items():
        for value in values if isinstance(values, tuple) else (values,):
            if value is not None:
                yield name, str(value).lower() if isinstance(value, bool) else str(value)


@functools.lru_cache(maxsize=256)
def _encoded(pairs: tuple[tuple[str, str], ...]) -> str:
    """Encode parameters; most requests have the same ones as an earlier request."""
    return "?" + urlencode(pairs)
