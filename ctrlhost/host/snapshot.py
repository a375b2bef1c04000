"""What is read again and again on a thread of its own, so that those who show it wait for nothing."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Generic, TypeVar

from ctrlhost.entries.recursion import restore_recursion_limit

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("ctrlhost.host")

T = TypeVar("T")

#: Seconds between two readings of what does not tell that it has changed.
_PERIOD = 1.0


class Snapshot(Generic[T]):
    """The last value of a function. All methods may be called from any thread."""

    def __init__(self, read: Callable[[], T], first: T) -> None:
        """Prepare; the value is `first` until `read` has returned."""
        self.value = first
        self._read = read
        self._at = time.monotonic()
        self._thread: threading.Thread | None = None
        self._ended = False
        self._wake = threading.Event()
        self._lock = threading.Lock()
        #: What ends with the first reading that began after the last change; None if that has ended.
        self._due: Future[None] | None = None
        #: What the present reading ends.
        self._serving: Future[None] | None = None

    @property
    def age(self) -> float:
        """The seconds since the last reading, or since the start; 0 before that."""
        return time.monotonic() - self._at if self._thread is not None else 0.0

    @property
    def outdated(self) -> bool:
        """Whether there was a change after the present reading began, or after the last one."""
        return self._due is not self._serving

    def start(self) -> None:
        """Begin to read; does nothing a second time."""
        if self._thread is None:
            self._at = time.monotonic()
            self._thread = threading.Thread(target=self._run, name="health", daemon=True)
            self._thread.start()

    def changed(self) -> None:
        """Read at once, since what is read has changed."""
        with self._lock:
            if self._due is None or self._due is self._serving:
                self._due = Future()
        self._wake.set()

    def pending(self) -> Future[None] | None:
        """Return what ends with the reading after the last change; None if the value is newer than that."""
        return self._due if self._thread is not None else None

    def stop(self) -> None:
        """End the readings, without waiting for one that hangs."""
        self._ended = True
        self._wake.set()

    def _run(self) -> None:
        failed = False
        while not self._ended:
            self._wake.clear()
            with self._lock:
                serving = self._serving = self._due
            # A reconcile or a task may have lowered it.
            restore_recursion_limit()
            try:
                self.value = self._read()
                self._at, failed = time.monotonic(), False
            except BaseException as error:
                # The value grows old, which the probes show. A panic of the core is no Exception.
                if not failed:
                    log.exception("the state of the host cannot be read: %s", error)
                failed = True
            with self._lock:
                self._serving = None
                if self._due is serving:
                    self._due = None
            if serving is not None:
                serving.set_result(None)
            self._wake.wait(_PERIOD)
