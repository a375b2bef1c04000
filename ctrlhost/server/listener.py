"""HTTP servers on event loops of the host, so that no reconciler can block them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TimedOut
from typing import TYPE_CHECKING, Any

from ctrlhost.controller.event_loop import PluginLoop
from ctrlhost.server.acceptor import Acceptor
from ctrlhost.server.addresses import UNIX, address_of, bind, is_loopback
from ctrlhost.server.counts import ListenerCounts
from ctrlhost.server.limits import PLUGIN, Limits
from ctrlhost.server.peers import of_this_user

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ctrlhost.server.connection import Connections

log = logging.getLogger("ctrlhost.server")

_START_TIMEOUT = 10.0
#: Seconds that requests in progress have at the end.
_GRACE = 1.0


class HttpServer:
    """Serves one ASGI app at one address; `ssl_context` makes that HTTPS."""

    def __init__(
        self,
        address: str,
        app: ASGIApp,
        name: str = "http",
        setting: str = "host.listen",
        *,
        limits: Limits = PLUGIN,
        counts: ListenerCounts | None = None,
        loop: PluginLoop | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Bind at once, so that a port in use is an early ConfigError, before anything else starts.

        Several servers may share a `loop`, which their owner stops after them; without one, a server has its own.
        """
        self.name = name
        self._app = app
        self._limits = limits
        self._counts = counts or ListenerCounts()
        self._ssl = ssl_context
        self._sockets = bind(address, setting)
        self._loop, self._own_loop = loop or PluginLoop(f"{name}/server"), loop is None
        # Those below belong to the loop.
        self._acceptor: Acceptor | None = None
        self._connections: Connections | None = None
        self._lifespan: Any = None

    @property
    def address(self) -> str:
        """The address as `HOST:PORT`, with the actual port, or `unix:PATH`."""
        return address_of(self._sockets[0])

    @property
    def is_local(self) -> bool:
        """Whether only clients on this machine reach the address."""
        return all(map(is_loopback, self._sockets))

    def start(self) -> None:
        """Begin to answer requests, and wait until it does."""
        started = self._loop.submit(self._begin())
        with contextlib.suppress(TimedOut):
            started.exception(_START_TIMEOUT)

    def stop(self, timeout: float = 2.0) -> bool:
        """Finish requests in progress and stop listening; False if that took longer than `timeout` seconds."""
        ended = True
        if self._loop.thread:
            ending: Future[None] = self._loop.submit(self._end())
            try:
                ending.result(timeout)
            except TimedOut:
                ended = False
        for listening in self._sockets:
            listening.close()
        if self._own_loop:
            ended = self._loop.stop(timeout) and ended
        return ended

    async def _begin(self) -> None:
        import uvicorn

        from ctrlhost.server.connection import Connection, Connections

        try:
            config = uvicorn.Config(
                self._counted,
                http=Connection,
                ws="none",
                interface="asgi3",
                lifespan="auto",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=self._limits.idle,
            )
            config.load()
            lifespan = config.lifespan_class(config)
            await lifespan.startup()
            if lifespan.should_exit:
                raise RuntimeError("the application failed to start")
            self._lifespan = lifespan
            connections = Connections(config, lifespan.state, self._limits, self._counts, self._ssl)
            take: Callable[[socket.socket], None] = connections.take
            if self.address.startswith(UNIX):
                take = of_this_user(take, self._refused)
            self._connections = connections
            self._acceptor = Acceptor(self._sockets, take, connections.close_idle, self._counts, self.name)
            self._acceptor.start(asyncio.get_running_loop())
        except BaseException as error:
            log.error("server %s at %s failed: %s", self.name, self.address, error, exc_info=error)
            raise

    async def _end(self) -> None:
        if self._acceptor is not None:
            self._acceptor.stop()
        if (connections := self._connections) is None:
            return
        for connection in list(connections.open):
            if not connection.in_progress:
                connection.abort()
            else:
                connection.shutdown()
        if connections.requests:
            _, late = await asyncio.wait(set(connections.requests), timeout=_GRACE)
            # Answers that do not end, such as event streams, are cut off.
            for task in late:
                task.cancel()
        # The last bytes of answers leave with the next turns of the loop.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE / 2):
                await connections.none_open.wait()
        for connection in list(connections.open):
            connection.abort()
        await self._lifespan.shutdown()

    def _refused(self) -> None:
        self._counts.requests[403] += 1

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the app, and count its answers."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        begun = False

        async def counted(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                self._counts.requests[message["status"]] += 1
            await send(message)

        try:
            await self._app(scope, receive, counted)
        except BaseException:
            if not begun:
                self._counts.requests[500] += 1
            raise
