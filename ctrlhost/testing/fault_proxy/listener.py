"""The proxy's port: accepts, refuses and resets connections. Everything here runs in the proxy's loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING

from ctrlhost.testing.fault_proxy.http1 import LIMIT
from ctrlhost.testing.fault_proxy.replay import Recorder
from ctrlhost.testing.fault_proxy.session import Session, reset, reset_on_close

if TYPE_CHECKING:
    import ssl

    from ctrlhost.testing.fault_proxy.plan import GlobalFaults, Plan
    from ctrlhost.testing.fault_proxy.upstream import Upstream

_HANDSHAKE = 30.0


class Listener:
    """The listening port and its connections."""

    def __init__(self, plan: Plan, global_faults: GlobalFaults, tls: ssl.SSLContext, upstream: Upstream) -> None:
        """Bind to a free port of the loopback interface, which refuses connections until `open`."""
        self._plan, self._global_faults, self._tls, self._upstream = plan, global_faults, tls, upstream
        self._recorder = Recorder()
        self._sessions: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        #: Tasks that accept a connection, and the sockets that no transport owns yet.
        self._accepting: set[asyncio.Task[None]] = set()
        self._unowned: set[socket.socket] = set()
        self._socket = _bound(0)
        self.port: int = self._socket.getsockname()[1]
        self._is_open = False

    async def open(self) -> None:
        """Accept connections and forward their data."""
        self._global_faults.flowing.set()
        if not self._is_open:
            self._socket.listen(1024)
            asyncio.get_running_loop().add_reader(self._socket, self._accept, self._socket)
            self._is_open = True

    async def cut(self) -> None:
        """Reset every connection and refuse new ones."""
        self._refuse()
        # A bound socket that does not listen refuses connections and keeps the port.
        self._socket = _bound(self.port)
        await self.drop()

    async def silence(self) -> None:
        """Stop forwarding data, without closing or refusing connections."""
        self._global_faults.flowing.clear()

    async def drop(self) -> None:
        """Reset every connection and continue to accept new ones."""
        tasks = [*self._sessions, *self._accepting]
        for writer in list(self._sessions.values()):
            reset(writer)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """Close everything for good; running handshakes end a little later."""
        self._refuse()
        await self.drop()
        self._upstream.close()

    def _refuse(self) -> None:
        if self._is_open:
            asyncio.get_running_loop().remove_reader(self._socket)
        self._is_open = False
        self._socket.close()

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        sock.setblocking(False)
        self._unowned.add(sock)
        task = asyncio.create_task(self._start_session(sock))
        self._accepting.add(task)
        task.add_done_callback(lambda task: self._accepted(task, sock))

    async def _start_session(self, sock: socket.socket) -> None:
        await self._global_faults.pass_through()
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            if (hit := self._plan.for_connection()) is None:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._unowned.discard(sock)
                reader = asyncio.StreamReader(limit=LIMIT, loop=loop)
                protocol = _Protocol(reader, loop=loop)
                transport, _ = await loop.connect_accepted_socket(
                    lambda: protocol, sock, ssl=self._tls, ssl_handshake_timeout=_HANDSHAKE
                )
                protocol.task = self._serve(reader, asyncio.StreamWriter(transport, protocol, reader, loop))
                return
            self._plan.struck(hit)
            if hit.fault.kind == "bad-tls":
                await loop.sock_sendall(sock, b"HTTP/1.1 400 Bad Request\r\n\r\n")
            else:
                reset_on_close(sock)

    def _accepted(self, task: asyncio.Task[None], sock: socket.socket) -> None:
        self._accepting.discard(task)
        if sock in self._unowned:
            self._unowned.discard(sock)
            sock.close()

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> asyncio.Task[None]:
        session = Session(reader, writer, self._upstream, self._plan, self._recorder, self._global_faults)
        task = asyncio.create_task(session.serve())
        self._sessions[task] = writer
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        writer = self._sessions.pop(task)
        writer.transport.abort()
        if not task.cancelled() and (error := task.exception()) is not None:
            loop = asyncio.get_running_loop()
            loop.call_exception_handler({"message": "the fault proxy failed", "exception": error, "task": task})


class _Protocol(asyncio.StreamReaderProtocol):
    """Cancels the task of a connection when its client closes it, whatever the task waits for."""

    task: asyncio.Task[None] | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the task of the connection."""
        super().connection_lost(exc)
        if self.task is not None:
            self.task.cancel()

    def eof_received(self) -> bool:
        """Close the connection: a client that half-closes it over HTTP/1.1 is done."""
        super().eof_received()
        return False


def _bound(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setblocking(False)
    with contextlib.ExitStack() as stack:
        stack.callback(sock.close)
        sock.bind(("127.0.0.1", port))
        stack.pop_all()
    return sock
