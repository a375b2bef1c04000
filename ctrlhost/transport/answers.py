"""Passes the answers of awaited requests on to their event loops: one thread for the process."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from ctrlhost._core import Answers

if TYPE_CHECKING:
    import asyncio

    from ctrlhost._core import HttpResponse

_lock = threading.Lock()
#: The answers of this process, and its number: a forked child has a thread of its own.
_current: tuple[int, Answers] | None = None


def answers() -> Answers:
    """Return where awaited requests put their answers; the first call starts the thread."""
    global _current
    pid = os.getpid()
    if _current is not None and _current[0] == pid:
        return _current[1]
    with _lock:
        if _current is None or _current[0] != pid:
            made = Answers()
            threading.Thread(target=_pass_on, args=(made,), name="ctrlhost answers", daemon=True).start()
            _current = pid, made
        return _current[1]


def _pass_on(arriving: Answers) -> None:
    while True:
        for done, response, error in arriving.wait():
            done(response, error)


class Awaited:
    """One request that a coroutine awaits."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make a future of `loop`."""
        self._loop = loop
        self.future: asyncio.Future[HttpResponse] = loop.create_future()

    def done(self, response: HttpResponse | None, error: Exception | None) -> None:
        """Set the outcome, from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._set, response, error)
        except RuntimeError:
            # The loop has been closed: nobody waits.
            return

    def _set(self, response: HttpResponse | None, error: Exception | None) -> None:
        if self.future.done():
            return
        if response is not None:
            self.future.set_result(response)
        elif error is not None:
            self.future.set_exception(error)
