"""The proxy's connections to the API server behind it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ctrlhost.testing.fault_proxy.wire import LIMIT, Broken, Head, read_head, write_head

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from ctrlhost.kubeconfig.connection import Connection

_IDLE = 64


@dataclass(slots=True)
class Link:
    """One connection to the server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def alive(self) -> bool:
        """Tell whether the server has not closed it."""
        return not (self.reader.at_eof() or self.reader.exception() or self.writer.is_closing())

    def drop(self) -> None:
        """Close it at once."""
        self.writer.transport.abort()


class Upstream:
    """Sends requests on, over connections that are kept while they are good. For use in the proxy's loop."""

    def __init__(self, connection: Connection) -> None:
        """Connect to where a kubeconfig points, with its CA and its client certificate."""
        parts = urlsplit(connection.url)
        self._context: ssl.SSLContext | None = connection.tls_context()
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._context else 80)
        self._name = connection.configuration.tls_server_name or self._host
        self.netloc = parts.netloc
        self.prefix = parts.path
        self._idle: list[Link] = []

    async def send(self, first: str, headers: list[tuple[str, str]], body: bytes) -> tuple[Link, Head]:
        """Send a request and give the head of its answer, with the connection to read the body from.

        A connection that the server had closed meanwhile is replaced by a new one, once.
        """
        data = write_head(first, headers) + body
        for link in (self._take(), None):
            fresh = link is None
            used = link or await self._connect()
            try:
                used.writer.write(data)
                await used.writer.drain()
                head = await read_head(used.reader)
                if head is not None:
                    return used, head
                if fresh:
                    raise Broken("the server closed the connection without an answer")
            except (OSError, Broken) as error:
                used.drop()
                if fresh:
                    raise Broken(str(error)) from error
            except BaseException:
                used.drop()
                raise
        raise Broken("unreachable")

    def keep(self, link: Link) -> None:
        """Take a connection back whose answer was read to its end."""
        if link.alive() and len(self._idle) < _IDLE:
            self._idle.append(link)
        else:
            link.drop()

    def close(self) -> None:
        """Close the connections that are idle."""
        while self._idle:
            self._idle.pop().drop()

    def _take(self) -> Link | None:
        while self._idle:
            link = self._idle.pop()
            if link.alive():
                return link
            link.drop()
        return None

    async def _connect(self) -> Link:
        try:
            reader, writer = await asyncio.open_connection(
                self._host,
                self._port,
                ssl=self._context,
                server_hostname=self._name if self._context else None,
                limit=LIMIT,
            )
        except OSError as error:
            raise Broken(f"no connection to the server: {error}") from error
        return Link(reader, writer)


async def whole(pieces: AsyncIterator[bytes]) -> bytes:
    """Read a body to its end."""
    return b"".join([piece async for piece in pieces])
