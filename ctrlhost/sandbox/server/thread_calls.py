"""Questions to the server's own thread from any other."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

T = TypeVar("T")
_ANSWER_SECONDS = 10.0


def ask(loop: asyncio.AbstractEventLoop, question: Callable[[], T]) -> T:
    """Have the thread of `loop` answer; TimeoutError after ten seconds, and whatever the question raises."""
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(question())
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that asked
            answer.set_exception(error)

    loop.call_soon_threadsafe(run)
    return answer.result(_ANSWER_SECONDS)
