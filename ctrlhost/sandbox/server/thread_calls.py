"""Calls into the server's own thread from any other."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

T = TypeVar("T")
_ANSWER_SECONDS = 10.0


def ask(loop: asyncio.AbstractEventLoop, question: Callable[[], T]) -> T:
    """Call `question` in the thread of `loop`; TimeoutError after ten seconds, and any error that it raises."""
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(question())
        except BaseException as error:  # noqa: BLE001 - it is raised in the calling thread
            answer.set_exception(error)

    loop.call_soon_threadsafe(run)
    return answer.result(_ANSWER_SECONDS)
