"""Writes without an outcome yet, so that what must come after them can wait."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class InFlight:
    """The writes that were begun, and neither were answered nor lost their connection. Callable from any thread.

    Waiting is for the writes that are in flight when it begins, not for later ones.
    """

    __slots__ = ("_whole", "writes")

    def __init__(self, whole: InFlight | None = None) -> None:
        """Start with none; each write is also one of `whole`."""
        self._whole = whole
        self.writes: set[Future[None]] = set()

    @contextmanager
    def write(self) -> Iterator[None]:
        """Count the block as one write."""
        write: Future[None] = Future()
        # Now a waiter that is cancelled cannot cancel it.
        write.set_running_or_notify_cancel()
        places = (self.writes,) if self._whole is None else (self.writes, self._whole.writes)
        for place in places:
            place.add(write)
        try:
            yield
        finally:
            for place in places:
                place.discard(write)
            write.set_result(None)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait at most so many real seconds for the writes to end; return whether they did."""
        return not wait(tuple(self.writes), seconds).not_done

    async def ended(self) -> None:
        """Wait for the writes to end, on an event loop."""
        for write in tuple(self.writes):
            await asyncio.wrap_future(write)
