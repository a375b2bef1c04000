"""Faults that a test injects into single requests of a host to its API server."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ctrlhost.client import HttpRequest, Response, Stream, Transport
from ctrlhost.errors import ApiError
from ctrlhost.transport.wrapped import WrappedTransport

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from websocket import WebSocket

    from ctrlhost.transport.steps import Steps

VERBS = ("get", "list", "watch", "create", "replace", "apply", "patch", "delete", "delete_collection")
#: Resources of the host's own requests, which a fault hits only if it names them.
_OF_THE_HOST = frozenset({"events", "leases", "selfsubjectaccessreviews"})
_WRITES = {"POST": "create", "PUT": "replace", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class _Fault:
    verb: str
    error: Exception
    resource: str | None
    name: str | None


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """The verb and object of a request."""

    verb: str
    #: The plural; empty for discovery.
    resource: str
    name: str


class Faults:
    """Pending faults. They hit the host's requests, never those of the test's own client. Callable from any thread."""

    def __init__(self) -> None:
        """Start without faults."""
        self._lock = threading.Lock()
        self._waiting: list[_Fault] = []
        self._flowing = threading.Event()
        self._flowing.set()

    def next(
        self, verb: str, error: Exception, *, resource: str | None = None, name: str | None = None, times: int = 1
    ) -> None:
        """Fail the next `times` requests of this verb with `error`; they do not reach the server.

        `verb` is a method of the client (`get`, `list`, `create`, `replace`, `apply`, `patch`, `delete`,
        `delete_collection`) or `watch`. An ApiError is sent as the server's answer, any other exception is raised from
        the transport. `resource` is a plural, `name` an object's name; None is any, except for
        events, leases and reviews of rights. ValueError for an unknown verb.
        """
        if verb not in VERBS:
            raise ValueError(f"unknown verb `{verb}`; known: {', '.join(VERBS)}")
        with self._lock:
            self._waiting += [_Fault(verb, error, resource, name)] * times

    @contextmanager
    def hold_watches(self) -> Iterator[None]:
        """Hold back the data of watches inside the `with`, as a slow network would; it is delivered afterwards."""
        self._flowing.clear()
        try:
            yield
        finally:
            self._flowing.set()

    def let_through(self, closed: threading.Event) -> None:
        """Wait until watches are no longer held, or the stream is closed; called by the streams."""
        while not self._flowing.wait(0.05) and not closed.is_set():
            pass

    def left(self) -> int:
        """Return the number of pending faults."""
        return len(self._waiting)

    def clear(self) -> None:
        """Drop all pending faults."""
        with self._lock:
            self._waiting.clear()

    def take(self, request: RequestInfo) -> Exception | None:
        """Remove the fault for a request and return its error, or None."""
        with self._lock:
            for fault in self._waiting:
                if _hits(fault, request):
                    self._waiting.remove(fault)
                    return fault.error
        return None


class FaultyTransport(WrappedTransport):
    """A transport that fails the requests that a fault hits, and forwards all others."""

    def __init__(self, transport: Transport, faults: Faults) -> None:
        """Wrap `transport`."""
        super().__init__(transport)
        self._faults = faults

    def steps(self, request: HttpRequest) -> Steps[Response]:
        """Return a fault's answer or raise its error, otherwise return the server's answer."""
        error = self._faults.take(request_info(request.method, request.path, request.headers.get("Content-Type", "")))
        if error is not None and request.permit is not None:
            # A request that must not be sent gets no answer.
            request.permit()
        if isinstance(error, ApiError):
            return answer(error)
        if error is not None:
            raise error
        return (yield from super().steps(request))

    def open(self, request: HttpRequest) -> Stream:
        """Open the stream, or raise a fault's error."""
        hit = request_info("GET", request.path)
        if (request.query or {}).get("watch"):
            hit = replace(hit, verb="watch")
        error = self._faults.take(hit)
        if error is not None:
            raise error
        return HeldStream(self.transport.open(request), self._faults)

    def websocket(self, request: HttpRequest, protocols: Sequence[str]) -> WebSocket:
        """Open a WebSocket to a pod, or raise the error of a fault that hits its creation."""
        error = self._faults.take(request_info("POST", request.path))
        if error is not None:
            raise error
        return super().websocket(request, protocols)


class HeldStream(Stream):
    """A stream whose data is held back while watches are held."""

    def __init__(self, stream: Stream, faults: Faults) -> None:
        """Wrap `stream`."""
        self.content_type = stream.content_type
        self._stream = stream
        self._faults = faults
        self._closed = threading.Event()

    def read(self) -> bytes:
        """Return the next bytes, once watches are not held."""
        data = self._stream.read()
        self._faults.let_through(self._closed)
        return data

    def set_idle(self, seconds: float) -> None:
        """Set the idle timeout of the wrapped stream, in seconds."""
        self._stream.set_idle(seconds)

    def close(self) -> None:
        """Close the wrapped stream."""
        self._closed.set()
        self._stream.close()


def request_info(method: str, path: str, content_type: str = "") -> RequestInfo:
    """Return the verb and object of a request; a watch counts as a list."""
    parts = [part for part in path.partition("?")[0].split("/") if part]
    # Documents, such as those of OpenAPI, are about no object.
    rest = parts[{"api": 2, "apis": 3}.get(parts[0], len(parts)) :] if parts else []
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    resource = rest[0] if rest else ""
    name = rest[1] if len(rest) > 1 else ""
    verb = _WRITES.get(method, "get" if name else "list")
    if method == "PATCH":
        verb = "apply" if content_type.startswith("application/apply-patch") else "patch"
    if verb == "delete" and not name:
        verb = "delete_collection"
    return RequestInfo(verb, resource, name)


def answer(error: ApiError) -> Response:
    """Return an error as the server would send it."""
    details: dict[str, object] = {"causes": list(error.causes)} if error.causes else {}
    headers = {"content-type": "application/json"}
    if error.retry_after is not None:
        details["retryAfterSeconds"] = int(error.retry_after)
        headers["retry-after"] = str(int(error.retry_after))
    return Response(error.status, headers, status_body(error.status, error.message, error.reason, details))


def status_body(code: int, message: str, reason: str, details: Mapping[str, object]) -> bytes:
    """Return a failure `Status` as an API server sends it."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": details,
        "code": code,
    }
    return json.dumps(status).encode()


def _hits(fault: _Fault, request: RequestInfo) -> bool:
    if fault.verb != request.verb or not request.resource:
        return False
    if fault.resource is None and request.resource in _OF_THE_HOST:
        return False
    return fault.resource in (None, request.resource) and fault.name in (None, request.name)
