"""How bytes get to the API server and back: the interface that everything above the network uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from ctrlhost._core import Body

Query = Mapping[str, str | int | bool | None]
"""Parameters of a request; None leaves one out, booleans are written as the API server reads them."""


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer; `headers` has its names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class StreamTimeouts:
    """Bounds of a stream, in seconds: to connect and get the headers, and between two reads that bring something."""

    connect: float = 30.0
    idle: float = 180.0


class Stream(Protocol):
    """The body of an answer while it arrives."""

    def read(self) -> bytes:
        """Give the next bytes as soon as there are some, b"" at the regular end and after `close`.

        Raises TransportError if the body is cut, its framing is broken, or nothing came within the idle bound.
        """

    def set_idle(self, seconds: float) -> None:
        """Bound the time between two reads that bring something anew; for the thread that reads."""

    def close(self) -> None:
        """Drop the connection; a `read` that waits in another thread returns at once. May be called repeatedly."""


class WatchProgress(Protocol):
    """What a piece of a watch stream brought."""

    @property
    def events(self) -> int:
        """Objects that were added, modified or deleted."""

    @property
    def bookmarks(self) -> int:
        """Bookmarks."""

    @property
    def plain_bookmarks(self) -> int:
        """Bookmarks that say nothing about initial events."""

    @property
    def skipped(self) -> int:
        """Frames that were left out since no cache can hold what they say."""

    @property
    def resource_version(self) -> str:
        """The version to go on from."""

    @property
    def initial_events_end(self) -> bool:
        """Whether the initial events are complete."""

    @property
    def error(self) -> dict[str, Any] | None:
        """The `Status` of an ERROR frame."""

    @property
    def failed(self) -> Exception | None:
        """What ended the stream after that."""


class BodyReader(Protocol):
    """What reads list pages and watches off the body of an answer: the informer of the core."""

    def list_piece(self, body: Body, piece: bytes, /) -> None:
        """Take a piece of the body of a page, with its framing."""

    def list_socket(self, body: Body, idle: float, linger: float, /) -> None:
        """Do so with what the body's socket brings within `linger` seconds, and wait for it `idle` seconds at most."""

    def follow(self, body: Body, piece: bytes, /) -> WatchProgress:
        """Take a piece of the body of a watch, with its framing, and tell the handlers at once."""

    def follow_socket(self, body: Body, idle: float, linger: float, /) -> WatchProgress:
        """Do so with what the body's socket brings, and wait for it `idle` seconds at most.

        Events that only go to queues are passed on for `linger` seconds before it returns.
        """


@runtime_checkable
class FollowedStream(Protocol):
    """A stream that hands its bytes to an engine itself, and comes back only when something is to be said."""

    def feed_list(self, reader: BodyReader, linger: float) -> bool:
        """Pass on more of a list page, for `linger` seconds at most; False at the end."""

    def follow(self, reader: BodyReader, linger: float) -> WatchProgress | None:
        """Pass on what comes, for `linger` seconds at most while there are only events; None at the end."""


class Transport(Protocol):
    """Sends requests with whatever proves who we are. Safe to use from any thread."""

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
        """Give the answer, whatever its status; TransportError if there is none within `timeout` seconds."""

    def stream(
        self,
        path: str,
        *,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        timeouts: StreamTimeouts | None = None,
    ) -> Stream:
        """GET and give the body as it arrives; ApiError unless the status is 200, TransportError without an answer."""

    def close(self) -> None:
        """Drop the idle connections."""
