"""The application of the webhook listener: it takes the reviews of the API server, and answers in time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from ctrlhost.server.limits import WEBHOOKS

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

    Headers = list[tuple[bytes, bytes]]
    #: Returns what answers at a path, and its counts.
    Find = Callable[[str], "tuple[Endpoint, Counts] | None"]


#: Where the process of an isolated plugin answers for its webhooks; no plugin has such a page.
IN_CHILD = "/api/webhooks"
#: How much of too long a body is read, as a multiple of the limit.
_READ = 4


class Reply(Protocol):
    """An answer to the API server."""

    @property
    def status(self) -> int:
        """The status code."""

    @property
    def body(self) -> bytes:
        """The body."""

    @property
    def denied(self) -> bool:
        """Whether the answer denies what the API server asks about."""

    @property
    def media(self) -> str:
        """The media type of the body."""


class Endpoint(Protocol):
    """What answers at one path."""

    async def answer(self, body: bytes) -> Reply:
        """Return the answer to a review, in time; nothing is raised."""


class Counts(Protocol):
    """What is counted of one path."""

    in_flight: int

    def answered(self, code: int, seconds: float, *, denied: bool) -> None:
        """Count an answer."""


def webhook_app(find: Find) -> ASGIApp:
    """Return the application of what `find` returns for a path; None is 404."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        known = find(scope["path"])
        if known is None:
            await _text(send, 404, f"no webhook at {scope['path']}")
            return
        endpoint, counts = known
        began = time.monotonic()
        counts.in_flight += 1
        status, denied = 500, False
        try:
            status, denied = await _answer(endpoint, scope, receive, send)
        finally:
            counts.in_flight -= 1
            counts.answered(status, time.monotonic() - began, denied=denied)

    return answer


def child_app(find: Find, others: ASGIApp) -> ASGIApp:
    """Return the application that answers below `/api/webhooks` as `webhook_app` does, and passes on what is not."""
    webhooks = webhook_app(find)

    async def chosen(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if path.startswith(f"{IN_CHILD}/"):
            await webhooks({**scope, "path": path.removeprefix(IN_CHILD)}, receive, send)
        else:
            await others(scope, receive, send)

    return chosen


async def _answer(endpoint: Endpoint, scope: Scope, receive: Receive, send: Send) -> tuple[int, bool]:
    """Answer a request at a known path; return the status, and whether it was denied."""
    if scope["method"] != "POST":
        await _text(send, 405, "a webhook takes POST only", (b"allow", b"POST"))
        return 405, False
    body = await _body(scope, receive)
    if body is None:
        await _text(send, 413, f"the body is longer than {WEBHOOKS.body} bytes")
        return 413, False
    reply = await endpoint.answer(body)
    await _send(send, reply.status, reply.media, reply.body)
    return reply.status, reply.denied


async def _body(scope: Scope, receive: Receive) -> bytes | None:
    """Return the body of a request; None if it is too long.

    What is a bit too long is read, since a client that is cut off while it sends may not see the answer.
    """
    most = WEBHOOKS.body or 0
    said = dict(scope["headers"]).get(b"content-length", b"0")
    if int(said) > _READ * most:
        return None
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        part = message.get("body", b"")
        size += len(part)
        if size > _READ * most:
            break
        if size <= most:
            parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts) if size <= most else None


async def _text(send: Send, status: int, text: str, *headers: tuple[bytes, bytes]) -> None:
    # What is left of the body of a refused request is not read.
    more = [*headers, (b"connection", b"close")]
    await _send(send, status, "text/plain; charset=utf-8", f"{text}\n".encode(), more)


async def _send(send: Send, status: int, media: str, body: bytes, headers: Headers | None = None) -> None:
    head = [(b"content-type", media.encode()), (b"content-length", str(len(body)).encode()), *(headers or ())]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
