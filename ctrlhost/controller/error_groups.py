"""The errors of an exception group, such as that of `asyncio.TaskGroup`, and the one by which the run ends."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from ctrlhost.controller.error_text import line_of
from ctrlhost.controller.places import is_in_plugin
from ctrlhost.coordination.writes import causes
from ctrlhost.errors import NotLeading, NotOwned, PluginRestarted, RetryAfter, TerminalError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The errors that a note names.
_NAMED = 10


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Return the errors of a group and of the groups in it; an error that is no group is its own."""
    # Not by recursion: groups may be nested to any depth.
    waiting = [error]
    while waiting:
        error = waiting.pop()
        if isinstance(error, BaseExceptionGroup):
            waiting += reversed(error.exceptions)
        else:
            yield error


def decisive(error: BaseException) -> BaseException:
    """Return the error of a group by which its run ends; one that is no group as it is.

    First the end of the term, then failures, then what asks for a later run; the run is terminal only if all errors
    are. The others are a note of it.
    """
    if not isinstance(error, BaseExceptionGroup):
        return error
    errors = sorted(leaves(error), key=_rank)
    first, others = errors[0], errors[1:]
    if not is_in_plugin(first.__traceback__):
        # A task of a library's coroutine has no frame of the author; the group has.
        first = first.with_traceback(_joined(error.__traceback__, first.__traceback__))
    with suppress(Exception):
        # An error may be frozen, such as one that is a dataclass.
        for other in others[:_NAMED]:
            first.add_note(f"in one group with {line_of(other)}")
    return first


def _joined(outer: TracebackType | None, inner: TracebackType | None) -> TracebackType | None:
    """Return a traceback of the frames of `outer`, then of `inner`."""
    frames = []
    while outer is not None:
        frames.append(outer)
        outer = outer.tb_next
    for frame in reversed(frames):
        inner = TracebackType(inner, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return inner


def _rank(error: BaseException) -> int:
    chain = tuple(causes(error))
    for rank, kinds in ((0, (NotLeading, PluginRestarted)), (4, TerminalError)):
        if any(isinstance(cause, kinds) for cause in chain):
            return rank
    return 3 if isinstance(error, NotOwned) else 2 if isinstance(error, RetryAfter) else 1
