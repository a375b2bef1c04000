"""Output of streams: chunks are collected, and written once per turn of the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio


def chunk(data: bytes) -> bytes:
    """Frame `data` as one HTTP chunk; data that many streams send is framed once for all of them."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def payload(framed: bytes) -> memoryview:
    """Return the data of a chunk."""
    return memoryview(framed)[framed.index(b"\r\n") + 2 : -2]


def joined(chunks: list[bytes]) -> bytes:
    """Join chunks to one: a large chunk costs clients less than many small ones."""
    return chunks[0] if len(chunks) == 1 else chunk(b"".join(map(payload, chunks)))


class Sink(Protocol):
    """The connection that a channel writes to."""

    def write_chunks(self, chunks: list[bytes], /) -> None:
        """Write framed chunks, and keep none."""

    def stream_ended(self) -> None:
        """Finish the response."""


class Outbox:
    """The channels of one server that have something to write."""

    __slots__ = ("_full", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Write in `loop`, once per turn."""
        self._loop = loop
        self._full: list[Channel] = []

    def add(self, channel: Channel) -> None:
        """Schedule a flush of `channel` before the loop waits again: one callback for all channels."""
        if not self._full:
            self._loop.call_soon(self._flush)
        self._full.append(channel)

    def _flush(self) -> None:
        full, self._full = self._full, []
        for channel in full:
            channel.flush()


class Channel:
    """The output of one stream."""

    __slots__ = ("_connection", "_outbox", "_pending", "ended")

    def __init__(self, connection: Sink, outbox: Outbox) -> None:
        """Write to `connection`."""
        self._connection = connection
        self._outbox = outbox
        self._pending: list[bytes] = []
        self.ended = False

    def send(self, framed: bytes) -> None:
        """Queue a chunk. A client that stops reading is disconnected; it can resume by revision."""
        if self.ended:
            return
        if not self._pending:
            self._outbox.add(self)
        self._pending.append(framed)

    def end(self) -> None:
        """End the body properly, after the queued chunks."""
        if not self.ended:
            self.flush()
            self.ended = True
            self._connection.stream_ended()

    def flush(self) -> None:
        """Write the queued chunks."""
        pending = self._pending
        if pending and not self.ended:
            self._connection.write_chunks(pending)
            pending.clear()
