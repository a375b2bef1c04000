"""Waiting for several plugins at once."""

from __future__ import annotations

import math
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable

#: Seconds between two looks at the threads.
_PERIOD = 0.01
#: Looks at a thread that does nothing, after which the others go on without it.
_PATIENCE = 10
#: Linux's flags for the processor time of a thread: CPUCLOCK_PERTHREAD_MASK and CPUCLOCK_SCHED.
_THREAD_CLOCK = 4 | 2


def wait_while_busy(
    waits: Iterable[tuple[threading.Event, Callable[[], float | None]]], limit: float = math.inf
) -> None:
    """Wait until each event is set, or its function has returned the same processor time for a while.

    It waits for `limit` seconds at most.

    Plugins that are set up together share informers, so it is worth waiting for one that computes. One that hangs must
    not delay the others. Where the function returns None, this waits for the event.
    """
    pending, ends = {event: _Progress(used) for event, used in waits}, time.monotonic() + limit
    while pending := {event: seen for event, seen in pending.items() if not event.is_set() and seen.patient()}:
        if time.monotonic() >= ends:
            return
        next(iter(pending)).wait(_PERIOD)


def processor_seconds(thread: threading.Thread) -> float | None:
    """Return the processor time of a thread; None where it cannot be read, or after the end of the thread."""
    if thread.native_id is None or sys.platform != "linux":
        return None
    try:
        # The kernel's name of the clock: `pthread_getcpuclockid` reads freed memory if the thread has ended.
        return time.clock_gettime(~thread.native_id << 3 | _THREAD_CLOCK)
    except OSError:
        # Its event is about to be seen.
        return None


class _Progress:
    """The processor time of one plugin."""

    def __init__(self, used: Callable[[], float | None]) -> None:
        self._used = used
        self._seconds = -1.0
        self._idle = 0

    def patient(self) -> bool:
        """Return whether the plugin has used the processor in one of the last looks."""
        seconds = self._used()
        self._idle = 0 if seconds is None or seconds > self._seconds else self._idle + 1
        self._seconds = self._seconds if seconds is None else seconds
        return self._idle < _PATIENCE
