"""Waiting in coroutines for what other threads do: the answers of the core, and functions that block."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from ctrlhost._core import Answers
from ctrlhost.transport.per_process import PerProcess

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")

log = logging.getLogger("ctrlhost.client.transport")


def answers() -> Answers:
    """Return where awaited requests put their answers; the first call starts the thread."""
    return _answers.get()


def _start() -> Answers:
    arriving = Answers()
    threading.Thread(target=_pass_on, args=(arriving,), name="ctrlhost answers", daemon=True).start()
    return arriving


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

    def done(self, outcome: Any, error: BaseException | None) -> None:
        """Set the outcome, from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._set, outcome, error)
        except RuntimeError:
            # The loop has been closed: nobody waits.
            return

    def _set(self, outcome: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(outcome)
        else:
            self.future.set_exception(error)


async def in_thread(function: Callable[[], _T], name: str = "ctrlhost waiting") -> _T:
    """Return what a function returns that may block; it has a thread of its own.

    Not of an executor: those threads are shared, and the end of the process waits for them.
    """
    waiting, context = Awaited(asyncio.get_running_loop()), contextvars.copy_context()

    def run() -> None:
        try:
            outcome = context.run(function)
        except BaseException as error:  # noqa: BLE001 - the coroutine handles it
            waiting.done(None, error)
        else:
            waiting.done(outcome, None)

    threading.Thread(target=run, name=name, daemon=True).start()
    result: _T = await waiting.future
    return result
