"""What each listener allows its clients."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


@dataclass(frozen=True, slots=True)
class Limits:
    """Numbers of connections, seconds and bytes."""

    connections: int
    #: Seconds without a request before an open connection is closed.
    idle: int
    #: Bytes of a body, None for any number; and seconds for an answer, None where the app has its own limit.
    body: int | None
    answer: float | None
    #: Seconds from the first byte, or from the connection, to the end of a request's header; and its bytes.
    header: float = 5.0
    header_bytes: int = 16 << 10
    #: Seconds for which a client may read nothing of what waits for it.
    unread: float = 5.0
    #: Bytes of an answer that the kernel keeps for a client; None for what it likes, which may be megabytes.
    kept: int | None = None


PROBES = Limits(connections=64, idle=30, body=0, answer=1)
METRICS = Limits(connections=32, idle=60, body=0, answer=10)
STATUS = Limits(connections=128, idle=60, body=0, answer=10, unread=30, kept=64 << 10)
ADMIN = Limits(connections=8, idle=5, body=64 << 10, answer=60, unread=30, kept=64 << 10)
#: A plugin's own listener, where its deadline `page` limits the answers; and the pages in the process of a plugin.
PLUGIN = Limits(connections=512, idle=60, body=None, answer=None, unread=30)
#: The API server closes its idle connections after 90 s, and has to do so first: it does not repeat a POST.
WEBHOOKS = Limits(connections=512, idle=120, body=8 << 20, answer=None, unread=30)


def limited(app: ASGIApp, limits: Limits) -> ASGIApp:
    """Return `app`, which refuses too long a body, and answers within the limit."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)
        taken = 0

        async def receive_limited() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if limits.body is not None and taken > limits.body:
                raise _TooLong
            return message

        begun = False

        async def send_in_time(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
            await send(message)

        try:
            async with asyncio.timeout(limits.answer):
                said = dict(scope["headers"]).get(b"content-length", b"0")
                if limits.body is not None and int(said) > limits.body:
                    raise _TooLong
                await app(scope, receive_limited, send_in_time)
        except _TooLong:
            if begun:
                raise
            await refusal(413, f"the body is longer than {limits.body} bytes")(scope, receive, send)
        except TimeoutError:
            if begun:
                raise
            await refusal(504, f"no answer within {limits.answer:g} s")(scope, receive, send)

    return answer


class _TooLong(OSError):
    """The body of a request is longer than its limit."""


def refusal(status: int, error: str) -> ASGIApp:
    """Return an app that says why a request is refused, as JSON below `/api/`, and closes."""

    async def answer(scope: Scope, _receive: Receive, send: Send) -> None:
        kind, body = b"text/plain; charset=utf-8", f"error: {error}\n"
        if scope["path"].startswith("/api/"):
            kind, body = b"application/json", json.dumps({"error": error, "hint": ""})
        headers = [(b"content-type", kind), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body.encode()})

    return answer
