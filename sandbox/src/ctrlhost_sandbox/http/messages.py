"""Messages between connections and handlers: requests and their attributes, responses, streams."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable
from urllib.parse import parse_qs

from ctrlhost_sandbox.apimachinery.status import Failure, bad_request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ctrlhost_sandbox.apimachinery.objects import User
    from ctrlhost_sandbox.http.channel import Channel

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
#: A namespace's own sub-resources; any other name behind `namespaces/x/` is a resource in that namespace.
NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
READ_VERBS = frozenset({"get", "list", "watch"})
_FALSE = frozenset({"false", "0", "False", "FALSE"})


class Query(dict[str, list[str]]):
    """Query parameters: the first value of a name counts, empty pairs are ignored."""

    @classmethod
    def parse(cls, text: str) -> Query:
        """Split `a=1&b=2`; `+` is a space, a name without `=` has the value ""."""
        return cls(parse_qs(text, keep_blank_values=True))

    def first(self, name: str) -> str:
        """Return the first value, "" where there is none."""
        return self.get(name, [""])[0]

    def flag(self, name: str) -> bool:
        """Return whether the parameter is present and not false."""
        return name in self and self.first(name) not in _FALSE

    def number(self, name: str) -> int | None:
        """Return an integer, None where the parameter is absent or empty; anything else is a 400."""
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
        """The resource as rules name it: `pods`, `pods/status`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def derive_attributes(method: str, parts: list[str], query: Query) -> Attributes:
    """Derive the attributes from a method and a path, split and unquoted."""
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
    if not name and verb in ("get", "delete"):
        verb = "deletecollection" if verb == "delete" else "watch" if query.flag("watch") else "list"
        name = _named(query)
    return Attributes(verb, path, group, version, resource, subresource, namespace, name)


def _named(query: Query) -> str:
    """Return the name that a field selector requires: rules may be limited to names."""
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
    """The path and query as received."""
    received: float = field(default_factory=time.monotonic)
    attributes: Attributes | None = None
    """What is requested; set once the path is parsed."""
    user: User | None = None
    """The effective user; set once it is known."""
    impersonator: User | None = None
    """The user who impersonates `user`."""
    annotations: dict[str, str] = field(default_factory=dict)
    """Annotations of the audit event."""
    certificate: Mapping[str, Any] = field(default_factory=dict)
    """The client's verified certificate as `ssl.SSLSocket.getpeercert` returns it; empty without one."""


@dataclass(slots=True)
class Response:
    """A response with a complete body."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: list[tuple[str, str]] = field(default_factory=list)


class Stream(Protocol):
    """A response that continues until one side ends it."""

    content_type: str
    headers: list[tuple[str, str]]

    def opened(self, channel: Channel) -> None:
        """Start sending; the headers have been written."""

    def closed(self) -> None:
        """Stop sending: the client disconnected, or the channel was ended."""


@runtime_checkable
class Conversation(Stream, Protocol):
    """A stream over a WebSocket in which the client sends messages, too."""

    protocols: tuple[str, ...]
    """The subprotocols that it speaks; the client's first of them counts."""

    def receive(self, message: bytes) -> None:
        """Called with each message of the client."""


@dataclass(eq=False)
class NotYet(Exception):
    """Raised to retry the request shortly; from `until` (monotonic) on, `otherwise` is the response."""

    until: float
    otherwise: Failure


class Handler(Protocol):
    """The handler of a server's requests."""

    def preparation(self, request: Request) -> Callable[[], None] | None:
        """Return slow work that must be done before `handle`, in any thread; None if there is none."""

    def may_wait(self, request: Request) -> bool:
        """Return whether `handle` may wait in its middle, so that it has to be called within `suspension.run`."""

    def handle(self, request: Request) -> Response | Stream:
        """Handle a request; may raise NotYet."""

    def refuse(self, failure: Failure) -> Response:
        """Return the response for a failure."""
