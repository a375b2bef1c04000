"""`POST /admin/v1/…`: what changes a running host, at the local socket only. Each call is one line of the log."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any, Protocol

from ctrlhost.server.aside import Aside, TooMany
from ctrlhost.server.limits import ADMIN

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    Answer = tuple[int, bytes]

#: No setting and no request can turn the lines about calls off.
log = logging.getLogger("ctrlhost.admin")
log.setLevel(logging.INFO)

PREFIX = "/admin/"
_VERSION = f"{PREFIX}v1/"
#: Seconds for the body of a request, and the bytes of one that is too long which are read.
_BODY, _DISCARDED = 5.0, 1 << 20
#: Requests that are answered at once.
_MOST = 8
#: Seconds for the rest of an answer, within the limit of the listener.
_WAIT = 55.0
#: The most letters of a name, of a target and of an error in the log.
_NAME, _TARGET, _ERROR = 40, 300, 300


class Acting(Protocol):
    """What the admin API acts on. Callable from any thread."""

    @property
    def on(self) -> bool:
        """Whether the admin API is served."""

    def target(self, action: str, body: bytes) -> str:
        """Return what a request is about, for the log; does not wait."""

    def act(self, action: str, body: bytes, by: str) -> tuple[int, bytes]:
        """Do what a request asks for; return the status of HTTP and the JSON of the answer. May wait."""


def admin_app(acting: Acting) -> ASGIApp:
    """Return the application for the paths below `/admin/` of a Unix socket, whose peer is `scope["state"]["peer"]`."""
    threads = Aside[tuple[int, bytes]]("admin", _MOST)

    async def answered(method: str, action: str, body: bytes | None, by: str) -> Answer:
        if not acting.on:
            return _problem(404, "the admin API is off", "start the host with `--admin`, or set host.admin", off=True)
        if method != "POST":
            return _problem(405, "no such method", "use POST")
        if body is None:
            return _problem(413, f"the body is longer than {ADMIN.body} bytes")
        try:
            return await threads.call(lambda: acting.act(action, body, by), _WAIT)
        except TooMany:
            return _problem(503, "too many requests at once", "try again in a second")
        except TimeoutError:
            return _problem(504, f"no answer within {_WAIT:g} s", "`/readyz?verbose` names what hangs")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        action, target, result = _action(scope), "", "500 not answered"
        try:
            try:
                async with asyncio.timeout(_BODY):
                    body = await _body(scope, receive)
            except TimeoutError:
                status, answer = _problem(408, "the body did not come in time")
                complete = False
            except ConnectionError:
                status, answer = _problem(400, "the client left before the end of the body")
                complete = False
            else:
                complete = body is not None
                target = acting.target(action, body) if body is not None else ""
                status, answer = await answered(scope["method"], action, body, _caller(scope))
            result = "ok" if status == 200 else f"{status} {_error(answer)}"
        finally:
            _log(scope, target, result)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
        headers += [(b"allow", b"POST")] if status == 405 else []
        # What was not read of a request cannot be skipped.
        headers += [] if complete else [(b"connection", b"close")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    return app


def with_admin(app: ASGIApp, admin: ASGIApp | None = None) -> ASGIApp:
    """Return `app`, beside which `admin` answers below `/admin/`, or a 404."""

    async def chosen(scope: Scope, receive: Receive, send: Send) -> None:
        acts = scope["type"] == "http" and scope["path"].startswith(PREFIX)
        await ((admin or elsewhere) if acts else app)(scope, receive, send)

    return chosen


def log_refusal(scope: Scope, status: int, error: str) -> None:
    """Log a call that is refused before the application of the admin API sees it."""
    _log(scope, "", f"{status} {error}")


async def elsewhere(scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer a request at a listener that is open to others than the user of the host."""
    status, answer = _problem(404, "the admin API is served at the local socket only", "use --socket")
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": answer if scope["method"] != "HEAD" else b""})


async def _body(scope: Scope, receive: Receive) -> bytes | None:
    """Return the body of a request; None if it is too long. ConnectionError if the client leaves before its end.

    Most of one that is too long is read: a client that still sends when the connection closes sees no answer.
    """
    limit = ADMIN.body or 0
    if int(dict(scope["headers"]).get(b"content-length", b"0")) > _DISCARDED:
        return None
    body, taken, more = b"", 0, True
    while more and taken <= _DISCARDED:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError
        taken += len(message.get("body", b""))
        body = body + message.get("body", b"") if taken <= limit else b""
        more = message.get("more_body", False)
    return body if taken <= limit else None


def _action(scope: Scope) -> str:
    path: str = scope["path"]
    return path.removeprefix(_VERSION) if path.startswith(_VERSION) else path


def _caller(scope: Scope) -> str:
    return str(scope["state"].get("peer", "an unknown process"))


def _log(scope: Scope, target: str, result: str) -> None:
    what = " ".join(filter(None, [_line(_action(scope), _NAME), _line(target, _TARGET)]))
    level = logging.INFO if result == "ok" else logging.WARNING
    log.log(level, "admin: %s by %s: %s", what, _caller(scope), result)


def _problem(status: int, error: str, hint: str | None = None, **more: Any) -> Answer:
    return status, json.dumps({"error": error, "hint": hint, **more}).encode()


def _error(answer: bytes) -> str:
    return _line(json.loads(answer).get("error", ""), _ERROR)


def _line(text: str, most: int) -> str:
    """Return a text of a client as one line without control characters."""
    line = "".join(letter if letter.isprintable() else " " for letter in text[: most + 1])
    return f"{line[:most]}…" if len(text) > most else line
