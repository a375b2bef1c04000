"""The thread that compares the running entries of all plugins of a host with their deadlines."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctrlhost.entries import Entries

#: Seconds between two comparisons while an entry runs.
_PERIOD = 0.05
#: A comparison later than this, in seconds, means that the process was stopped, or the machine suspended.
_STOPPED = 1.0


class Deadlines:
    """Checks running entries; sleeps while there are none. Methods may be called from any thread."""

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
            self._busy.wait()
            # Cleared before the check: an entry that begins meanwhile sets it again.
            self._busy.clear()
            before = time.monotonic()
            pause.wait(_PERIOD)
            late = time.monotonic() - before - _PERIOD
            if self._check(late if late > _STOPPED else 0.0):
                self._busy.set()

    def _check(self, excused: float) -> bool:
        """Check all running entries, without the seconds that the process was stopped; return whether there are any."""
        running = [entry for entries in self._entries() for entry in entries.running()]
        for entry in running:
            if excused:
                entry.excuse(excused)
            entry.check(time.monotonic())
        return bool(running)
