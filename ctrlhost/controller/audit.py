"""The audit log of a host: a line for each write that its plugins send, without values."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost.client.differences import changed_fields
from ctrlhost.client.governed import reads_only
from ctrlhost.client.written_path import WrittenPath, parse
from ctrlhost.clock import micro_time
from ctrlhost.controller.audit_file import AuditFile
from ctrlhost.controller.context import current
from ctrlhost.controller.key_text import key_text
from ctrlhost.transport.wrapped import WrappedTransport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from websocket import WebSocket

    from ctrlhost.transport.interface import HttpRequest, Response, Transport
    from ctrlhost.transport.steps import Steps

#: Returns the cached object of a path, None if no cache has all of it.
Cached = Callable[[WrittenPath], Mapping[str, Any] | None]

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_APPLY, _JSON_PATCH = "application/apply-patch", "application/json-patch"
#: The fields that a line names.
_FIELDS = 50


class AuditRecord(msgspec.Struct, frozen=True):
    """A line of the log."""

    time: str
    plugin: str
    controller: str
    #: The key of the run, and its number.
    key: str
    run: str
    verb: str
    #: The plural with its group, and with the subresource.
    resource: str
    namespace: str
    name: str
    #: The names of the fields that the request sets, or of those that it changes, where a cache has the object.
    fields: list[str]
    #: How many fields are not named.
    more: int
    #: The status of the answer, or the name of the error without one.
    outcome: str


class AuditLog:
    """Makes the lines of one host. Callable from any thread."""

    def __init__(self, path: str, cached: Cached) -> None:
        """Append to `path`, or to stderr; a replaced object is compared with the `cached` one."""
        self._file = AuditFile(path)
        self._cached = cached

    def of(self, plugin: str, transport: Transport) -> Transport:
        """Return a transport for the requests of a plugin."""
        return AuditedTransport(transport, self, plugin)

    def close(self) -> None:
        """Write what waits."""
        self._file.close()

    def before(self, request: HttpRequest) -> Mapping[str, Any] | None:
        """Return the cached object that a request replaces."""
        path = parse(request.path) if request.method == "PUT" else None
        return self._cached(path) if path is not None else None

    def wrote(
        self, plugin: str, request: HttpRequest, before: Mapping[str, Any] | None, outcome: str, verb: str = ""
    ) -> None:
        """Add the line of a write, on the thread or in the task that made it."""
        path = parse(request.path)
        if path is None:
            return
        content = _content(request)
        fields = _fields(request, before, content)
        metadata = content.get("metadata") if isinstance(content, dict) else None
        metadata = metadata if isinstance(metadata, dict) else {}
        run = current.get()
        ran = run is not None and run.request is not None and run.plugin == plugin
        record = AuditRecord(
            time=micro_time(time.time()),
            plugin=plugin,
            controller=run.controller if run is not None and ran else "",
            key=key_text(run.request) if run is not None and ran else "",
            run=run.reconcile_id if run is not None and ran else "",
            verb=verb or _verb(request, path),
            resource=_resource(path),
            namespace=path.namespace,
            name=path.name or str(metadata.get("name") or metadata.get("generateName") or ""),
            fields=fields[:_FIELDS],
            more=max(0, len(fields) - _FIELDS),
            outcome=outcome,
        )
        self._file.put(msgspec.json.encode(record) + b"\n")


class AuditedTransport(WrappedTransport):
    """A transport whose writes are in the audit log. Safe to use from any thread."""

    def __init__(self, transport: Transport, audit: AuditLog, plugin: str) -> None:
        """Send through `transport`."""
        super().__init__(transport)
        self._audit = audit
        self._plugin = plugin

    def steps(self, request: HttpRequest) -> Steps[Response]:
        """Return the response."""
        if reads_only(request):
            return (yield from self.transport.steps(request))
        # The cache may show the write before its answer arrives.
        before, outcome = self._audit.before(request), "unanswered"
        try:
            response = yield from self.transport.steps(request)
            outcome = str(response.status)
        except Exception as error:
            outcome = type(error).__name__
            raise
        finally:
            self._audit.wrote(self._plugin, request, before, outcome)
        return response

    def websocket(self, request: HttpRequest, protocols: Sequence[str]) -> WebSocket:
        """Open a WebSocket to a pod, such as for a command, which is one line."""
        outcome = "unanswered"
        try:
            opened = self.transport.websocket(request, protocols)
            outcome = "101"
        except Exception as error:
            outcome = type(error).__name__
            raise
        finally:
            self._audit.wrote(self._plugin, request, None, outcome, verb="connect")
        return opened


def _verb(request: HttpRequest, path: WrittenPath) -> str:
    if request.method == "DELETE" and not path.name:
        return "deletecollection"
    if request.headers.get("Content-Type", "").startswith(_APPLY):
        return "apply"
    return _VERBS.get(request.method, request.method.lower())


def _resource(path: WrittenPath) -> str:
    group = path.api_version.rpartition("/")[0]
    resource = f"{path.plural}.{group}" if group else path.plural
    return f"{resource}/{path.subresource}" if path.subresource else resource


def _content(request: HttpRequest) -> Any:
    """Return the body of a request; an empty object for a deletion and for a body that is not JSON."""
    if not request.body or request.method == "DELETE":
        return {}
    try:
        return msgspec.json.decode(request.body)
    except msgspec.DecodeError:
        return {}


def _fields(request: HttpRequest, before: Mapping[str, Any] | None, content: Any) -> list[str]:
    if request.headers.get("Content-Type", "").startswith(_JSON_PATCH) and isinstance(content, list):
        operations = [each for each in content if isinstance(each, dict) and each.get("op") != "test"]
        return [str(each.get("path", "")) for each in operations]
    return changed_fields(before, content) if isinstance(content, dict) else []
