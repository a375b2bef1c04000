"""Faults: what goes wrong between a host and its API server, one request at a time, as a test orders it."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctrlhost.client import Response
from ctrlhost.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctrlhost.client import Stream, StreamTimeouts, Transport
    from ctrlhost.transport.interface import Query

VERBS = ("get", "list", "watch", "create", "replace", "apply", "patch", "delete", "delete_collection")
#: Requests of the host itself, which a fault hits only when it names their resource.
_OF_THE_HOST = frozenset({"events", "leases"})
_WRITES = {"POST": "create", "PUT": "replace", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class _Fault:
    verb: str
    error: Exception
    resource: str | None
    name: str | None


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request is about."""

    verb: str
    #: The plural; empty for discovery.
    resource: str
    name: str


class Faults:
    """The faults that are still to come. They hit the host's requests, never those of the test's own client."""

    def __init__(self) -> None:
        """Let everything through."""
        self._lock = threading.Lock()
        self._waiting: list[_Fault] = []
        self._flowing = threading.Event()
        self._flowing.set()

    def next(
        self, verb: str, error: Exception, *, resource: str | None = None, name: str | None = None, times: int = 1
    ) -> None:
        """Answer the next `times` requests of this verb with `error`; they do not reach the server.

        `verb` is a method of the client (`get`, `list`, `create`, `replace`, `apply`, `patch`, `delete`,
        `delete_collection`) or `watch`. An ApiError comes as the server's answer, any other exception is raised from
        the transport. `resource` is a plural, `name` an object's name; without them any will do, but for events and
        leases.
        """
        if verb not in VERBS:
            raise ValueError(f"`{verb}` is no verb; verbs are {', '.join(VERBS)}")
        with self._lock:
            self._waiting += [_Fault(verb, error, resource, name)] * times

    @contextmanager
    def hold_watches(self) -> Iterator[None]:
        """Let watches bring nothing inside the `with`, as a slow network would; what was held back comes afterwards."""
        self._flowing.clear()
        try:
            yield
        finally:
            self._flowing.set()

    def let_through(self, closed: threading.Event) -> None:
        """Wait until watches may bring something again, or the stream is closed; called by the streams."""
        while not self._flowing.wait(0.05) and not closed.is_set():
            pass

    def left(self) -> int:
        """Give how many faults have hit nothing yet."""
        return len(self._waiting)

    def clear(self) -> None:
        """Let everything through again."""
        with self._lock:
            self._waiting.clear()

    def take(self, asked: Asked) -> Exception | None:
        """Give the error for a request, and count it as used."""
        with self._lock:
            for fault in self._waiting:
                if _hits(fault, asked):
                    self._waiting.remove(fault)
                    return fault.error
        return None


class FaultyTransport:
    """A transport that fails where its faults say so, and passes everything else on."""

    def __init__(self, transport: Transport, faults: Faults) -> None:
        """Stand before a transport."""
        self._transport = transport
        self._faults = faults
        self.metrics = getattr(transport, "metrics", None)

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
        """Give a fault's answer, else the server's."""
        error = self._faults.take(asked(method, path, (headers or {}).get("Content-Type", "")))
        if error is None:
            return self._transport.request(method, path, query=query, body=body, headers=headers, timeout=timeout)
        if isinstance(error, ApiError):
            return answer(error)
        raise error

    def stream(
        self,
        path: str,
        *,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        timeouts: StreamTimeouts | None = None,
    ) -> Stream:
        """Fail to open the stream where a fault says so."""
        about = asked("GET", path, "")
        verb = "watch" if (query or {}).get("watch") else about.verb
        error = self._faults.take(Asked(verb, about.resource, about.name))
        if error is not None:
            raise error
        return HeldStream(self._transport.stream(path, query=query, headers=headers, timeouts=timeouts), self._faults)

    def close(self) -> None:
        """Close the transport behind."""
        self._transport.close()


class HeldStream:
    """A stream whose bytes wait while watches are held."""

    def __init__(self, stream: Stream, faults: Faults) -> None:
        """Stand before a stream."""
        self._stream = stream
        self._faults = faults
        self._closed = threading.Event()

    def read(self) -> bytes:
        """Give the next bytes, once they may come."""
        data = self._stream.read()
        self._faults.let_through(self._closed)
        return data

    def set_idle(self, seconds: float) -> None:
        """Bound the silence of the stream behind."""
        self._stream.set_idle(seconds)

    def close(self) -> None:
        """Close the stream behind."""
        self._closed.set()
        self._stream.close()


def asked(method: str, path: str, content_type: str) -> Asked:
    """Tell from a request's line what it is about."""
    parts = [part for part in path.partition("?")[0].split("/") if part]
    rest = parts[2:] if parts[:1] == ["api"] else parts[3:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    resource = rest[0] if rest else ""
    name = rest[1] if len(rest) > 1 else ""
    verb = _WRITES.get(method, "get" if name else "list")
    if method == "PATCH":
        verb = "apply" if content_type.startswith("application/apply-patch") else "patch"
    if verb == "delete" and not name:
        verb = "delete_collection"
    return Asked(verb, resource, name)


def answer(error: ApiError) -> Response:
    """Give an error as the server would send it."""
    details: dict[str, object] = {"causes": list(error.causes)} if error.causes else {}
    headers = {"content-type": "application/json"}
    if error.retry_after is not None:
        details["retryAfterSeconds"] = int(error.retry_after)
        headers["retry-after"] = str(int(error.retry_after))
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
        "reason": error.reason,
        "details": details,
        "code": error.status,
    }
    return Response(error.status, headers, json.dumps(status).encode())


def _hits(fault: _Fault, asked: Asked) -> bool:
    if fault.verb != asked.verb or not asked.resource:
        return False
    if fault.resource is None and asked.resource in _OF_THE_HOST:
        return False
    return fault.resource in (None, asked.resource) and fault.name in (None, asked.name)
