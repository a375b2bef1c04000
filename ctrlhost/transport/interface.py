"""The interface of transports to the API server. Rooms above use only this module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import msgspec

from ctrlhost.errors import TransportError
from ctrlhost.transport.answers import in_thread
from ctrlhost.transport.steps import Send, Steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from websocket import WebSocket

    from ctrlhost._core import Gate
    from ctrlhost.transport.metrics import ClientMetrics

DEFAULT_TIMEOUT = 30.0
"""Seconds for a whole request without its own timeout, or until the headers of a stream arrive."""

IDLE_TIMEOUT = 180.0
"""Seconds between two reads of a stream that return data, without an idle timeout of its own."""

CONNECT_TIMEOUT = 30.0
"""Seconds for a new connection, with its proxy and TLS, unless another time is configured."""

Query = Mapping[str, str | int | bool | tuple[str, ...] | None]
"""Parameters of a request; None omits one, booleans are written as `true` and `false`, a tuple is one that repeats."""


#: What a stream contains: a page of a list, the initial events of a streaming list and then a watch, or a watch.
Body: TypeAlias = Literal["page", "initial", "watch"]


class Permit(Protocol):
    """Says whether bytes of a request may leave. Callable from any thread."""

    @property
    def gate(self) -> Gate:
        """The numbers that the transport compares immediately before bytes leave, without the interpreter."""

    def refused(self, refusal: int) -> Exception:
        """Return the error of a request that `gate` refused."""

    def __call__(self) -> None:
        """Raise why the request must not be sent; for transports that are written in Python."""


class HttpRequest(msgspec.Struct, frozen=True):
    """A request to the API server, without its credentials. Not the `Request` of a reconciler, which is a key."""

    method: str
    path: str
    query: Query | None = None
    body: bytes | None = None
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    #: Seconds for all of it, or until the headers of a stream arrive.
    timeout: float = DEFAULT_TIMEOUT
    #: Of a stream: seconds between two reads that return data.
    idle: float = IDLE_TIMEOUT
    #: Asked before any bytes leave, after everything else that may wait, and again if the request is repeated; what it
    #: raises ends the request.
    permit: Permit | None = None

    @property
    def what(self) -> str:
        """Method and path, for messages."""
        return f"{self.method} {self.path}"


class Response(msgspec.Struct, frozen=True):
    """A whole response; the names in `headers` are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream:
    """The body of a response while it arrives. A subclass defines `read` and `close`."""

    #: The header `Content-Type` of the response, empty if there is none. None for a transport whose streams do not say;
    #: informers ask it for JSON alone.
    content_type: str | None = None
    #: Seconds in which the connection was not read because its reader was behind.
    held_back: float = 0.0

    def read(self) -> bytes:
        """Return the next bytes as soon as there are some, b"" at the regular end and after `close`.

        Raises TransportError if the body is cut, its framing is invalid, or nothing arrived within the idle timeout.
        """
        raise NotImplementedError

    def set_idle(self, seconds: float) -> None:
        """Change the idle timeout; for the reading thread."""

    def close(self) -> None:
        """Drop the connection; a waiting `read` returns at once. Callable repeatedly and from any thread."""
        raise NotImplementedError


class Transport:
    """Sends requests with the client's credentials. Safe to use from any thread.

    A subclass defines `send`, and `open` if informers read through it. A transport over another one is a
    `WrappedTransport`.
    """

    #: The address of the server, without credentials; empty if it is not known.
    url: str = ""
    #: Requests and durations so far, if it counts them.
    metrics: ClientMetrics | None = None
    #: Whether the server only tries writes.
    dry_run: bool = False
    #: Host and port of a server that `probe` can ask whether it answers, else empty.
    host: str = ""
    #: Whether its streams are `NativeStream`s, which the decode threads of the core can read.
    native_streams: bool = False

    def send(self, request: HttpRequest) -> Response:
        """Return the response, whatever its status; TransportError if there is none within the timeout."""
        raise NotImplementedError

    def steps(self, request: HttpRequest) -> Steps[Response]:
        """Return the steps of `send`, by which a transport over this one sends."""
        response: Response = yield Send(self, request)
        return response

    async def send_async(self, request: HttpRequest) -> Response:
        """Do `send` without blocking the event loop. Cancelling may leave it running."""
        return await in_thread(lambda: self.send(request))

    def open(self, request: HttpRequest) -> Stream:
        """Return the body of the response; ApiError unless the status is 200, TransportError without a response."""
        raise NotImplementedError

    async def open_async(self, request: HttpRequest) -> Stream:
        """Do `open` without blocking the event loop."""
        return await in_thread(lambda: self.open(request))

    def websocket(self, request: HttpRequest, protocols: Sequence[str]) -> WebSocket:  # noqa: ARG002 - for subclasses
        """Return a WebSocket to a pod, of websocket-client, which speaks one of the protocols.

        ApiError if the server refuses it, TransportError if it does not answer or if the transport cannot open one.
        """
        raise TransportError(f"{request.what}: this transport opens no WebSockets", sent=False)

    def request(self, method: str, path: str, **fields: Any) -> Response:
        """Send a request with these fields of `HttpRequest`."""
        return self.send(HttpRequest(method, path, **fields))

    def stream(self, path: str, **fields: Any) -> Stream:
        """Open the stream of a GET with these fields of `HttpRequest`."""
        return self.open(HttpRequest("GET", path, **fields))

    def separate(self) -> Transport:
        """Return a transport with the same credentials and connections of its own, if it can have some; else itself."""
        return self

    def account(self) -> str:
        """Return who sends the requests, for messages: the source of the credentials, and when they expire."""
        return ""

    def count_retry(self, method: str, code: str) -> None:
        """Count that a request is sent again after this answer, `<error>` for none."""

    @property
    def last_byte_age(self) -> float | None:
        """Seconds since the last byte of a response came from the server, on any connection; None before the first."""
        return None

    def probe(self, timeout: float) -> int:
        """Return the status of `GET /version` over a new connection.

        TransportError without a response within `timeout` seconds. Carries the credentials if they are at hand: a 401
        is an answer, too. Not for the main thread.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Drop the idle connections."""
