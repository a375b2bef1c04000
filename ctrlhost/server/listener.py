"""HTTP servers: native threads carry the connections, and the event loops of the host run the applications."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TimedOut
from typing import TYPE_CHECKING, NamedTuple

from ctrlhost._core import HttpListener, ListenerCounts
from ctrlhost.controller.event_loop import PluginLoop
from ctrlhost.server.addresses import address_of, bind, is_loopback
from ctrlhost.server.admin import log_refusal
from ctrlhost.server.exchange import Exchange
from ctrlhost.server.lifespan import Lifespan
from ctrlhost.server.limits import PLUGIN, Limits
from ctrlhost.server.peers import Peer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import ASGIApp

    from ctrlhost._core import HttpExchange, Probes, ServerTls

log = logging.getLogger("ctrlhost.server")

_START_TIMEOUT = 10.0
#: Seconds that requests in progress have at the end, and then their last bytes.
_GRACE, _LAST_BYTES = 1.0, 0.5
#: Seconds between two log lines about refused users, or that no connection can be accepted.
_REPORTED_EVERY = 60.0


class Front(NamedTuple):
    """What a listener of the host refuses and answers in front of its application."""

    #: The host names of requests, beside `localhost` and any address; None: any name.
    hosts: Sequence[str] | None = None
    #: What it answers while Python does not run; None for nothing.
    probes: Probes | None = None
    #: Whether `/livez` and `/readyz` are among that, and the last exposition.
    answers_probes: bool = False
    shows_metrics: bool = False


class HttpServer:
    """Serves one ASGI app at one address; `tls` makes that HTTPS."""

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
        tls: ServerTls | None = None,
        front: Front | None = None,
    ) -> None:
        """Bind at once, so that a port in use is an early ConfigError, before anything else starts.

        Several servers may share a `loop`, which their owner stops after them; without one, a server has its own.
        Without a `front`, all requests are passed to the application, and its answers leave as they are.
        """
        self.name = name
        self._app = app
        self._limits = limits
        self._counts = counts or ListenerCounts()
        self._tls = tls
        self._front = front
        self._sockets = bind(address, setting)
        #: The address as `HOST:PORT`, with the actual port, or `unix:PATH`.
        self.address = address_of(self._sockets[0])
        #: Whether only clients on this machine reach the address.
        self.is_local = all(map(is_loopback, self._sockets))
        self._loop, self._own_loop = loop or PluginLoop(f"{name}/server"), loop is None
        self._listener: HttpListener | None = None
        #: What the listener wakes the loop with.
        self._woken: socket.socket | None = None
        # Those below belong to the loop.
        self._lifespan = Lifespan(app)
        self._exchanges: dict[int, Exchange] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._reported: float | None = None

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
        if self._listener is not None:
            self._listener.stop(_LAST_BYTES)
        for listening in self._sockets:
            listening.close()
        if self._own_loop:
            ended = self._loop.stop(timeout) and ended
        return ended

    async def _begin(self) -> None:
        try:
            await self._lifespan.start()
            self._woken, wakes = socket.socketpair()
            for own in (self._woken, wakes, *self._sockets):
                own.setblocking(False)
            kinds = [listening.family == socket.AF_UNIX for listening in self._sockets]
            sockets = [(listening.detach(), kind) for listening, kind in zip(self._sockets, kinds, strict=True)]
            self._listener = HttpListener(
                f"http {self.name}",
                sockets,
                wakes.detach(),
                self._limits,
                self._counts,
                self._front,
                self._tls,
            )
            asyncio.get_running_loop().add_reader(self._woken, self._wake)
        except BaseException as error:
            log.error("server %s at %s failed: %s", self.name, self.address, error, exc_info=error)
            raise

    async def _end(self) -> None:
        if self._listener is None:
            return
        self._listener.end()
        if self._tasks:
            _, late = await asyncio.wait(set(self._tasks), timeout=_GRACE)
            # Answers that do not end, such as event streams, are cut off.
            for task in late:
                task.cancel()
        await self._lifespan.stop()
        if self._woken is not None:
            asyncio.get_running_loop().remove_reader(self._woken)
            self._woken.close()

    def _wake(self) -> None:
        if self._woken is None or self._listener is None:
            return
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(1024)
        for kind, what in self._listener.events():
            match kind:
                case "request":
                    self._answer(what)
                case "news":
                    if (exchange := self._exchanges.get(what)) is not None:
                        exchange.news.set()
                case "refused":
                    path, peer, status, error = what
                    log_refusal({"path": path, "state": {"peer": Peer(*peer)}}, status, error)
                case "other_user" if self._is_due():
                    log.warning("refused a connection of the user %d to %s", what, self.address.removeprefix("unix:"))
                case "not_accepted" if self._is_due():
                    problem = what.partition(" (os error")[0]
                    log.error("listener %s cannot accept connections: %s", self.name, problem)

    def _answer(self, native: HttpExchange) -> None:
        key, exchange = native.key, Exchange(native, self._lifespan.state)

        def forget(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            del self._exchanges[key]

        self._exchanges[key] = exchange
        task = asyncio.get_running_loop().create_task(exchange.run(self._app))
        self._tasks.add(task)
        task.add_done_callback(forget)

    def _is_due(self) -> bool:
        """Return whether what clients cause may be logged again."""
        due = self._reported is None or time.monotonic() - self._reported >= _REPORTED_EVERY
        if due:
            self._reported = time.monotonic()
        return due
