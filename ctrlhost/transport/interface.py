"""The interface of transports to the API server. Rooms above use only this module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from ctrlhost._core import Gate, ListMeta, SharedInformer, WatchProgress

DEFAULT_TIMEOUT = 30.0
"""Seconds for a whole request without its own timeout."""

CONNECT_TIMEOUT = 30.0
"""Seconds for a new connection, with its proxy and TLS, unless another time is configured."""

Query = Mapping[str, str | int | bool | None]
"""Parameters of a request; None omits one, booleans are written as `true` and `false`."""


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


@dataclass(frozen=True, slots=True)
class Response:
    """A whole response; the names in `headers` are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class StreamTimeouts:
    """Timeouts of a stream, in seconds: until the headers arrive, and between two reads that return data."""

    connect: float = 30.0
    idle: float = 180.0


class Stream(Protocol):
    """The body of a response while it arrives."""

    @property
    def content_type(self) -> str:
        """The header `Content-Type` of the response, empty if there is none.

        Informers ask for JSON alone where a transport's streams lack this property.
        """

    def read(self) -> bytes:
        """Return the next bytes as soon as there are some, b"" at the regular end and after `close`.

        Raises TransportError if the body is cut, its framing is invalid, or nothing arrived within the idle timeout.
        """

    def set_idle(self, seconds: float) -> None:
        """Change the idle timeout; for the reading thread."""

    def close(self) -> None:
        """Drop the connection; a waiting `read` returns at once. Callable repeatedly and from any thread."""


class FollowedStream(Stream, Protocol):
    """A stream that the decode threads of the core read."""

    @property
    def held_back(self) -> float:
        """Seconds in which the connection was not read because the decode threads were behind."""

    async def follow(self, engine: SharedInformer, body: Body) -> WatchProgress | ListMeta | None:
        """Pass everything on to the engine from the first call on, and wait for something to report.

        Returns the metadata of a page at its end. Otherwise what a watch brought, at the latest after some seconds for
        initial events, and None at the end.
        """


class Transport(Protocol):
    """Sends requests with the client's credentials. Safe to use from any thread."""

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
        """Return the response, whatever its status; TransportError if there is none within `timeout` seconds.

        `permit` is asked before any bytes of the request leave, after everything else that may wait, and again if the
        transport repeats the request; what it raises ends the request.
        """

    def stream(
        self,
        path: str,
        *,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        timeouts: StreamTimeouts | None = None,
    ) -> Stream:
        """GET `path` and return its body; ApiError unless the status is 200, TransportError without a response."""

    def close(self) -> None:
        """Drop the idle connections."""


@runtime_checkable
class AsyncTransport(Protocol):
    """A transport whose requests can also be awaited, on any event loop, without a thread for each."""

    async def request_async(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as in `Transport.request`
        permit: Permit | None = None,
    ) -> Response:
        """Do `Transport.request`. Cancelling a GET drops its connection; a write that was sent continues."""


class FollowedTransport(Protocol):
    """A transport whose streams the decode threads of the core read, so that informers need no thread."""

    async def stream_async(
        self,
        path: str,
        *,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        timeouts: StreamTimeouts | None = None,
    ) -> FollowedStream:
        """Do `Transport.stream` on an event loop."""


@runtime_checkable
class ProbedTransport(Protocol):
    """A transport that can tell whether its API server answers. All members may be used from any thread."""

    @property
    def host(self) -> str:
        """Host and port of the server, as in its URL."""

    @property
    def last_byte_age(self) -> float | None:
        """Seconds since the last byte of a response came from the server, on any connection; None before the first."""

    def probe(self, timeout: float) -> int:
        """Return the status of `GET /version` over a new connection.

        TransportError without a response within `timeout` seconds. Carries the credentials if they are at hand: a 401
        is an answer, too. Not for the main thread.
        """
