"""The proxy itself: a thread with a listening port before an API server, and what a test does with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import selectors
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ctrlhost.client.kubeconfig import load_connection
from ctrlhost.sandbox import tls
from ctrlhost.testing.fault_proxy import kubeconfig as kubeconfigs
from ctrlhost.testing.fault_proxy.older import Recorder
from ctrlhost.testing.fault_proxy.plan import WEIGHTS, Plan, Storm
from ctrlhost.testing.fault_proxy.serve import Client, Weather, accept, linger_not, reset
from ctrlhost.testing.fault_proxy.upstream import Upstream

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from types import TracebackType

    from ctrlhost.testing.fault_proxy.fault import Fault, Injected

SEED = "CTRLHOST_SEED"
_ENDS = 10.0
_FAREWELL = 2.0


class FaultProxy:
    """Stands before one API server. Clients that use its `kubeconfig` go through it; all others are left alone.

    Methods may be called from any thread, and have taken effect when they return. TLS on both sides.
    """

    def __init__(self, server: Any, *, context: str | None = None, seed: int | None = None) -> None:
        """Stand before `server`: the path of a kubeconfig, or anything that has one as `.kubeconfig`.

        `seed` is what storms draw from; without it `$CTRLHOST_SEED`, else one is made up.
        """
        self._source = Path(getattr(server, "kubeconfig", server))
        self._context = context
        given = os.environ.get(SEED)
        #: The seed of the next storm.
        self.seed: int = seed if seed is not None else int(given) if given else random.SystemRandom().randrange(1 << 31)
        self._plan = Plan()
        self._folder = tempfile.TemporaryDirectory(prefix="ctrlhost-proxy-")
        #: Where clients find the proxy's address, its CA and the server's user.
        self.kubeconfig = Path(self._folder.name, "kubeconfig")
        self.url = ""
        #: Requests that came so far.
        self.requests = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._weather = Weather()
        self._recorder = Recorder()
        self._clients: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        #: Connections that were accepted and are no transport's yet, by the task that greets them.
        self._greeting: dict[asyncio.Task[None], socket.socket | None] = {}
        self._listener: socket.socket | None = None
        self._accepting = False

    def start(self) -> Self:
        """Listen on a free port of the loopback interface, and write the kubeconfig."""
        connection = load_connection(self._source, self._context)
        certificates = tls.issue("127.0.0.1")
        self._tls = certificates.server_context()
        self._upstream = Upstream(connection)
        self._listener = _bound(0)
        self._port = self._listener.getsockname()[1]
        self.url = f"https://127.0.0.1:{self._port}"
        kubeconfigs.write(self.kubeconfig, self._source, self._context, url=self.url, ca=certificates.ca)
        self._selector = selectors.DefaultSelector()
        self._loop = asyncio.SelectorEventLoop(self._selector)
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault proxy", daemon=True)
        self._thread.start()
        self._run(self._open())
        return self

    def stop(self) -> None:
        """Close everything; for good."""
        if self._loop is None or self._thread is None:
            return
        self._run(self._shut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_ENDS)
        self._loop.close()
        self._loop = None
        self._folder.cleanup()

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    # ---- the network as a whole ----

    def cut(self, *, silent: bool = False) -> None:
        """Take the network away: connections are reset and new ones refused, until `restore`.

        With `silent` nothing is closed, nothing is refused and nothing arrives: what a lost route looks like.
        """
        self._run(self._silence() if silent else self._cut())

    def restore(self) -> None:
        """Give the network back. After a silent cut what was on its way arrives."""
        self._run(self._open())

    def drop(self) -> None:
        """Reset every open connection, once; new ones are welcome."""
        self._run(self._drop())

    def delay(self, seconds: float) -> None:
        """Hold every request and every piece of an answer back for so long; 0 ends it."""
        self._weather.latency = seconds

    # ---- single faults and storms ----

    def next(
        self,
        fault: Fault,
        *,
        verb: str | None = None,
        resource: str | None = None,
        name: str | None = None,
        times: int = 1,
    ) -> None:
        """Let `fault` hit the next `times` requests of this verb, resource (a plural) and name; None is any.

        Verbs are `get`, `list`, `watch`, `create`, `replace`, `apply`, `patch`, `delete` and `delete_collection`.
        Faults of connections hit the next new ones, whoever makes them.
        """
        self._plan.order(fault, verb, resource, name, times)

    def left(self) -> int:
        """Give how many faults of `next` have hit nothing yet."""
        return self._plan.left()

    def storm(
        self,
        rate: float = 0.3,
        *,
        watches: float = 1.0,
        connections: float = 0.1,
        within: float = 0.1,
        silence: float = 1.0,
        seed: int | None = None,
        kinds: Mapping[str, float] | None = None,
    ) -> int:
        """Hit a share of all requests with faults drawn from the seed, until `calm`; give the seed.

        It begins with `drop`, so that watches which are open already take part.

        `connections` is the share of new connections that fail, `watches` that of watches, which live long: each that
        is hit is so after `within` seconds at most, and again until it ends. A
        `stall` or `half-open` that the client bears for `silence` seconds ends in a reset; with 0 it never does.
        `kinds` are the kinds of faults with their weights. The fault of a request depends on the seed, its verb, its
        path and how many of these there were, not on what other threads do meanwhile.
        """
        if unknown := set(kinds or ()) - set(WEIGHTS):
            raise ValueError(f"no kinds of faults: {', '.join(sorted(unknown))}; there are {', '.join(WEIGHTS)}")
        used = self.seed if seed is None else seed
        self._plan.storm(Storm(used, rate, watches, connections, within, silence, dict(kinds or WEIGHTS)))
        self.drop()
        return used

    def calm(self) -> None:
        """End the storm, take back what `next` ordered, and lift silence and delay."""
        self._plan.clear()
        self._weather.latency = 0.0
        self._run(self._open())

    # ---- what happened ----

    @property
    def total(self) -> int:
        """How many faults have struck."""
        return self._plan.total

    @property
    def counts(self) -> dict[str, int]:
        """How many faults of each kind have struck."""
        return dict(self._plan.counts)

    @property
    def log(self) -> list[Injected]:
        """The newest ten thousand faults that struck, oldest first."""
        return list(self._plan.log)

    # ---- in the proxy's own thread ----

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        if self._loop is None:
            work.close()
            raise RuntimeError("the proxy is not running")
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_ENDS)

    async def _open(self) -> None:
        if self._weather.flowing is None:
            self._weather.flowing = asyncio.Event()
        self._weather.flowing.set()
        if not self._accepting and self._listener is not None:
            self._listener.listen(1024)
            asyncio.get_running_loop().add_reader(self._listener, self._accept, self._listener)
            self._accepting = True

    async def _cut(self) -> None:
        self._refuse()
        if self._listener is not None:
            # A port that is bound and not listened on refuses, and nobody else gets it meanwhile.
            self._listener = _bound(self._port)
        await self._drop()

    async def _silence(self) -> None:
        if self._weather.flowing is not None:
            self._weather.flowing.clear()

    async def _drop(self) -> None:
        tasks = [*self._clients, *self._greeting]
        for writer in list(self._clients.values()):
            reset(writer)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _shut(self) -> None:
        self._refuse()
        await self._drop()
        self._upstream.close()
        # A handshake that was called off still says its farewell; only the loop's own pipe is to be left.
        deadline = time.monotonic() + _FAREWELL
        while len(self._selector.get_map()) > 1 and time.monotonic() < deadline:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)

    def _refuse(self) -> None:
        if self._listener is not None:
            if self._accepting:
                asyncio.get_running_loop().remove_reader(self._listener)
            self._accepting = False
            self._listener.close()

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        sock.setblocking(False)
        task = asyncio.create_task(self._greet(sock))
        self._greeting[task] = sock
        task.add_done_callback(self._greeted)

    async def _greet(self, sock: socket.socket) -> None:
        await self._weather.pass_through()
        with contextlib.suppress(OSError):
            if (hit := self._plan.for_connection()) is None:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._greeting[_this()] = None
                await accept(sock, self._serve, self._tls)
                return
            self._plan.struck(hit)
            if hit.fault.kind == "bad-tls":
                await asyncio.get_running_loop().sock_sendall(sock, b"HTTP/1.1 400 Bad Request\r\n\r\n")
            else:
                linger_not(sock)

    def _greeted(self, task: asyncio.Task[None]) -> None:
        if (sock := self._greeting.pop(task)) is not None:
            sock.close()

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> asyncio.Task[None]:
        client = Client(reader, writer, self._upstream, self._plan, self._recorder, self._weather, self._count)
        task = asyncio.create_task(client.serve())
        self._clients[task] = writer
        task.add_done_callback(self._gone)
        return task

    def _gone(self, task: asyncio.Task[None]) -> None:
        writer = self._clients.pop(task)
        writer.transport.abort()
        if not task.cancelled() and (error := task.exception()) is not None:
            loop = asyncio.get_running_loop()
            loop.call_exception_handler({"message": "the fault proxy failed", "exception": error, "task": task})

    def _count(self) -> None:
        self.requests += 1


def _this() -> asyncio.Task[None]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("only tasks greet connections")
    return task


def _bound(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setblocking(False)
    with contextlib.ExitStack() as stack:
        stack.callback(sock.close)
        sock.bind(("127.0.0.1", port))
        stack.pop_all()
    return sock
