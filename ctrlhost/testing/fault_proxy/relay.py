"""Passing an answer's body on, and what may befall it on the way."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ctrlhost.testing.fault_proxy.http1 import LAST_CHUNK, Frames, chunk, error_frame

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ctrlhost.testing.fault_proxy.fault import Injected
    from ctrlhost.testing.fault_proxy.plan import GlobalFaults, Plan
    from ctrlhost.testing.fault_proxy.replay import Recording

QUIET = bytes(bytearray(b"quiet"))
"""Told from a piece by identity."""
_GARBAGE = b"<html><body>502 Bad Gateway</body></html>\n"


class Cut(Exception):
    """The connection is to be reset now."""


class Relay:
    """Writes one answer's body to the client."""

    def __init__(self, writer: asyncio.StreamWriter, global_faults: GlobalFaults, *, chunked: bool) -> None:
        """Write in chunks, or plainly where the headers name a length."""
        self._writer, self._global_faults, self._chunked = writer, global_faults, chunked
        #: The frame that passed last, where faults are on their way.
        self._last = b""

    async def send(self, data: bytes) -> None:
        """Pass some bytes on."""
        await self._global_faults.pass_through()
        if data:
            self._writer.write(chunk(data) if self._chunked else data)
            await self._writer.drain()

    async def end(self) -> None:
        """End the body in good order."""
        if self._chunked:
            await self._global_faults.pass_through()
            self._writer.write(LAST_CHUNK)
        await self._writer.drain()

    async def hit(
        self, pieces: AsyncIterator[bytes], hit: Injected, plan: Plan, watch: str, recording: Recording
    ) -> bool:
        """Pass a body on that faults are to hit; `watch` is the content type of a stream of frames, else empty.

        Tells whether all of it passed; raises Cut where the answer does not end in good order.
        """
        frames = Frames(watch) if watch else None
        source = _Source(pieces)
        now = asyncio.get_running_loop().time
        coming: Injected | None = hit
        left, deadline = hit.fault.after, None if hit.fault.within is None else now() + hit.fault.within
        try:
            while piece := await source.next(deadline):
                # In a quiet time the fault strikes between two frames.
                for frame in [b""] if piece is QUIET else [piece] if frames is None else frames.feed(piece):
                    if coming is None or (left > 0 and piece is not QUIET):
                        left -= 1
                        recording.take(frame)
                        await self._pass(frame)
                        continue
                    if await self._strike(frame, coming, plan, watch):
                        return False
                    recording.take(frame)
                    coming, deadline = plan.following(coming), None
                    if coming is not None:
                        left = coming.fault.after
                        deadline = None if coming.fault.within is None else now() + coming.fault.within
            if frames is not None:
                await self.send(frames.begun)
            return True
        finally:
            source.drop()

    async def _strike(self, frame: bytes, hit: Injected, plan: Plan, watch: str) -> bool:
        """Do the fault to a frame, empty where none came in time; tell whether the body ends here in good order."""
        fault, kind = hit.fault, hit.fault.kind
        part = frame[: int(len(frame) * fault.part)]
        lines = "json" in watch
        if kind in ("garbage", "error-frame") and watch and not lines:
            kind = "cut"
        if kind in ("cut", "truncate", "half-open"):
            plan.struck(hit)
            await self.send(part)
            if kind == "half-open":
                # Cancelled when the client goes.
                await asyncio.sleep(fault.seconds or 1e9)
            if kind != "truncate":
                raise Cut
            return True
        if kind == "error-frame" and watch:
            plan.struck(hit)
            await self.send(error_frame(fault.status))
            return True
        if kind == "garbage" and watch:
            plan.struck(hit)
            await self.send(_GARBAGE)
        elif kind == "duplicate" and watch and (frame or self._last):
            plan.struck(hit)
            frame += frame or self._last
        await self._pass(frame)
        return False

    async def _pass(self, frame: bytes) -> None:
        self._last = frame or self._last
        await self.send(frame)


class _Source:
    """A body of which the next piece may be waited for with a limit, without losing it."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self._pending: asyncio.Task[bytes] | None = None

    async def next(self, deadline: float | None) -> bytes:
        """Give the next piece, empty at the end; QUIET when the deadline passed."""
        if deadline is None and self._pending is None:
            return await self._next()
        if self._pending is None:
            self._pending = asyncio.ensure_future(self._next())
        left = None if deadline is None else max(0.0, deadline - asyncio.get_running_loop().time())
        await asyncio.wait([self._pending], timeout=left)
        if not self._pending.done():
            return QUIET
        task, self._pending = self._pending, None
        return task.result()

    async def _next(self) -> bytes:
        return await anext(self._pieces, b"")

    def drop(self) -> None:
        """Read no more."""
        if self._pending is not None:
            self._pending.cancel()
