"""A request of a native listener, as ASGI sees it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ctrlhost.server.lifespan import ASGI
from ctrlhost.server.peers import Peer

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message

    from ctrlhost._core import HttpExchange

log = logging.getLogger("ctrlhost.server")


class Exchange:
    """One request and its answer. Belongs to the loop of its server."""

    def __init__(self, native: HttpExchange, state: dict[str, Any]) -> None:
        """Begin with a copy of the lifespan's state."""
        self._native = native
        #: Set when a part of the request has come, the client reads again, or has left.
        self.news = asyncio.Event()
        self._received = False
        self._head: Message | None = None
        self._begun = False
        method, version, path, query, headers = native.head()
        client, server, peer, https = native.origin()
        self._scope: dict[str, Any] = {
            "type": "http",
            "asgi": ASGI,
            "http_version": version.removeprefix("HTTP/"),
            "method": method,
            "scheme": "https" if https else "http",
            "path": unquote(path.decode("latin-1")),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": headers,
            "client": client,
            "server": server,
            "state": dict(state) if peer is None else {**state, "peer": Peer(*peer)},
        }

    async def run(self, app: ASGIApp) -> None:
        """Run the application, and end the answer if it did not."""
        try:
            await app(self._scope, self._receive, self._send)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if not self._native.is_over:
                method, path = self._scope["method"], self._scope["path"]
                log.error("%s %s failed: %s", method, path, error, exc_info=error)
        finally:
            # Nothing more comes. Without an answer, the listener says that this failed.
            self._native.cut()

    async def _receive(self) -> Message:
        while True:
            self.news.clear()
            if not self._received and (part := self._native.receive()) is not None:
                self._received = not part
                return {"type": "http.request", "body": part, "more_body": bool(part)}
            if self._native.is_over:
                return {"type": "http.disconnect"}
            await self.news.wait()

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            if self._head is not None:
                raise RuntimeError("the head of the answer was sent twice")
            # It leaves with the first part of the body.
            self._head = message
            return
        body, more = bytes(message.get("body", b"")), message.get("more_body", False)
        if self._begun:
            self._native.send(body, more)
        else:
            if self._head is None:
                raise RuntimeError("the answer has no head")
            headers = [(bytes(name), bytes(value)) for name, value in self._head.get("headers", ())]
            self._begun = True
            self._native.respond(self._head["status"], headers, body, more)
        while more and not self._native.has_room:
            self.news.clear()
            await self.news.wait()
        if not more:
            # Whoever waits for the client's leaving gets on.
            self.news.set()
