"""Writes without an outcome yet, so that what must come after them can wait."""

from __future__ import annotations

import threading
import time

from ctrlhost.transport.answers import in_thread


class InFlight:
    """The writes that were begun, and neither were answered nor lost their connection. Callable from any thread.

    Waiting is for the writes that are in flight when it begins, not for later ones.
    """

    __slots__ = ("_whole", "writes")

    def __init__(self, whole: InFlight | None = None) -> None:
        """Start with none; each write is also one of `whole`."""
        self._whole = whole
        #: A lock for each, which is free once the write has its outcome.
        self.writes: set[threading.Lock] = set()

    def begin(self) -> threading.Lock:
        """Count a write until `end` is called with what this returns."""
        write = threading.Lock()
        write.acquire()
        self.writes.add(write)
        if self._whole is not None:
            self._whole.writes.add(write)
        return write

    def end(self, write: threading.Lock) -> None:
        """Note that a write has its outcome."""
        self.writes.discard(write)
        if self._whole is not None:
            self._whole.writes.discard(write)
        write.release()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait at most so many real seconds for the writes to end; return whether they did."""
        end = None if seconds is None else time.monotonic() + seconds
        for write in tuple(self.writes):
            if not write.acquire(timeout=-1 if end is None else max(end - time.monotonic(), 0.0)):
                return False
            write.release()
        return True

    async def ended(self) -> None:
        """Wait for the writes to end, on an event loop."""
        if self.writes:
            await in_thread(self.wait)
