"""The requests of a host under test: what it wrote, and which rights it used."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ctrlhost.client import HttpRequest, Response, Stream, Transport
from ctrlhost.client.differences import differences
from ctrlhost.controller.context import current
from ctrlhost.controller.key_text import key_text
from ctrlhost.status.writes import WrittenTo, target_of
from ctrlhost.testing.faults import request_info
from ctrlhost.transport.wrapped import WrappedTransport

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from websocket import WebSocket

    from ctrlhost.transport.steps import Steps

#: Group, resource and verb, as in a role.
Right = tuple[str, str, str]

#: The last writes that `who_writes` looks at, and the objects that it names.
_LAST, _NAMED = 50, 3
#: What the host itself writes beside its plugins.
_OF_THE_HOST = frozenset({"events", "events.events.k8s.io", "leases.coordination.k8s.io"})
_MANAGER_OF_WEBHOOKS = "ctrlhost-webhooks"
_RIGHTS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class Write:
    """One write that the API server accepted."""

    #: The controller whose reconcile wrote, as `plugin/name`; empty for other work.
    controller: str
    #: The key of that reconcile, as `namespace/name`.
    key: str
    #: A method of the client: `create`, `replace`, `apply`, `patch`, `delete` or `delete_collection`.
    verb: str
    #: As in a role, such as `configmaps`, `deployments.apps` or `deployments.apps/status`.
    resource: str
    #: Empty for a cluster-scoped object.
    namespace: str
    #: Empty for a collection.
    name: str
    #: The field manager.
    manager: str
    #: What differs from the version that an earlier write of the same host made, as `path: before -> after; …`; empty
    #: for the first one. Values of Secrets are masked.
    changed: str

    @property
    def object(self) -> tuple[str, str, str]:
        """Resource without subresource, namespace and name."""
        return self.resource.partition("/")[0], self.namespace, self.name


class Written(NamedTuple):
    """The last known state of an object that was written."""

    resource: str
    namespace: str
    name: str
    #: The path of the object.
    path: str
    #: As the server answered; the `Status` after a deletion that took effect.
    answer: dict[str, Any]
    deleted: bool

    @property
    def uid(self) -> str:
        """The uid of the object; empty if the server did not tell."""
        uid = (self.answer.get("details") if self.deleted else self.answer.get("metadata")) or {}
        return str(uid.get("uid") or "")


class RequestRecord:
    """The writes that went through recording transports, and the rights that were used. Callable from any thread."""

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        self._writes: list[Write] = []
        self._used: set[Right] = set()
        #: By resource, namespace and name.
        self._last: dict[tuple[str, str, str], Written] = {}
        #: What the writes created, in order.
        self._created: dict[tuple[str, str, str], Written] = {}
        #: The number of accepted writes, with those of the host itself; only grows.
        self.count = 0

    def used(self, right: Right) -> None:
        """Note that a right was used."""
        with self._lock:
            self._used.add(right)

    def rights(self) -> set[Right]:
        """Return the rights that were used."""
        with self._lock:
            return set(self._used)

    def wrote(self, request: HttpRequest, response: Response) -> None:
        """Note a write that the server accepted, on the thread or in the task that made it."""
        path, query = request.path, request.query or {}
        target = target_of(path)
        if target is None or query.get("dryRun"):
            return
        answer = _decoded(response.body)
        verb = request_info(request.method, path, request.headers.get("Content-Type", "")).verb
        name = target.name or (answer.get("metadata") or {}).get("name", "")
        resource, _, subresource = target.resource.partition("/")
        written = Written(
            resource, target.namespace, name, _own_path(path, target, name), answer, answer.get("kind") == "Status"
        )
        key, run = written[:3], current.get()
        with self._lock:
            self.count += 1
            before = self._last.get(key)
            if response.status == 201 and not subresource:
                self._created[key] = written
                # An apply that creates needs this right, too.
                plural, _, group = resource.partition(".")
                self._used.add((group, plural, "create"))
            changed = ""
            # Some subresources answer with a kind of their own.
            if before is not None and before.answer.get("kind") == answer.get("kind") and not written.deleted:
                secret = answer.get("kind") == "Secret"
                changed = differences(before.answer, answer, secret=secret, with_times=True)
            # Some subresources, such as `proxy`, answer with no object.
            if name and (written.deleted or answer.get("metadata")):
                self._last[key] = written
            manager = str(query.get("fieldManager") or "")
            if run is None or run.request is None:
                if resource in _OF_THE_HOST or manager == _MANAGER_OF_WEBHOOKS:
                    return
                who = ("", "")
            else:
                who = (run.controller, key_text(run.request))
            self._writes.append(Write(*who, verb, target.resource, target.namespace, name, manager, changed))

    def writes(self) -> list[Write]:
        """Return the writes in their order, but for events and leases of the host itself."""
        with self._lock:
            return list(self._writes)

    def last(self) -> list[Written]:
        """Return the last known states of all objects that were written."""
        with self._lock:
            return list(self._last.values())

    def created(self) -> list[Written]:
        """Return the objects that the writes created, the newest first."""
        with self._lock:
            return list(self._created.values())[::-1]


class RecordingTransport(WrappedTransport):
    """A transport that records the requests that the server received."""

    def __init__(self, transport: Transport, record: RequestRecord) -> None:
        """Wrap `transport`."""
        super().__init__(transport)
        self._record = record

    def steps(self, request: HttpRequest) -> Steps[Response]:
        """Return the response of the wrapped transport."""
        response = yield from super().steps(request)
        self._note(request)
        if request.method == "PATCH" and response.status == 201:
            # An apply that creates needs both rights.
            self._note(HttpRequest("POST", request.path))
        if request.method != "GET" and response.status < 300:
            self._record.wrote(request, response)
        return response

    def open(self, request: HttpRequest) -> Stream:
        """Open the stream of the wrapped transport."""
        self._note(request)
        return super().open(request)

    def websocket(self, request: HttpRequest, protocols: Sequence[str]) -> WebSocket:
        """Open a WebSocket of the wrapped transport, which needs the right to create, too."""
        self._note(request)
        self._note(HttpRequest("POST", request.path))
        return super().websocket(request, protocols)

    def _note(self, request: HttpRequest) -> None:
        if (target := target_of(request.path)) is not None:
            self._record.used(_right(request.method, target, watch=bool((request.query or {}).get("watch"))))


def who_writes(writes: Sequence[Write]) -> Iterator[str]:
    """Return which objects the last 50 writes wrote most often, and who wrote them; nothing for those written once."""
    last = writes[-_LAST:]
    for obj, count in Counter(write.object for write in last).most_common(_NAMED):
        if count < 2:
            return
        resource, *where = obj
        yield f"{resource} {'/'.join(filter(None, where))}: {count} of the last {len(last)} writes"
        # The last write of each writer.
        writers = {
            (write.controller, write.key, write.verb, write.manager): write for write in last if write.object == obj
        }
        for writer in writers.values():
            who = (
                f"controller {writer.controller}, key {writer.key}"
                if writer.controller
                else "work outside of a reconcile"
            )
            changed = f"; changed {writer.changed}" if writer.changed else ""
            yield f"  {writer.verb} by {who}, field manager {writer.manager or 'unknown'}{changed}"


def _right(method: str, target: WrittenTo, *, watch: bool) -> Right:
    verb = _RIGHTS.get(method, "get" if target.name else "watch" if watch else "list")
    if verb == "delete" and not target.name:
        verb = "deletecollection"
    resource, _, subresource = target.resource.partition("/")
    plural, _, group = resource.partition(".")
    return group, f"{plural}/{subresource}" if subresource else plural, verb


def _own_path(path: str, target: WrittenTo, name: str) -> str:
    """Return the path of the object: a creation names its collection, other writes may name a subresource."""
    own, subresource = path.partition("?")[0].rstrip("/"), target.resource.partition("/")[2]
    if not target.name:
        return f"{own}/{name}" if name else own
    return own.removesuffix(f"/{subresource}") if subresource else own


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        answer = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return {}
    return answer if isinstance(answer, dict) else {}
