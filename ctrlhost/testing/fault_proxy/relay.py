"""Forward an answer's body, and inject faults into it."""

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
"""Distinguished from a piece by identity."""
_GARBAGE = b"<html><body>502 Bad Gateway</body></html>\n"


class Cut(Exception):
    """The connection is to be reset now."""


class Relay:
    """Writes one answer's body to the client."""

    def __init__(self, writer: asyncio.StreamWriter, global_faults: GlobalFaults, *, chunked: bool) -> None:
        """Write in chunks, or unchanged if the headers have a length."""
        self._writer, self._global_faults, self._chunked = writer, global_faults, chunked
        #: The last forwarded frame of a watch with faults.
        self._last = b""

    async def send(self, data: bytes) -> None:
        """Forward some bytes."""
        await self._global_faults.pass_through()
        if data:
            self._writer.write(chunk(data) if self._chunked else data)
            await self._writer.drain()

    async def end(self) -> None:
        """End the body cleanly."""
        if self._chunked:
            await self._global_faults.pass_through()
            self._writer.write(LAST_CHUNK)
        await self._writer.drain()

    async def hit(
        self, pieces: AsyncIterator[bytes], hit: Injected, plan: Plan, watch: str, recording: Recording
    ) -> bool:
        """Forward a body and inject faults; `watch` is the content type of a stream of frames, otherwise "".

        Returns whether all of it was forwarded; raises Cut if the answer does not end cleanly.
        """
        frames = Frames(watch) if watch else None
        source = _Source(pieces)

        def limit(hit: Injected) -> float | None:
            return None if hit.fault.within is None else asyncio.get_running_loop().time() + hit.fault.within

        pending: Injected | None = hit
        left, deadline = hit.fault.after, limit(hit)
        try:
            while piece := await source.next(deadline):
                # In a quiet stream the fault strikes between two frames.
                for frame in [b""] if piece is QUIET else [piece] if frames is None else frames.feed(piece):
                    if pending is None or (left > 0 and piece is not QUIET):
                        left -= 1
                        recording.take(frame)
                        await self._forward(frame)
                        continue
                    if await self._strike(frame, pending, plan, watch):
                        return False
                    recording.take(frame)
                    pending, deadline = plan.following(pending), None
                    if pending is not None:
                        left, deadline = pending.fault.after, limit(pending)
            if frames is not None:
                await self.send(frames.rest)
            return True
        finally:
            source.drop()

    async def _strike(self, frame: bytes, hit: Injected, plan: Plan, watch: str) -> bool:
        """Inject the fault into a frame, empty if none arrived in time; return whether the body ends cleanly here."""
        fault, kind = hit.fault, hit.fault.kind
        part = frame[: int(len(frame) * fault.part)]
        if kind in ("cut", "truncate", "half-open"):
            plan.struck(hit)
            await self.send(part)
            if kind == "half-open":
                # Cancelled when the client closes the connection.
                await asyncio.sleep(fault.seconds or 1e9)
            if kind != "truncate":
                raise Cut
            return True
        if kind == "error-frame" and watch:
            plan.struck(hit)
            await self.send(error_frame(fault.status, lines="json" in watch))
            return True
        if kind == "garbage" and watch:
            plan.struck(hit)
            await self.send(_GARBAGE)
        elif kind == "duplicate" and watch and (frame or self._last):
            plan.struck(hit)
            frame += frame or self._last
        await self._forward(frame)
        return False

    async def _forward(self, frame: bytes) -> None:
        self._last = frame or self._last
        await self.send(frame)


class _Source:
    """A body whose next piece can be awaited with a deadline, without losing it."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self._pending: asyncio.Task[bytes] | None = None

    async def next(self, deadline: float | None) -> bytes:
        """Return the next piece, empty at the end; QUIET after the deadline."""
        if self._pending is None:
            self._pending = asyncio.ensure_future(anext(self._pieces, b""))
        left = None if deadline is None else max(0.0, deadline - asyncio.get_running_loop().time())
        await asyncio.wait([self._pending], timeout=left)
        if not self._pending.done():
            return QUIET
        task, self._pending = self._pending, None
        return task.result()

    def drop(self) -> None:
        """Stop reading."""
        if self._pending is not None:
            self._pending.cancel()
