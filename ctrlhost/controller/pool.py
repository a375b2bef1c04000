"""The workers of a controller whose reconciler is a plain function: threads, and their replacements."""

from __future__ import annotations

import itertools
import threading
import time
from typing import TYPE_CHECKING, Protocol, cast

from ctrlhost.controller.worker import Worker

if TYPE_CHECKING:
    from ctrlhost.controller.metrics import ControllerCounts, WorkerCounts
    from ctrlhost.controller.watchdog import Watched
    from ctrlhost.controller.worker import WorkerScope


class Pool(Protocol):
    """All workers of one controller."""

    def start(self) -> None:
        """Start the workers, once."""

    @property
    def running(self) -> bool:
        """Whether a worker, or one of its runs, has not ended."""

    def resize(self, workers: int) -> None:
        """Change the number of workers. Those that are too many end with their run."""

    def drain(self, deadline: float) -> bool:
        """Wait until `deadline` (time.monotonic) for the workers to end; return whether they did.

        The queue must be shut down. Those that did not end are abandoned: they begin no further run.
        """


class Workers:
    """A number of worker threads that can be free at once. A worker that is stuck is replaced, and ends after its run.

    Methods may be called from any thread.
    """

    def __init__(self, workers: int, scope: WorkerScope, counts: ControllerCounts) -> None:
        """Prepare that many workers."""
        self._workers = workers
        self._scope = scope
        self._counts = counts
        #: The counts of workers that have ended, for their replacements.
        self._spare: list[WorkerCounts] = []
        self._indexes = itertools.count()
        self._lock = threading.Lock()
        self._threads: dict[Worker, threading.Thread] = {}
        scope.watchdog.watch(self._threads)
        scope.watchdog.on_stuck = self._replace

    def start(self) -> None:
        """Start the workers."""
        # Under the lock, so that `drain` joins only threads that have started.
        with self._lock:
            for _ in range(self._workers):
                self._start_one()

    @property
    def running(self) -> bool:
        """Whether a worker has not ended."""
        with self._lock:
            return any(thread.is_alive() for thread in self._threads.values())

    def drain(self, deadline: float) -> bool:
        """Wait for the workers to end; see `Pool`."""
        with self._lock:
            threads = dict(self._threads)
        for thread in threads.values():
            thread.join(max(deadline - time.monotonic(), 0.0))
        for worker in threads:
            worker.retire()
        return not any(thread.is_alive() for thread in threads.values())

    def resize(self, workers: int) -> None:
        """Start or retire workers; see `Pool`. An idle one that is retired ends at the next key, which it requeues."""
        with self._lock:
            if self._scope.queue.shutting_down:
                return
            self._forget_ended()
            free = [worker for worker in self._threads if not worker.retired]
            missing = workers - len(free)
            for worker in [worker for worker in self._threads if worker.retired]:
                # Those that wait for a key, or each change would leave them behind.
                if missing > 0 and worker.resume():
                    missing -= 1
            for _ in range(missing):
                self._start_one()
            for worker in free[workers:]:
                worker.retire()

    def _start_one(self) -> None:
        index = next(self._indexes)
        worker = Worker(index, self._scope, self._spare.pop() if self._spare else self._counts.worker())
        name = f"{self._scope.contexts.controller} worker {index}"
        thread = threading.Thread(target=worker.run, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # The process has no room for a thread.
            self._spare.append(worker.counts)
            raise
        self._threads[worker] = thread

    def _replace(self, stuck: Watched) -> None:
        """Start another worker in the place of one whose run is stuck; called on a thread of the host."""
        with self._lock:
            if self._scope.queue.shutting_down:
                return
            self._forget_ended()
            self._start_one()
            cast("Worker", stuck).retire()

    def _forget_ended(self) -> None:
        for worker in [worker for worker, thread in self._threads.items() if not thread.is_alive()]:
            del self._threads[worker]
            self._spare.append(worker.counts)
