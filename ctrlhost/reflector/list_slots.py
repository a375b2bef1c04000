"""How many lists of ranges that come run at once: a replica that takes much must not flood the API server."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

#: Lists at a time.
SLOTS = 4


class ListSlots:
    """The lists of one replica that run, and those that wait for their turn, in order. Callable from any thread."""

    def __init__(self, count: int = SLOTS) -> None:
        """Prepare for `count` lists at a time."""
        self._count = count
        self._lock = threading.Lock()
        self._running: set[Hashable] = set()
        #: Those that wait, each with what wakes it.
        self._waiting: dict[Hashable, Callable[[], None]] = {}

    def ask(self, who: Hashable, wake: Callable[[], None]) -> bool:
        """Return whether it is `who`'s turn, which lasts until `end`; else `wake` is called when it is."""
        with self._lock:
            if who in self._running:
                return True
            if len(self._running) < self._count:
                self._running.add(who)
                return True
            self._waiting[who] = wake
            return False

    def end(self, who: Hashable) -> None:
        """End a turn, or the wait for it; the next one is woken."""
        with self._lock:
            self._waiting.pop(who, None)
            if who not in self._running:
                return
            self._running.remove(who)
            if not self._waiting:
                return
            first = next(iter(self._waiting))
            wake = self._waiting.pop(first)
            self._running.add(first)
        wake()
