"""The signals that ask a host to stop."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

#: A signal so soon after one is the same once more: Ctrl-C reaches a whole process group, and wrappers pass it on.
_SAME_SIGNAL = 0.1
#: How late a signal is heard of at worst, in seconds.
SIGNALS_SEEN = 0.5


class StopRequested(BaseException):
    """A signal arrived while the host was starting."""


class StopSignals:
    """SIGTERM and SIGINT: the first sets `stopping`, a second one ends the process at once with code 1."""

    def __init__(self, stopping: threading.Event, wake: Callable[[], None]) -> None:
        """Prepare; `wake` is called in a thread of its own after a signal has set `stopping`."""
        self._stopping = stopping
        self._wake = wake
        #: The name of the signal that came; empty before.
        self.came = ""
        self._came_at = 0.0
        #: While it is set a signal raises StopRequested in the main thread.
        self.starting = False

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Hear of signals as long as the block runs; in the main thread only."""
        before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        since, self._came_at = time.monotonic() - self._came_at, time.monotonic()
        if self._stopping.is_set() and since < _SAME_SIGNAL:
            return
        if self._stopping.is_set():
            os.write(2, f"{name} again: ending at once\n".encode())
            os._exit(1)
        self.came = name
        self._stopping.set()
        if self.starting:
            raise StopRequested
        # The main thread waits on the condition, so it must be woken from another.
        threading.Thread(target=self._wake, daemon=True).start()
