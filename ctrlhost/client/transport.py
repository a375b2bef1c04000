"""How bytes get to the API server and back: the interface that everything above the network uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

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
