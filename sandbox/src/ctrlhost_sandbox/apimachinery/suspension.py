"""Work that may wait in its middle, as for the answer of a webhook, while the server's loop goes on with other work."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import greenlet

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")


class _Run(greenlet.greenlet):
    """One run of such work."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(work)
        #: What the work remembers until its end.
        self.memory: dict[Any, Any] = {}


def run(work: Callable[[], None]) -> None:
    """Run `work` until it ends or waits for the first time; the loop runs the rest of it.

    Within another run it begins in the loop's next turn.
    """
    if possible():
        asyncio.get_running_loop().call_soon(run, work)
        return

    def contained() -> None:
        # A server that stops cancels what is waited for.
        with suppress(asyncio.CancelledError):
            work()

    _Run(contained).switch()


def possible() -> bool:
    """Return whether the caller is within `run`, so that it may wait."""
    return isinstance(greenlet.getcurrent(), _Run)


def memory() -> dict[Any, Any]:
    """Return what the present run remembers until its end."""
    own = greenlet.getcurrent()
    assert isinstance(own, _Run)
    return own.memory


def result_of(coroutine: Coroutine[Any, Any, T]) -> T:
    """Wait for a coroutine within `run`, and return its result or raise its error. Other work may change the store."""
    own = greenlet.getcurrent()
    assert own.parent is not None
    task = asyncio.get_running_loop().create_task(coroutine)
    task.add_done_callback(lambda _: own.switch())
    own.parent.switch()
    return task.result()
