"""The gate before a controller's workers: open while this replica leads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class LeaderGate:
    """Lets workers begin a reconcile only while their replica leads. Safe to use from any thread."""

    def __init__(self, leading: Callable[[], bool]) -> None:
        """Begin open; `leading` is asked before each reconcile."""
        self._leading = leading
        self._lock = threading.Lock()
        self._open = threading.Event()
        self._open.set()
        self._ended = False

    def wait(self) -> None:
        """Wait until `resume` or `end`, if a worker was turned away since."""
        self._open.wait()

    def passes(self) -> bool:
        """Say whether a reconcile may begin now; if not, the gate is closed until `resume`."""
        if self._leading():
            return True
        with self._lock:
            if not self._ended:
                self._open.clear()
        return False

    def resume(self) -> None:
        """Open it, when the replica leads; may be repeated, and is, since a worker may have closed it just after."""
        self._open.set()

    def end(self) -> None:
        """Make nobody wait any more: the queue is shut down and its workers are to find that out."""
        with self._lock:
            self._ended = True
            self._open.set()
