"""What passes between the HTTP connection and whoever answers: requests, responses, streams."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote_plus

from ctrlhost.sandbox.status import Failure, bad_request

if TYPE_CHECKING:
    from ctrlhost.sandbox.attributes import Attributes
    from ctrlhost.sandbox.channel import Channel
    from ctrlhost.sandbox.objects import User

_FALSE = frozenset({"false", "0", "False", "FALSE"})


class Query(dict[str, list[str]]):
    """Query parameters: the first value of a name counts, empty pairs are nothing."""

    @classmethod
    def parse(cls, text: str) -> Query:
        """Split `a=1&b=2`; `+` is a space, a name without `=` has the value ""."""
        query = cls()
        for pair in text.split("&"):
            if pair:
                name, _, value = pair.partition("=")
                query.setdefault(unquote_plus(name), []).append(unquote_plus(value))
        return query

    def first(self, name: str) -> str:
        """Give the first value, "" where there is none."""
        values = self.get(name)
        return values[0] if values else ""

    def flag(self, name: str) -> bool:
        """Tell whether the parameter is there and says anything but no."""
        values = self.get(name)
        return bool(values) and values is not None and values[0] not in _FALSE

    def number(self, name: str) -> int | None:
        """Give an integer, None where the parameter is absent or empty; anything else is a 400."""
        text = self.first(name)
        if not text:
            return None
        if not text.removeprefix("-").isascii() or not text.removeprefix("-").isdigit() or len(text) > 19:
            raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
        return int(text)


@dataclass(slots=True)
class Request:
    """One request, complete with its body."""

    method: str
    path: str
    query: Query
    headers: dict[str, str]
    body: bytes
    target: str = ""
    """Path and query as they came."""
    received: float = field(default_factory=time.monotonic)
    asked: Attributes | None = None
    """What it is about; set once the path is read."""
    user: User | None = None
    """For whom it is done; set once that is known."""
    impersonator: User | None = None
    """Who asked in another's name."""
    annotations: dict[str, str] = field(default_factory=dict)
    """What the audit log tells besides."""


@dataclass(slots=True)
class Response:
    """One answer whose body is known."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: list[tuple[str, str]] = field(default_factory=list)


class Stream(Protocol):
    """An answer that goes on until one of the sides ends it."""

    content_type: str
    headers: list[tuple[str, str]]

    def opened(self, channel: Channel) -> None:
        """Start sending; the answer's headers are on their way."""

    def closed(self) -> None:
        """Stop sending: the client went away, or the channel was ended."""


class NotYet(Exception):
    """Ask for the request to be handled again in a moment; at `until` (monotonic) `otherwise` is the answer."""

    def __init__(self, until: float, otherwise: Failure) -> None:
        """Keep the deadline and the answer for then."""
        super().__init__("not yet")
        self.until = until
        self.otherwise = otherwise


class Handler(Protocol):
    """What a server does with requests."""

    def handle(self, request: Request) -> Response | Stream:
        """Answer; may raise NotYet."""

    def refuse(self, failure: Failure) -> Response:
        """Put a failure of the transport into words."""
