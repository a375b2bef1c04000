"""Fake daemons on real sockets, as many as the loopback network has addresses, served by one thread."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any, Self

from examples.bitcoind.fake_daemon import PORT, FakeDaemon, Raw, Reply, Slow


class FakeDaemons:
    """Fake daemons on real sockets, served by one thread that ends with the block."""

    def __init__(self) -> None:
        """Start without daemons; the block starts the thread."""
        self.daemons: dict[str, FakeDaemon] = {}
        self.connections = 0
        """Connections accepted so far."""
        self._servers: dict[FakeDaemon, asyncio.Server] = {}
        self._open: dict[FakeDaemon, set[asyncio.StreamWriter]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake daemons", daemon=True)

    def start(self, host: str, port: int = PORT, **options: Any) -> FakeDaemon:
        """Start a daemon at an address; options are `FakeDaemon`'s. Port 0 chooses a free one."""
        daemon = FakeDaemon(host, port, **options)
        daemon.reaches = lambda node: (server := self.daemons.get(node)) is not None and server in self._servers
        self.daemons[host] = daemon
        self.up(daemon)
        return daemon

    def up(self, daemon: FakeDaemon) -> None:
        """Accept calls again."""
        self._run(self._up(daemon))

    def down(self, daemon: FakeDaemon) -> None:
        """Cut all connections and refuse new ones; the other daemons lose their links to this one."""
        self._run(self._down(daemon))
        for other in self.daemons.values():
            other.links.discard(daemon.host)

    def hang_up(self, daemon: FakeDaemon) -> None:
        """Close the idle connections, as a daemon does after 30 s."""
        self._run(self._hang_up(daemon))

    def __enter__(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all daemons and the thread."""
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _up(self, daemon: FakeDaemon) -> None:
        self._open[daemon] = set()
        server = await asyncio.start_server(
            lambda reader, writer: self._serve(daemon, reader, writer), daemon.host, daemon.port, limit=1 << 24
        )
        daemon.port = server.sockets[0].getsockname()[1]
        self._servers[daemon] = server

    async def _down(self, daemon: FakeDaemon) -> None:
        self._servers.pop(daemon).close()
        await self._hang_up(daemon)

    async def _hang_up(self, daemon: FakeDaemon) -> None:
        for writer in list(self._open[daemon]):
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _end(self) -> None:
        for server in self._servers.values():
            server.close()
        for writers in self._open.values():
            for writer in list(writers):
                writer.transport.abort()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, daemon: FakeDaemon, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open[daemon].add(writer)
        try:
            while await self._serve_one(daemon, reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._open[daemon].discard(writer)
            writer.close()

    async def _serve_one(self, daemon: FakeDaemon, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        body = await reader.readexactly(int(headers["content-length"]))
        headers[""] = head[0]
        reply = daemon.handle(body, headers)
        if isinstance(reply, Slow):
            await asyncio.sleep(reply.seconds)
            reply = daemon.handle(body, headers, late=True)
        if isinstance(reply, Raw):
            for piece in reply.pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(reply.pause)
            return False
        if not isinstance(reply, Reply):
            await reader.read()
            return False
        lines = {"Content-Type": "application/json", "Content-Length": str(len(reply.body)), **reply.headers}
        text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        writer.write(f"HTTP/1.1 {reply.status} scripted\r\n{text}\r\n".encode("latin-1") + reply.body)
        await writer.drain()
        return True
