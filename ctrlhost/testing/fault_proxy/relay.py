"""Passing an answer's body on, and what may befall it on the way."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from ctrlhost.testing.fault_proxy.wire import LAST_CHUNK, Frames, chunk, error_frame

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from ctrlhost.testing.fault_proxy.fault import Fault
    from ctrlhost.testing.fault_proxy.older import Recording

_GARBAGE = b"<html><body>502 Bad Gateway</body></html>\n"


class Cut(Exception):
    """The connection is to be reset now."""


class _Weather(Protocol):
    async def pass_through(self) -> None: ...


class Relay:
    """Writes one answer's body to the client."""

    def __init__(self, writer: asyncio.StreamWriter, weather: _Weather, *, chunked: bool) -> None:
        """Write in chunks, or plainly where the headers name a length."""
        self._writer, self._weather, self._chunked = writer, weather, chunked

    async def send(self, data: bytes) -> None:
        """Pass some bytes on."""
        await self._weather.pass_through()
        if data:
            self._writer.write(chunk(data) if self._chunked else data)
            await self._writer.drain()

    async def end(self) -> None:
        """End the body in good order."""
        if self._chunked:
            await self._weather.pass_through()
            self._writer.write(LAST_CHUNK)
        await self._writer.drain()

    async def hit(
        self,
        pieces: AsyncIterator[bytes],
        fault: Fault,
        strike: Callable[[], object],
        watch: str,
        recording: Recording,
    ) -> bool:
        """Pass a body on that a fault is to hit; `watch` is the content type of a stream of frames, else empty.

        Tells whether all of it passed; raises Cut where the answer does not end in good order.
        """
        frames = Frames(watch) if watch else None
        deadline = None if fault.within is None else asyncio.get_running_loop().time() + fault.within
        left = fault.after
        source = _Source(pieces)
        while (piece := await source.next(deadline)) is not None:
            for frame in [piece] if frames is None else frames.feed(piece):
                if left > 0:
                    left -= 1
                    recording.take(frame)
                    await self.send(frame)
                    continue
                left, deadline = 1 << 62, None
                if await self._strike(frame, fault, strike, watch):
                    source.drop()
                    return False
                recording.take(frame)
        if source.quiet and await self._strike(b"", fault, strike, watch):
            source.drop()
            return False
        if frames is not None and (begun := frames.begun):
            await self.send(begun)
        async for piece in source.rest():
            await self.send(piece)
        return True

    async def _strike(self, frame: bytes, fault: Fault, strike: Callable[[], object], watch: str) -> bool:
        """Do the fault to a frame, empty where none came in time; tell whether the body ends here in good order."""
        kind = fault.kind
        part = frame[: int(len(frame) * fault.part)]
        lines = "json" in watch
        if kind in ("garbage", "error-frame") and watch and not lines:
            kind = "cut"
        if kind in ("cut", "truncate", "half-open"):
            strike()
            await self.send(part)
            if kind == "half-open":
                # Cancelled when the client goes.
                await asyncio.sleep(fault.seconds or 1e9)
            if kind != "truncate":
                raise Cut
            return True
        if kind == "error-frame" and watch:
            strike()
            await self.send(error_frame(fault.status))
            return True
        if kind == "garbage" and watch:
            strike()
            frame = _GARBAGE + frame
        elif kind == "duplicate" and watch and frame:
            strike()
            frame += frame
        await self.send(frame)
        return False


class _Source:
    """A body of which the next piece may be waited for with a limit, without losing it."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self._pending: asyncio.Task[bytes] | None = None
        #: Whether the last wait ended for want of a piece.
        self.quiet = False

    async def next(self, deadline: float | None) -> bytes | None:
        """Give the next piece; None at the end, and when the deadline passed."""
        if deadline is None and self._pending is None:
            return await anext(self._pieces, None)
        if self._pending is None:
            self._pending = asyncio.ensure_future(self._next())
        left = None if deadline is None else max(0.0, deadline - asyncio.get_running_loop().time())
        try:
            await asyncio.wait([self._pending], timeout=left)
        except BaseException:
            self.drop()
            raise
        if not self._pending.done():
            self.quiet = True
            return None
        task, self._pending = self._pending, None
        return task.result() or None

    async def rest(self) -> AsyncIterator[bytes]:
        """Give what is left after a quiet time."""
        while self.quiet and (piece := await self.next(None)) is not None:
            yield piece

    async def _next(self) -> bytes:
        return await anext(self._pieces, b"")

    def drop(self) -> None:
        """Read no more."""
        if self._pending is not None:
            self._pending.cancel()
