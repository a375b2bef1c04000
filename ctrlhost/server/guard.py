"""What the host's own listeners refuse, and the headers of all that they answer.

A web page that is open in the browser of somebody who reaches the host can send requests, too. Host names protect
from DNS rebinding, `Sec-Fetch-Site` from other sites, and the policies protect from what a page shows.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
from typing import TYPE_CHECKING, Any

from ctrlhost.server.admin import PREFIX, elsewhere, log_refusal

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ctrlhost.server.counts import ListenerCounts
    from ctrlhost.server.limits import Limits

    Headers = Sequence[tuple[bytes, bytes]]

log = logging.getLogger("ctrlhost.server")

#: The policy of the host's own pages.
OWN_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
#: That of a plugin's pages that have none.
PAGE_POLICY = (
    b"default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
#: The headers of every answer.
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_POLICY = b"content-security-policy"
#: What an app may decide itself; it cannot change the other headers.
_OF_THE_APP = frozenset({b"cache-control", _POLICY})
_NEVER = b"access-control-"
_CLOSE = (b"connection", b"close")


class Guard:
    """The checks of a request's header at one listener."""

    def __init__(self, hosts: Collection[str] | None, counts: ListenerCounts, limits: Limits) -> None:
        """Allow requests for `hosts`, beside `localhost` and any address; None: for any name."""
        self._names = frozenset(map(str.lower, hosts)) | {"localhost"} if hosts is not None else None
        self._counts = counts
        self._limits = limits

    def refuses(self, method: bytes, target_size: int, headers: Headers) -> tuple[int, str, str] | None:
        """Return the status, error and hint for a request that is refused, else None; counts unknown names."""
        refused = self._refusal(method, target_size, headers)
        if refused is not None and refused[0] == 421:
            self._counts.rejected["host"] += 1
        return refused

    def _refusal(self, method: bytes, target_size: int, headers: Headers) -> tuple[int, str, str] | None:
        values = dict(headers)
        if target_size + sum(len(name) + len(value) + 4 for name, value in headers) > self._limits.header_bytes:
            return 431, f"the header is longer than {self._limits.header_bytes >> 10} KiB", ""
        if self._names is not None and not _is_named(values.get(b"host", b"localhost").decode("latin-1"), self._names):
            return 421, "unknown host name", "use an address, `localhost`, or add it to host.allowed_hosts"
        if values.get(b"sec-fetch-site") == b"cross-site":
            return 403, "requests of other sites are refused", "enter the address in a new tab"
        if method in (b"GET", b"HEAD") and _has_body(values):
            return 413, f"a {method.decode()} request has no body", ""
        return None


def guarded(app: ASGIApp, guard: Guard, admin: ASGIApp | None = None) -> ASGIApp:
    """Return `app` with all headers, behind the checks of `guard`; `admin` answers below `/admin/`, else a 404."""

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        answer: ASGIApp | None = None
        if scope["type"] == "http":
            size = len(scope["raw_path"]) + len(scope["query_string"])
            refused = guard.refuses(scope["method"].encode(), size, scope["headers"])
            acts = scope["path"].startswith(PREFIX)
            if refused is not None:
                answer = refusal(*refused)
                if acts and admin is not None:
                    log_refusal(scope, *refused[:2])
            elif acts:
                answer = admin or elsewhere
        await (answer or app)(scope, receive, send)

    return secured(checked)


def secured(app: ASGIApp, policy: bytes = OWN_POLICY) -> ASGIApp:
    """Return `app` with all headers; it may have a policy and caching of its own, and answers 500 when it raises."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)
        begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message = {**message, "headers": _with_headers(message.get("headers", ()), policy)}
            await send(message)

        try:
            await app(scope, receive, send_with_headers)
        except Exception as error:
            log.error("%s %s failed: %s", scope["method"], scope["path"], error, exc_info=error)
            if begun:
                raise
            await refusal(500, "the host failed to answer")(scope, receive, send_with_headers)

    return answer


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
        try:
            async with asyncio.timeout(limits.answer):

                async def send_in_time(message: Message) -> None:
                    nonlocal begun
                    if message["type"] == "http.response.start":
                        begun = True
                    await send(message)

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


def refusal(status: int, error: str, hint: str = "") -> ASGIApp:
    """Return an app that says why a request is refused, as JSON below `/api/` and `/admin/`, and closes."""

    async def answer(scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["path"].startswith(("/api/", "/admin/")):
            kind, body = b"application/json", json.dumps({"error": error, "hint": hint}).encode()
        else:
            kind, text = b"text/plain; charset=utf-8", f"error: {error}\n" + (f"hint: {hint}\n" if hint else "")
            body = text.encode()
        head = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), _CLOSE]
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": body})

    return answer


def _with_headers(headers: Any, policy: bytes) -> list[tuple[bytes, bytes]]:
    defaults = {**dict(HEADERS), _POLICY: policy}
    own = [(name.lower(), value) for name, value in headers if not name.lower().startswith(_NEVER)]
    own = [(name, value) for name, value in own if name not in defaults or name in _OF_THE_APP]
    present = {name for name, _ in own}
    return own + [(name, value) for name, value in defaults.items() if name not in present]


def _has_body(headers: dict[bytes, bytes]) -> bool:
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


def _is_named(host: str, names: frozenset[str]) -> bool:
    """Return whether the value of a `Host` header is an address, or one of `names`, with any port."""
    name, port = host, ""
    if host.startswith("["):
        name, bracket, port = host[1:].partition("]")
        if not bracket:
            return False
        port = port.removeprefix(":")
    elif ":" in host:
        name, _, port = host.partition(":")
    if port and not port.isdecimal():
        return False
    if name.lower() in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
