"""The stacks of threads and of tasks on an event loop, as lines of text."""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from types import FrameType

#: The innermost frames that a report of an overdue entry contains.
FRAMES = 20


def stack_of(thread: int) -> list[str]:
    """Return the innermost frames of a thread, the innermost last, as `file:line function`; empty if it has ended."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - the only way to see another thread's stack
    return [_place(*step) for step in list(traceback.walk_stack(frame))[:FRAMES][::-1]] if frame is not None else []


def awaited(task: asyncio.Future[Any] | None) -> list[str]:
    """Return the frames of a task that waits, the innermost last; empty if it runs now, so that its thread has them."""
    coroutine: Any = getattr(task, "get_coro", lambda: None)()
    places: list[str] = []
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        if coroutine.cr_running:
            return []
        places.append(_place(frame, frame.f_lineno))
        coroutine = coroutine.cr_await
    return places


def place_of_frame(frame: FrameType) -> str:
    """Return where a frame is now, as `file:line function`."""
    return _place(frame, frame.f_lineno)


def _place(frame: FrameType, line: int) -> str:
    return f"{frame.f_code.co_filename}:{line} {frame.f_code.co_name}"
