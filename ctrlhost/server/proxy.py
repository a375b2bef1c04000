"""Pages of another process: one server passes their requests on to another one's Unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import TYPE_CHECKING, Any

import h11
from starlette.responses import PlainTextResponse

from ctrlhost.server.api import problem

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from starlette.types import ASGIApp, Receive, Scope, Send

#: The header with the scheme and the client of a request, which a Unix socket does not show.
_CLIENT = b"x-ctrlhost-client"
#: Headers that are about one of the two connections, not about the page.
_OF_A_CONNECTION = frozenset(
    {b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer"}
    | {b"upgrade", _CLIENT}
)
#: Headers of an answer that the server in front sets itself.
_OF_AN_ANSWER = _OF_A_CONNECTION | {b"date", b"transfer-encoding"}
_PIECE = 1 << 16

_REASONS = {
    400: "the request cannot be passed on",
    503: "the process of the plugin is down",
    504: "the page did not answer in time",
}
#: Below it, answers are JSON.
_API = "/api/"
_HINTS = {
    503: "`/api/v1/status` has the state of the plugin, and why",
    504: "`/readyz?verbose` names what hangs",
}


def proxied(
    socket: Callable[[], Path | None], timeout: float | None, retry_after: Callable[[], float | None]
) -> ASGIApp:
    """Return an application that answers with what the server at a Unix socket does, as the answer comes.

    The client gets 504 when the answer has not begun after `timeout` seconds; 503 while there is no socket, or nobody
    answers there, with `retry_after` in seconds unless that is not known. No function may wait.
    """

    async def proxy(scope: Scope, receive: Receive, send: Send) -> None:
        exchange = _Exchange(scope, receive, send)
        status, headers = 503, {}
        if (path := socket()) is not None:
            try:
                return await exchange.run(path, timeout)
            except TimeoutError:
                status = 504
            except h11.LocalProtocolError:
                status = 400
            except (OSError, h11.RemoteProtocolError):
                pass
        if exchange.begun:
            # The server in front ends the connection, as for a page that fails in the middle.
            return None
        if status == 503 and (seconds := retry_after()) is not None:
            headers = {"Retry-After": str(max(1, math.ceil(seconds)))}
        if scope["path"].startswith(_API):
            response = problem(status, _REASONS[status], _HINTS.get(status))
            response.headers.update(headers)
        else:
            response = PlainTextResponse(f"{_REASONS[status]}\n", status, headers)
        return await response(scope, receive, send)

    return proxy


def behind_proxy(app: ASGIApp) -> ASGIApp:
    """Return `app` for the server at the socket: it sees the scheme and the client of the server in front."""

    async def seen(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            said = [value.decode("ascii").split() for name, value in scope["headers"] if name == _CLIENT]
            if said:
                others = [header for header in scope["headers"] if header[0] not in _OF_A_CONNECTION]
                scheme, *client = said[0]
                scope = {**scope, "headers": others, "scheme": scheme}
                scope["client"] = (client[0], int(client[1])) if client else None
        await app(scope, receive, send)

    return seen


class _Exchange:
    """One request that is passed on, over a connection of its own."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_PIECE)
        #: Whether the answer has begun.
        self.begun = False

    async def run(self, socket: Path, seconds: float | None) -> None:
        """Pass the request on, and its answer back; TimeoutError if that has not begun after so many seconds."""
        head = self._http.send(self._request())
        async with asyncio.timeout(seconds) as limit:
            reader, writer = await asyncio.open_unix_connection(socket)
            writer.write(head)
            asking = asyncio.create_task(self._ask(writer))
            answering = asyncio.create_task(self._answer(reader, lambda: limit.reschedule(None)))
            try:
                await asyncio.wait((asking, answering), return_when=asyncio.FIRST_COMPLETED)
                if answering.done():
                    answering.result()
            finally:
                asking.cancel()
                answering.cancel()
                await asyncio.gather(asking, answering, return_exceptions=True)
                writer.close()

    def _request(self) -> h11.Request:
        scope = self._scope
        headers = [(name, value) for name, value in scope["headers"] if name not in _OF_A_CONNECTION]
        if all(name != b"host" for name, _ in headers):
            # HTTP/1.0.
            headers.append((b"host", b"localhost"))
        client = scope.get("client") or ()
        # Not `Connection: close`: a server that closes before it has read all of the request resets the connection.
        headers.append((_CLIENT, " ".join(map(str, (scope["scheme"], *client))).encode()))
        query = scope["query_string"]
        target = scope["raw_path"] + (b"?" + query if query else b"")
        return h11.Request(method=scope["method"], target=target, headers=headers)

    async def _ask(self, writer: asyncio.StreamWriter) -> None:
        """Send the body of the request; return when the client has left."""
        more = True
        while (message := await self._receive())["type"] != "http.disconnect":
            data = self._http.send(h11.Data(message.get("body", b""))) if more else b""
            if more and not (more := message.get("more_body", False)):
                data += self._http.send(h11.EndOfMessage()) or b""
            # The answer may come before all of the request was read.
            with contextlib.suppress(OSError):
                writer.write(data or b"")
                await writer.drain()

    async def _answer(self, reader: asyncio.StreamReader, begins: Callable[[], None]) -> None:
        while not isinstance(event := await self._next(reader), h11.EndOfMessage):
            message: dict[str, Any] = {"type": "http.response.body", "more_body": True}
            if isinstance(event, h11.Response):
                begins()
                self.begun = True
                headers = [(name, value) for name, value in event.headers if name not in _OF_AN_ANSWER]
                message = {"type": "http.response.start", "status": event.status_code, "headers": headers}
            elif isinstance(event, h11.Data):
                message["body"] = bytes(event.data)
            elif isinstance(event, h11.ConnectionClosed):
                raise ConnectionResetError("the other server has closed the connection")
            else:
                continue
            await self._send(message)
        await self._send({"type": "http.response.body"})

    async def _next(self, reader: asyncio.StreamReader) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await reader.read(_PIECE))
        return event
