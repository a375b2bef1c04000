"""Work that may wait for a lock, on threads beside an event loop, and not on too many."""

from __future__ import annotations

import asyncio
import contextlib
from threading import Thread
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")


class TooMany(Exception):
    """All threads are in use, by calls that may hang."""


class Aside(Generic[_T]):
    """Calls functions on threads of their own. Belongs to one event loop."""

    def __init__(self, name: str, most: int) -> None:
        """Call at most `most` functions at once, on threads of this name."""
        self._name = name
        self._free = asyncio.Semaphore(most)

    async def call(self, function: Callable[[], _T], seconds: float, *, waits: bool = False) -> _T:
        """Return what `function` returns; TimeoutError after so many seconds, TooMany if it is not called.

        One that hangs counts until it ends. With `waits`, the seconds are for a free thread, too.
        """
        if self._free.locked() and not waits:
            raise TooMany
        loop = asyncio.get_running_loop()
        end_of_wait = loop.time() + seconds
        async with asyncio.timeout_at(end_of_wait):
            await self._free.acquire()
        answer: asyncio.Future[_T] = loop.create_future()
        # Without this, an error that nobody waits for any more is logged.
        answer.add_done_callback(lambda done: done.exception())

        def end(outcome: Callable[[], None]) -> None:
            self._free.release()
            outcome()

        def run() -> None:
            try:
                result = function()
            except BaseException as error:  # noqa: BLE001 - raised by `call`
                failure = error
                outcome: Callable[[], None] = lambda: answer.set_exception(failure)  # noqa: E731
            else:
                outcome = lambda: answer.set_result(result)  # noqa: E731
            # The loop may have been closed.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(end, outcome)

        try:
            # A daemon: one that hangs must not hold up the end of the process.
            Thread(target=run, name=self._name, daemon=True).start()
        except RuntimeError:
            self._free.release()
            raise TooMany from None
        await asyncio.wait([answer], timeout=end_of_wait - loop.time())
        if not answer.done():
            raise TimeoutError
        return answer.result()
