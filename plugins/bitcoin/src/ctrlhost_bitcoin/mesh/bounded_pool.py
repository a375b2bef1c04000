"""Doing many slow things at once within a time, and leaving behind what does not end."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future, ThreadPoolExecutor

log = logging.getLogger("ctrlhost.plugin.bitcoin")


class Lanes:
    """Runs jobs for one caller, a few at a time, on the threads of a pool. Jobs may add jobs."""

    def __init__(self, pool: ThreadPoolExecutor, width: int, go_on: Callable[[], bool]) -> None:
        """Run `width` jobs at once at most; none begins any more once `go_on` says no."""
        self._pool, self._width, self._go_on = pool, width, go_on
        self._changed = threading.Condition()
        self._jobs: deque[Callable[[], None]] = deque()
        self._running = 0
        self._over = False

    def add(self, job: Callable[[], None]) -> None:
        """Have a job run, after those added before; from any thread."""
        with self._changed:
            if self._over:
                return
            self._jobs.append(job)
            if self._running >= self._width:
                return
            self._running += 1
        try:
            self._pool.submit(self._run).add_done_callback(self._ended)
        except RuntimeError:
            self._stopped()

    def may_go_on(self) -> bool:
        """Say whether a job may begin something new."""
        return not self._over and self._go_on()

    def wait(self, seconds: float) -> bool:
        """Wait for all jobs, so many real seconds at most; say whether all are done. Nothing begins after this."""
        with self._changed:
            done = self._changed.wait_for(lambda: not self._running and not self._jobs, seconds)
            self._end()
            return done

    def _ended(self, run: Future[None]) -> None:
        if run.cancelled():
            self._stopped()

    def _stopped(self) -> None:
        """Note that the pool was shut down, since the host stops, before a run of jobs could begin."""
        with self._changed:
            self._running -= 1
            self._end()

    def _end(self) -> None:
        """Begin nothing any more; expects the lock."""
        self._over = True
        self._jobs.clear()
        self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._go_on():
                    self._end()
                if not self._jobs:
                    self._running -= 1
                    self._changed.notify_all()
                    return
                job = self._jobs.popleft()
            try:
                job()
            except Exception:
                log.exception("a job of the mesh failed")
