"""The watchdog of a controller's workers: it warns of slow reconciles, and frees keys that wait behind them."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterable

    from ctrlhost.clock import Clock
    from ctrlhost.controller.context import Context
    from ctrlhost.request import Request
    from ctrlhost.workqueue import WorkQueue

log = logging.getLogger("ctrlhost.controller")

#: Seconds of real time between two checks of running workers; idle workers are not checked.
_PERIOD = 0.02


class Watched(Protocol):
    """The watched members of a worker, or of a slot for async runs."""

    context: Context
    waiting: deque[tuple[Request, int]]


class Watchdog:
    """A thread that checks running workers and sleeps while there are none. The first `notify` starts it."""

    def __init__(self, controller: str, queue: WorkQueue, clock: Clock, timeout: float | None) -> None:
        """Watch runs of `controller`; `timeout` in seconds, None for no warnings."""
        self.controller = controller
        self.timeout = timeout
        #: Called with a run that exceeded the timeout; cancels async runs.
        self.on_overrun: Callable[[Watched], None] | None = None
        self._queue = queue
        self._clock = clock
        self._workers: Iterable[Watched] = ()
        self._busy = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._warned: dict[int, int] = {}
        self._seen: dict[int, int] = {}

    def watch(self, workers: Iterable[Watched]) -> None:
        """Watch these workers from now on; the collection may change meanwhile."""
        self._workers = workers

    def notify(self) -> None:
        """Start checking the running workers; cheap, and called by a worker before it runs."""
        if not self._busy.is_set():
            self._busy.set()
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name=f"{self.controller} watchdog", daemon=True)
                    self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped = True
        self._busy.set()

    def _run(self) -> None:
        pause = threading.Event()
        while not self._stopped:
            self._busy.wait()
            # Cleared before the check: a worker that begins meanwhile sets it again.
            self._busy.clear()
            if self._check():
                self._busy.set()
                pause.wait(_PERIOD)

    def _check(self) -> bool:
        """Check each worker once, and return whether any is running."""
        running = False
        for worker in tuple(self._workers):
            context = worker.context
            started, number, request = context.started, context.number, context.request
            if started is None:
                continue
            running = True
            if request is None:
                continue
            self._warn(worker, id(context), number, started, request)
            if worker.waiting:
                self._free(worker, id(context), number)
        return running

    def _warn(self, worker: Watched, context: int, number: int, started: float, request: Any) -> None:
        if self.timeout is None or self._warned.get(context) == number:
            return
        seconds = self._clock.now() - started
        if seconds < self.timeout:
            return
        self._warned[context] = number
        log.warning(
            "controller %s: reconcile of %s is running for %.3g s, longer than its timeout of %.3g s",
            self.controller,
            request,
            seconds,
            self.timeout,
        )
        if self.on_overrun is not None:
            self.on_overrun(worker)

    def _free(self, worker: Watched, context: int, number: int) -> None:
        """Requeue the keys that wait behind a run that an earlier check saw, for the other workers."""
        if self._seen.get(context) != number:
            self._seen[context] = number
            return
        # A queue that is shutting down accepts no keys.
        while worker.waiting and not self._queue.shutting_down:
            try:
                key, priority = worker.waiting.pop()
            except IndexError:
                return
            self._queue.add(key, priority=priority)
            self._queue.done(key)
