"""The last resorts of `ctrlhost run`: it reports code that holds the interpreter lock, and ends a shutdown that hangs.

While no Python runs, nothing in Python can act. So the C thread of `faulthandler` writes the stacks; a process has one
such timer, which is why only the command line uses it.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Self

from ctrlhost.host.output import flush

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

log = logging.getLogger("ctrlhost.host")

#: Seconds without Python until the stacks are written, and between two starts of the timer.
_LIMIT = 5.0
_PERIOD = 0.5
#: Seconds after a report in which there is no other.
_SILENCE = 60.0
#: Seconds beyond the drain until the process ends: when Python runs, and when it does not.
_END = 1.5
_FORCED_END = 5.0
_STDERR = 2


class GilWatch:
    """Watches the interpreter lock of this process while its context is open; counts how often it was held."""

    def __init__(self, *, stacks: bool) -> None:
        """Prepare; this starts nothing. With `stacks`, write those of all threads while the lock is held.

        `faulthandler` reads the frames of threads that may run. A process that was stopped and goes on after its limit
        looks like one whose lock is held, and may crash then.
        """
        self._stacks = stacks
        #: How often no Python ran for 5 seconds.
        self.stalls = 0
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="gil watch", daemon=True)

    def __enter__(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the watch."""
        with self._lock:
            self._ending = True
            self._ended.set()
            faulthandler.cancel_dump_traceback_later()

    def stopping(self, drain_timeout: float) -> None:
        """End the process if its shutdown takes much longer than `drain_timeout` seconds; once, in the main thread.

        With code 0 as long as Python runs. If it does not, the stacks are written, and the code is 1.
        """
        with self._lock:
            if self._ending:
                return
            self._ending = True
            faulthandler.dump_traceback_later(drain_timeout + _FORCED_END, exit=True, file=_STDERR)
        timer = threading.Timer(drain_timeout + _END, leave, (0,))
        timer.daemon = True
        timer.start()

    def collect(self) -> Iterator[Metric]:
        """Return the family."""
        from prometheus_client.core import CounterMetricFamily

        yield CounterMetricFamily("ctrlhost_gil_stalls", "Times that no Python code ran for 5 s", value=self.stalls)

    def _run(self) -> None:
        silent_until = 0.0
        while not self._ended.is_set():
            began = time.monotonic()
            with self._lock:
                if self._ending:
                    return
                if self._stacks and began >= silent_until:
                    faulthandler.dump_traceback_later(_LIMIT, file=_STDERR)
            self._ended.wait(_PERIOD)
            seconds = time.monotonic() - began
            if seconds < _LIMIT:
                continue
            self.stalls += 1
            if began >= silent_until:
                log.warning("the GIL was held for %.1f s", seconds, extra={"seconds": round(seconds, 3)})
                silent_until = time.monotonic() + _SILENCE


def leave(code: int) -> None:
    """End the process at once, although threads of plugins still run, after writing the output."""
    flush()
    os._exit(code)
