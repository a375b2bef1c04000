"""What passes between the HTTP connection and whoever answers: requests and what they are about, responses, streams."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote_plus

from ctrlhost.sandbox.apimachinery.status import Failure, bad_request

if TYPE_CHECKING:
    from ctrlhost.sandbox.apimachinery.objects import User
    from ctrlhost.sandbox.http.channel import Channel

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
#: Of a namespace's own sub-resources; anything else behind `namespaces/x/` is a resource in that namespace.
NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
READ_VERBS = frozenset({"get", "list", "watch"})
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


@dataclass(frozen=True, slots=True)
class Attributes:
    """A verb on a resource, or on a path: then `resource` is empty and the verb is the method in lower case."""

    verb: str
    path: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def full_resource(self) -> str:
        """Name the resource as rules do: `pods`, `pods/status`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def attributes_of(method: str, parts: list[str], query: Query) -> Attributes:
    """Tell what a method on a path, split and unquoted, asks for."""
    path = "/" + "/".join(parts)
    if parts[0] == "api":
        group, rest = "", parts[1:]
    elif parts[0] == "apis" and len(parts) > 1:
        group, rest = parts[1], parts[2:]
    else:
        rest = []
    if len(rest) < 2:
        return Attributes(method.lower(), path)
    version, *rest = rest
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    verb = _VERBS.get(method, method.lower())
    if not name and verb == "get":
        verb = "watch" if query.flag("watch") else "list"
        name = _named(query)
    elif not name and verb == "delete":
        verb = "deletecollection"
        name = _named(query)
    return Attributes(verb, path, group, version, resource, subresource, namespace, name)


def _named(query: Query) -> str:
    """Give the one name that a field selector leaves: rules may be limited to names."""
    for term in query.first("fieldSelector").split(","):
        key, _, value = term.partition("=")
        if key.strip() == "metadata.name" and value:
            return value.removeprefix("=").strip()
    return ""


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
