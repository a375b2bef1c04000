"""The proxy's connections to its API server."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ctrlhost.testing.fault_proxy.http1 import LIMIT, Broken, Head, read_head, write_head
from ctrlhost.transport.tls_context import tls_context

if TYPE_CHECKING:
    from ctrlhost.kubeconfig.connection import Connection

_IDLE = 64


@dataclass(slots=True)
class Link:
    """One connection to the server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def alive(self) -> bool:
        """Return whether the server has not closed it."""
        return not (self.reader.at_eof() or self.reader.exception() or self.writer.is_closing())

    def drop(self) -> None:
        """Close it at once."""
        self.writer.transport.abort()


class Upstream:
    """Forwards requests over pooled connections. For use in the proxy's loop."""

    def __init__(self, connection: Connection) -> None:
        """Prepare for the server of a kubeconfig, with its CA and its client certificate."""
        parts = urlsplit(connection.url)
        self._context = tls_context(connection)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._context else 80)
        self._name = connection.configuration.tls_server_name or self._host
        self.netloc = parts.netloc
        self.prefix = parts.path
        self._idle: list[Link] = []

    async def send(self, first: str, headers: list[tuple[str, str]], body: bytes) -> tuple[Link, Head]:
        """Send a request and return the head of its answer, with the connection to read the body from.

        An idle connection that the server has closed is replaced by a new one, once.
        """
        data = write_head(first, headers) + body
        idle = self._take()
        while True:
            link = idle or await self._connect()
            try:
                link.writer.write(data)
                await link.writer.drain()
                if (head := await read_head(link.reader)) is not None:
                    return link, head
                raise Broken("the server closed the connection without an answer")
            except BaseException as error:
                link.drop()
                if idle is None or not isinstance(error, OSError | Broken):
                    raise
                idle = None

    def keep(self, link: Link) -> None:
        """Return a connection to the pool once its answer was read to the end."""
        if link.alive() and len(self._idle) < _IDLE:
            self._idle.append(link)
        else:
            link.drop()

    def close(self) -> None:
        """Close the idle connections."""
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
            raise Broken(f"cannot connect to the server: {error}") from error
        return Link(reader, writer)
