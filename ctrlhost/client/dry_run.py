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

from ctrlhost.client.differences import MAX_VALUE, contents, differences
from ctrlhost.client.governed import reads_only
from ctrlhost.client.logged_once import LoggedOnce
from ctrlhost.client.openapi import DryRunSupport
from ctrlhost.client.steps import Send, Steps, carry_out, carry_out_async
from ctrlhost.client.written_path import WrittenPath, parse
from ctrlhost.errors import ApiError, TransportError
from ctrlhost.transport.interface import Response
from ctrlhost.transport.responses import decode_object, error_from_response

if TYPE_CHECKING:
    from ctrlhost.transport.interface import Permit, Query, Stream, StreamTimeouts, Transport

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

    method: str
    path: str
    at: WrittenPath | None
    query: Query
    body: bytes | None
    headers: Mapping[str, str]
    timeout: float | None
    permit: Permit | None

    @property
    def secret(self) -> bool:
        """Whether its values must not show."""
        return self.at is None or self.at.secret


class DryRunTransport:
    """A transport whose writes have no effect. Safe to use from any thread."""

    #: As `Client.dry_run` says.
    dry_run = True

    def __init__(self, transport: Transport, cached: Cached = lambda _path: None) -> None:
        """Send through `transport`; what would change is compared with the `cached` objects."""
        self._transport = transport
        self._cached = cached
        self._support = DryRunSupport(transport)
        self._lines = LoggedOnce()
        self.metrics: Any = getattr(transport, "metrics", None)
        self.count_retry: Any = getattr(transport, "count_retry", lambda _method, _code: None)
        self.url: str = getattr(transport, "url", "")

    def separate(self) -> DryRunTransport:
        """Return a transport with connections of its own, if this one's transport supports that."""
        separate = getattr(self._transport, "separate", None)
        if separate is None:
            return self
        other = DryRunTransport(separate(), self._cached)
        other._lines = self._lines
        return other

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        permit: Permit | None = None,
    ) -> Response:
        """Return the response; see `Transport.request`. One to a write that was not sent is made here."""
        return carry_out(self._steps(method, path, query, body, headers, timeout, permit))

    async def request_async(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as in `request`
        permit: Permit | None = None,
    ) -> Response:
        """Do `request` on an event loop; see `AsyncTransport.request_async`."""
        return await carry_out_async(self._steps(method, path, query, body, headers, timeout, permit))

    def stream(
        self,
        path: str,
        *,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        timeouts: StreamTimeouts | None = None,
    ) -> Stream:
        """Open a stream; see `Transport.stream`."""
        return self._transport.stream(path, query=query, headers=headers, timeouts=timeouts)

    def close(self) -> None:
        """Drop the idle connections."""
        self._transport.close()

    def _steps(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: bytes | None,
        headers: Mapping[str, str] | None,
        timeout: float | None,
        permit: Permit | None,
    ) -> Steps[Response]:
        if reads_only(method, path):
            read: Response = yield Send(self._transport, method, path, query, body, headers, timeout, permit)
            return read
        write = _Write(method, path, parse(path), query or {}, body, headers or {}, timeout, permit)
        if write.at is None or not (yield from self._support.has(write.at.group_version, method, write.at.template)):
            return (yield from self._without_server(write, "not sent: the server's API does not offer dry runs of it"))
        response: Response = yield self._tried(write)
        if 200 <= response.status < 300:
            answer = _decoded(response.body)
            before = yield from self._current(write)
            self._log(write, before, answer, created=response.status == 201)
            return response
        if response.status == 400:
            error = error_from_response(response, f"{method} {path}")
            if _REFUSED(error.message):
                return (yield from self._without_server(write, f"not checked: {error.message}"))
        return response

    def _tried(self, write: _Write) -> Send:
        """Return the request that the server is to try."""
        body, headers, query = write.body, write.headers, {**write.query, "dryRun": _ALL}
        if write.method == "DELETE":
            # The server ignores the query of a deletion with a body.
            options = _decoded(body) if body else {"apiVersion": "v1", "kind": "DeleteOptions"}
            body, headers = msgspec.json.encode({**options, "dryRun": [_ALL]}), {**headers, "Content-Type": _JSON}
        return Send(self._transport, write.method, write.path, query, body, headers, write.timeout, write.permit)

    def _without_server(self, write: _Write, why: str) -> Steps[Response]:
        """Return the response that a write probably would have got."""
        if write.permit is not None:
            write.permit()
        before = yield from self._current(write)
        content = _decoded(write.body)
        status = 201 if write.method == "POST" else 200
        if write.method == "DELETE":
            after: dict[str, Any] = {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success"}
        elif write.method == "PATCH":
            after = _merged(before or {}, content)
        else:
            after = content
        self._log(write, before, after, created=write.method == "POST", why=why)
        return Response(status, {"content-type": _JSON}, msgspec.json.encode(after))

    def _current(self, write: _Write) -> Steps[dict[str, Any] | None]:
        """Return the object as it is now, from the cache or else the server; None for a new or an unknown one."""
        at = write.at
        if at is None or not at.name or write.method == "POST":
            return None
        if at.whole and (cached := self._cached(at)) is not None:
            return dict(cached)
        if write.method == "DELETE":
            return None
        path = write.path.removesuffix("/status") if at.subresource == "status" else write.path
        try:
            response = yield Send(self._transport, "GET", path, headers={"Accept": _JSON}, timeout=write.timeout)
            return decode_object(response, f"GET {path}")
        except (ApiError, TransportError) as error:
            log.debug("dry run: cannot read what would change: %s", error)
            return None

    def _log(
        self, write: _Write, before: Mapping[str, Any] | None, after: Mapping[str, Any], *, created: bool, why: str = ""
    ) -> None:
        verb = "create" if created else _VERBS[write.method]
        subject = _subject(write, before or after)
        if write.method == "DELETE" or not _describes(write, after):
            changes = ""
        elif why and write.body is not None and write.body.lstrip().startswith(b"["):
            # A JSON patch, which is not applied here.
            changes = "***" if write.secret else write.body.decode(errors="replace")[:MAX_VALUE]
        elif created or before is None:
            changes = contents(_decoded(write.body), secret=write.secret)
        else:
            changes = differences(before, after, secret=write.secret) or "nothing"
        text = f"dry run: would {verb} {subject}" + (f" ({why})" if why else "") + (f": {changes}" if changes else "")
        self._lines.info(text, f"{write.method} {write.path}")


def _subject(write: _Write, known: Mapping[str, Any]) -> str:
    """Return the kind, namespace and name of what would be written, with the subresource or the selectors."""
    at = write.at
    if at is None:
        return write.path
    sent = _decoded(write.body)
    if write.method == "DELETE" and not at.name:
        selectors = (write.query.get(name) for name in ("labelSelector", "fieldSelector"))
        chosen = " and ".join(str(one) for one in selectors if one)
        where = f" in {at.namespace}" if at.namespace else ""
        return f"all {at.plural}{where}" + (f" that match {chosen}" if chosen else "")
    # The body of a deletion, and the answer to one, have other kinds.
    kinds = (known.get("kind"), *(() if write.method == "DELETE" else (sent.get("kind"),))) if at.whole else ()
    kind = next((one for one in kinds if isinstance(one, str) and one != "Status"), at.plural)
    metadata = sent.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    generated = f"{metadata['generateName']}*" if metadata.get("generateName") else ""
    name = at.name or metadata.get("name") or generated
    text = f"{kind} " + "/".join(filter(None, (at.namespace, str(name))))
    return f"{text} ({at.subresource})" if at.subresource else text


def _describes(write: _Write, after: Mapping[str, Any]) -> bool:
    """Return whether the fields may show: not those of a path without a resource, nor of tokens and the like."""
    at = write.at
    return at is not None and not (write.method == "POST" and at.subresource) and after.get("kind") != "Status"


def _decoded(body: bytes | None) -> dict[str, Any]:
    """Return a body as a mapping, empty for anything else, such as a JSON patch."""
    try:
        found = msgspec.json.decode(body or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _merged(before: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object after a merge patch (RFC 7386)."""
    merged = dict(before)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            below = merged.get(name)
            merged[name] = _merged(below if isinstance(below, dict) else {}, value)
        else:
            merged[name] = value
    return merged
