"""Passes the answers of awaited requests on to their event loops: one thread for the process."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from ctrlhost._core import Answers
from ctrlhost.transport.per_process import PerProcess

if TYPE_CHECKING:
    import asyncio
    from typing import Any

log = logging.getLogger("ctrlhost.client.transport")


def answers() -> Answers:
    """Return where awaited requests put their answers; the first call starts the thread."""
    return _answers.get()


def _start() -> Answers:
    made = Answers()
    threading.Thread(target=_pass_on, args=(made,), name="ctrlhost answers", daemon=True).start()
    return made


_answers = PerProcess(_start)


def _pass_on(arriving: Answers) -> None:
    while True:
        for done, outcome, error in arriving.wait():
            try:
                done(outcome, error)
            except Exception:
                log.exception("an answer could not be passed on")


class Awaited:
    """One outcome that a coroutine awaits."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make a future of `loop`."""
        self._loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()

    def done(self, outcome: Any, error: Exception | None) -> None:
        """Set the outcome, from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._set, outcome, error)
        except RuntimeError:
            # The loop has been closed: nobody waits.
            return

    def _set(self, outcome: Any, error: Exception | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(outcome)
        else:
            self.future.set_exception(error)
