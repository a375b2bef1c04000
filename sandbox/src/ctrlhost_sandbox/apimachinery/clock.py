"""The sandbox's clock: the machine's, ahead by what `Sandbox.advance` has added."""

from __future__ import annotations

import datetime as dt
import threading
import time as machine
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


_LAST = dt.datetime(9001, 1, 1, tzinfo=dt.UTC).timestamp()
"""Timestamps have years of four digits, and some are in the future."""


class _Thread(threading.local):
    """The lead of the server that runs in this thread; each server has its own thread."""

    ahead = 0.0


_thread = _Thread()


def time() -> float:
    """Return seconds since the epoch, for timestamps in objects."""
    return machine.time() + _thread.ahead


def now() -> float:
    """Return monotonic seconds; only differences are meaningful."""
    return machine.monotonic() + _thread.ahead


class Timers:
    """Calls after delays of this clock. Belongs to the thread of its loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Call in `loop`."""
        self._loop = loop
        self._pending: dict[_Timer, asyncio.TimerHandle] = {}

    def after(self, seconds: float, work: Callable[[], None]) -> None:
        """Call `work` once the clock has advanced by `seconds`."""
        self._set(_Timer(now() + seconds, work))

    def advance(self, seconds: float) -> None:
        """Advance the clock of this thread's server; what is due then is called in the loop's next turns.

        ValueError beyond the year 9000.
        """
        if time() + seconds >= _LAST:
            raise ValueError("the clock cannot advance beyond the year 9000")
        _thread.ahead += seconds
        for timer, handle in list(self._pending.items()):
            handle.cancel()
            self._set(timer)

    def _set(self, timer: _Timer) -> None:
        self._pending[timer] = self._loop.call_later(max(timer.due - now(), 0.0), self._fire, timer)

    def _fire(self, timer: _Timer) -> None:
        del self._pending[timer]
        timer.work()


class _Timer:
    """Work that is due at a time; compared by identity."""

    __slots__ = ("due", "work")

    def __init__(self, due: float, work: Callable[[], None]) -> None:
        self.due, self.work = due, work
