"""The proxy's port: connections are taken, greeted, refused and reset here. All of it runs in the proxy's loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING

from ctrlhost.testing.fault_proxy.replay import Recorder
from ctrlhost.testing.fault_proxy.session import Session, accept, linger_not, reset

if TYPE_CHECKING:
    import ssl

    from ctrlhost.testing.fault_proxy.plan import GlobalFaults, Plan
    from ctrlhost.testing.fault_proxy.upstream import Upstream


class Listener:
    """The listening port and the connections that came through it."""

    _tls: ssl.SSLContext
    _upstream: Upstream

    def __init__(self, plan: Plan, global_faults: GlobalFaults) -> None:
        """Have no port yet; `plan` says which connections and requests are hit, `global_faults` what befalls all."""
        self._plan = plan
        self._global_faults = global_faults
        self._recorder = Recorder()
        #: Requests that came so far.
        self.requests = 0
        self._clients: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        #: Connections that were accepted and are no transport's yet, by the task that greets them.
        self._greeting: dict[asyncio.Task[None], socket.socket | None] = {}
        self._listener: socket.socket | None = None
        self._port = 0
        self._accepting = False

    def place(self, tls: ssl.SSLContext, upstream: Upstream) -> int:
        """Take a free port of the loopback interface, before `open`, and give it; `upstream` is what lies behind."""
        self._tls, self._upstream = tls, upstream
        self._listener = _bound(0)
        self._port = self._listener.getsockname()[1]
        return self._port

    async def open(self) -> None:
        """Let everything through, and take new connections."""
        if self._global_faults.flowing is None:
            self._global_faults.flowing = asyncio.Event()
        self._global_faults.flowing.set()
        if not self._accepting and self._listener is not None:
            self._listener.listen(1024)
            asyncio.get_running_loop().add_reader(self._listener, self._accept, self._listener)
            self._accepting = True

    async def cut(self) -> None:
        """Reset every connection and refuse new ones."""
        self._refuse()
        if self._listener is not None:
            # A port that is bound and not listened on refuses, and nobody else gets it meanwhile.
            self._listener = _bound(self._port)
        await self.drop()

    async def silence(self) -> None:
        """Close nothing, refuse nothing, and let nothing through."""
        if self._global_faults.flowing is not None:
            self._global_faults.flowing.clear()

    async def drop(self) -> None:
        """Reset every connection; new ones are welcome."""
        tasks = [*self._clients, *self._greeting]
        for writer in list(self._clients.values()):
            reset(writer)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def shut(self) -> None:
        """Close everything, for good; handshakes under way end a little later."""
        self._refuse()
        await self.drop()
        self._upstream.close()

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
        await self._global_faults.pass_through()
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
        client = Session(reader, writer, self._upstream, self._plan, self._recorder, self._global_faults, self._count)
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
