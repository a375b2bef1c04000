"""Resyncs: periodic notifications of every cached object, without a request to the server."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctrlhost.clock import Clock
    from ctrlhost.informers.namespace_informer import NamespaceInformer


class Resyncer:
    """The resync thread of a factory; it runs only if a handler wants resyncs."""

    def __init__(self, clock: Clock, parts: Callable[[], Sequence[NamespaceInformer]]) -> None:
        """Resync `parts`, which is called before each round."""
        self._clock = clock
        self._parts = parts
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        #: By part; None until the thread has looked for the first time. A time stays until its resync is done.
        self._next: dict[int, float] | None = None

    def start(self) -> None:
        """Start the thread if a part wants resyncs and it is not running."""
        with self._lock:
            if self._thread is not None or self._stop.is_set() or not any(part.resync_period for part in self._parts()):
                return
            self._thread = threading.Thread(target=self._run, name="resync", daemon=True)
            self._thread.start()

    @property
    def due_at(self) -> float:
        """When the next resync is due by the clock, past until it is done; infinite without any. For tests."""
        if self._thread is None or self._stop.is_set():
            return math.inf
        return self._clock.now() if self._next is None else min(self._next.values(), default=math.inf)

    def stop(self) -> None:
        """Stop the thread."""
        self._stop.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(5.0)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._clock.wait(self._stop, self._tick())

    def _tick(self) -> float:
        """Resync the parts that are due; return the seconds until the next resync."""
        now = self._clock.now()
        soonest = now + 60.0
        before, known = self._next or {}, dict[int, float]()
        for part in self._parts():
            period = part.resync_period
            if not period:
                continue
            due = before.get(id(part), now + period)
            if now >= due:
                part.resync()
                due = now + period
            known[id(part)] = due
            soonest = min(soonest, due)
        self._next = known
        return max(soonest - now, 0.0)
