"""Many slow jobs at once within a time; what does not end by then is abandoned."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future, ThreadPoolExecutor

log = logging.getLogger("ctrlhost.plugin.bitcoin")


class BoundedPool:
    """Runs jobs for one caller, a few at a time, on the threads of an executor. Jobs may add jobs."""

    def __init__(self, executor: ThreadPoolExecutor, width: int, keep_running: Callable[[], bool]) -> None:
        """Run at most `width` jobs at once; none starts once `keep_running` returns false."""
        self._executor, self._width, self._keep_running = executor, width, keep_running
        self._changed = threading.Condition()
        self._jobs: deque[Callable[[], None]] = deque()
        self._running = 0
        self._over = False

    def add(self, job: Callable[[], None]) -> None:
        """Enqueue a job; from any thread."""
        with self._changed:
            if self._over:
                return
            self._jobs.append(job)
            if self._running >= self._width:
                return
            self._running += 1
        try:
            self._executor.submit(self._run).add_done_callback(self._ended)
        except RuntimeError:
            self._stopped()

    def may_continue(self) -> bool:
        """Return whether a job may start something new."""
        return not self._over and self._keep_running()

    def wait(self, seconds: float) -> bool:
        """Wait at most so many real seconds for all jobs; return whether all are done. Nothing starts after this."""
        with self._changed:
            done = self._changed.wait_for(lambda: not self._running and not self._jobs, seconds)
            self._end()
            return done

    def _ended(self, run: Future[None]) -> None:
        if run.cancelled():
            self._stopped()

    def _stopped(self) -> None:
        """Abandon the jobs: the host shut down the executor before a run of them could start."""
        with self._changed:
            self._running -= 1
            self._end()

    def _end(self) -> None:
        """Start nothing more; expects the lock."""
        self._over = True
        self._jobs.clear()
        self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._keep_running():
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
