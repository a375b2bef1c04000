"""The transport of a dry run: the server tries each write without effect, and what would change is logged.

Writes that the server cannot try are not sent. A reconciler that wrote gets the server's answer, or what would have
been written, and goes on.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from ctrlhost.client.differences import MAX_VALUE, contents, differences
from ctrlhost.client.governed import reads_only
from ctrlhost.client.logged_once import LoggedOnce
from ctrlhost.client.openapi import DryRunSupport
from ctrlhost.client.written_path import WrittenPath, parse
from ctrlhost.errors import ApiError, TransportError
from ctrlhost.transport.interface import HttpRequest, Response
from ctrlhost.transport.responses import decode_object, error_from_response
from ctrlhost.transport.wrapped import WrappedTransport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from websocket import WebSocket

    from ctrlhost.transport.interface import Transport
    from ctrlhost.transport.steps import Steps

log = logging.getLogger("ctrlhost.dry_run")

#: Returns the cached object of a path, None if no cache has all of it.
Cached = Callable[[WrittenPath], Mapping[str, Any] | None]

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "update", "DELETE": "delete"}
_ALL = "All"
_JSON = "application/json"
#: Of the 400 of a server whose admission webhook has side effects, or that of the webhook itself.
_REFUSED = re.compile(r"webhook.*dry.?run", re.IGNORECASE | re.DOTALL).search


@dataclass(frozen=True, slots=True)
class _Write:
    """A write that is to be tried."""

    request: HttpRequest
    at: WrittenPath | None

    @property
    def secret(self) -> bool:
        """Whether its values must not show."""
        return self.at is None or self.at.secret


class DryRunTransport(WrappedTransport):
    """A transport whose writes have no effect. Safe to use from any thread."""

    dry_run = True

    def __init__(self, transport: Transport, cached: Cached = lambda _path: None) -> None:
        """Send through `transport`; what would change is compared with the `cached` objects."""
        super().__init__(transport)
        self._cached = cached
        self._support = DryRunSupport(transport)
        self._lines = LoggedOnce()

    def steps(self, request: HttpRequest) -> Steps[Response]:
        """Return the response; one to a write that was not sent is made here."""
        if reads_only(request):
            return (yield from super().steps(request))
        at = parse(request.path)
        write = _Write(request, at)
        if at is None or not (yield from self._support.has(at.group_version, request.method, at.template)):
            return (yield from self._without_server(write, "not sent: the server's API does not offer dry runs of it"))
        response = yield from self._tried(write)
        if 200 <= response.status < 300:
            answer = _decoded(response.body)
            before = yield from self._current(write)
            self._log(write, before, answer, created=response.status == 201)
            return response
        if response.status == 400:
            error = error_from_response(response, request.what)
            if _REFUSED(error.message):
                return (yield from self._without_server(write, f"not checked: {error.message}"))
        return response

    def websocket(self, request: HttpRequest, protocols: Sequence[str]) -> WebSocket:  # noqa: ARG002 - not opened
        """Raise TransportError: what a command in a pod, or a connection to it, does cannot be tried."""
        raise TransportError(
            f"{request.what}: a dry run does not connect to pods", sent=False, hint="ask `ctx.dry_run` before"
        )

    def _tried(self, write: _Write) -> Steps[Response]:
        """Return the request that the server is to try."""
        request = write.request
        body, headers = request.body, request.headers
        if request.method == "DELETE":
            # The server ignores the query of a deletion with a body.
            options = _decoded(body) if body else {"apiVersion": "v1", "kind": "DeleteOptions"}
            body, headers = msgspec.json.encode({**options, "dryRun": [_ALL]}), {**headers, "Content-Type": _JSON}
        query = {**(request.query or {}), "dryRun": _ALL}
        return self.transport.steps(replace(request, query=query, body=body, headers=headers))

    def _without_server(self, write: _Write, why: str) -> Steps[Response]:
        """Return the response that a write probably would have got."""
        request = write.request
        if request.permit is not None:
            request.permit()
        before = yield from self._current(write)
        content = _decoded(request.body)
        status = 201 if request.method == "POST" else 200
        if request.method == "DELETE":
            after: dict[str, Any] = {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success"}
        elif request.method == "PATCH":
            after = merged(before or {}, content)
        else:
            after = content
        self._log(write, before, after, created=request.method == "POST", why=why)
        return Response(status, {"content-type": _JSON}, msgspec.json.encode(after))

    def _current(self, write: _Write) -> Steps[dict[str, Any] | None]:
        """Return the object as it is now, from the cache or else the server; None for a new or an unknown one."""
        at = write.at
        if at is None or not at.name or write.request.method == "POST":
            return None
        if at.whole and (cached := self._cached(at)) is not None:
            return dict(cached)
        if write.request.method == "DELETE":
            return None
        path = write.request.path.removesuffix("/status") if at.subresource == "status" else write.request.path
        read = HttpRequest("GET", path, headers={"Accept": _JSON}, timeout=write.request.timeout)
        try:
            return decode_object((yield from self.transport.steps(read)), read.what)
        except (ApiError, TransportError) as error:
            log.debug("dry run: cannot read what would change: %s", error)
            return None

    def _log(
        self, write: _Write, before: Mapping[str, Any] | None, after: Mapping[str, Any], *, created: bool, why: str = ""
    ) -> None:
        verb = "create" if created else _VERBS[write.request.method]
        subject = _subject(write, before or after)
        if write.request.method == "DELETE" or not _describes(write, after):
            changes = ""
        elif why and write.request.body is not None and write.request.body.lstrip().startswith(b"["):
            # A JSON patch, which is not applied here.
            changes = "***" if write.secret else write.request.body.decode(errors="replace")[:MAX_VALUE]
        elif created or before is None:
            changes = contents(_decoded(write.request.body), secret=write.secret)
        else:
            changes = differences(before, after, secret=write.secret) or "nothing"
        text = f"dry run: would {verb} {subject}" + (f" ({why})" if why else "") + (f": {changes}" if changes else "")
        self._lines.info(text, write.request.what)


def _subject(write: _Write, known: Mapping[str, Any]) -> str:
    """Return the kind, namespace and name of what would be written, with the subresource or the selectors."""
    at = write.at
    if at is None:
        return write.request.path
    sent = _decoded(write.request.body)
    if write.request.method == "DELETE" and not at.name:
        selectors = ((write.request.query or {}).get(name) for name in ("labelSelector", "fieldSelector"))
        chosen = " and ".join(str(selector) for selector in selectors if selector)
        where = f" in {at.namespace}" if at.namespace else ""
        return f"all {at.plural}{where}" + (f" that match {chosen}" if chosen else "")
    # The body of a deletion, and the answer to one, have other kinds.
    kinds = (known.get("kind"), *(() if write.request.method == "DELETE" else (sent.get("kind"),))) if at.whole else ()
    kind = next((kind for kind in kinds if isinstance(kind, str) and kind != "Status"), at.plural)
    metadata = sent.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    generated = f"{metadata['generateName']}*" if metadata.get("generateName") else ""
    name = at.name or metadata.get("name") or generated
    text = f"{kind} " + "/".join(filter(None, (at.namespace, str(name))))
    return f"{text} ({at.subresource})" if at.subresource else text


def _describes(write: _Write, after: Mapping[str, Any]) -> bool:
    """Return whether the fields may show: not those of a path without a resource, nor of tokens and the like."""
    at = write.at
    return at is not None and not (write.request.method == "POST" and at.subresource) and after.get("kind") != "Status"


def _decoded(body: bytes | None) -> dict[str, Any]:
    """Return a body as a mapping, empty for anything else, such as a JSON patch."""
    try:
        content = msgspec.json.decode(body or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def merged(before: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object after a merge patch (RFC 7386)."""
    result = dict(before)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            below = result.get(name)
            result[name] = merged(below if isinstance(below, dict) else {}, value)
        else:
            result[name] = value
    return result
