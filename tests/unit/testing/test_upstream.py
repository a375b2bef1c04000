"""Connections of the fault proxy to its API server."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from ctrlhost.testing.fault_proxy.upstream import Upstream


def test_an_idle_connection_that_ends_without_an_answer_is_replaced() -> None:
    asyncio.run(_replaced())


async def _replaced() -> None:
    accepted = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The first connection answers only one request.
        accepted.append(writer)
        for _ in range(1 if len(accepted) == 1 else 2):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        connection: Any = SimpleNamespace(
            url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}",
            configuration=SimpleNamespace(tls_server_name=None),
        )
        upstream = Upstream(connection)
        first, _ = await upstream.send("GET / HTTP/1.1", [("Host", "x")], b"")
        upstream.keep(first)
        second, answer = await upstream.send("GET / HTTP/1.1", [("Host", "x")], b"")
        assert answer.first == "HTTP/1.1 204 No Content"
        assert second is not first
        assert first.writer.is_closing()
        assert not second.writer.is_closing()
        second.drop()
        for writer in accepted:
            writer.transport.abort()
