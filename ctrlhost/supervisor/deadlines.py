"""The thread that compares the running entries of all plugins of a host with their deadlines."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctrlhost.entries import Entries

log = logging.getLogger("ctrlhost.host")

#: Seconds between two comparisons while an entry runs.
_PERIOD = 0.05
#: A comparison later than this, in seconds, means that the process was stopped, or the machine suspended.
_STOPPED = 1.0


class Deadlines:
    """Checks running entries, and once a second what has to be looked at. Methods may be called from any thread."""

    def __init__(self, entries: Callable[[], Iterable[Entries]]) -> None:
        """Prepare to check the entries of all plugins that `entries` returns; `start` starts the thread."""
        self._entries = entries
        self._busy = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="deadlines", daemon=True)

    def notify(self) -> None:
        """Begin to check: an entry runs. Cheap while the thread is awake."""
        if not self._busy.is_set():
            self._busy.set()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped = True
        self._busy.set()

    def _run(self) -> None:
        pause = threading.Event()
        while not self._stopped:
            period = min((entries.period for entries in self._entries()), default=1.0)
            late = _excess(self._busy, period)
            if self._busy.is_set():
                # Cleared before the check: an entry that begins meanwhile sets it again.
                self._busy.clear()
                late = max(late, _excess(pause, _PERIOD))
            excused = late if late > _STOPPED else 0.0
            running = [self._check(entries, excused) for entries in self._entries()]
            if any(running):
                self._busy.set()

    def _check(self, entries: Entries, excused: float) -> bool:
        try:
            return entries.check(excused)
        except Exception:
            # The other plugins must not lose their deadlines.
            log.exception("the deadlines of plugin %s could not be checked", entries.plugin)
            return True


def _excess(event: threading.Event, seconds: float) -> float:
    """Wait for an event; return by how many seconds the wait was longer than it should be."""
    before = time.monotonic()
    event.wait(seconds)
    return time.monotonic() - before - seconds
