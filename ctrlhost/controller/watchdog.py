"""Looks after the workers of one controller: warns of slow reconciles, and frees keys that are stuck behind them."""

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

#: How often running workers are looked at, in seconds of the machine's clock; an idle controller is not looked at.
_PERIOD = 0.02


class Watched(Protocol):
    """What the watchdog sees of a run, or of a worker that runs one after the other."""

    context: Context
    waiting: deque[tuple[Request, int]]


class Watchdog:
    """A thread that sleeps while there is nothing to look after. It is not started before the first time there is."""

    def __init__(self, controller: str, queue: WorkQueue, clock: Clock, timeout: float | None) -> None:
        """Watch runs of `controller`; `timeout` in seconds, None for no warnings."""
        self.controller = controller
        self.timeout = timeout
        #: Called with a run that has overrun; an async run is cancelled so.
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
        """Watch these workers from now on; the collection may change while it is watched."""
        self._workers = workers

    def look_after(self) -> None:
        """Have the running workers looked at; cheap, and called by a worker before it runs."""
        if not self._busy.is_set():
            self._busy.set()
            if self._thread is None:
                self._start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped = True
        self._busy.set()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"{self.controller} watchdog", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        pause = threading.Event()
        while not self._stopped:
            self._busy.wait()
            # Cleared before looking: a worker that begins meanwhile sets it again.
            self._busy.clear()
            if self._look():
                self._busy.set()
                pause.wait(_PERIOD)

    def _look(self) -> bool:
        """Look at each worker once, and say whether any is running."""
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

    def _warn(self, worker: Watched, who: int, number: int, started: float, request: Any) -> None:
        if self.timeout is None or self._warned.get(who) == number:
            return
        seconds = self._clock.now() - started
        if seconds < self.timeout:
            return
        self._warned[who] = number
        log.warning(
            "controller %s: the reconcile of %s runs for %.3g s, longer than its timeout of %.3g s",
            self.controller,
            request,
            seconds,
            self.timeout,
        )
        if self.on_overrun is not None:
            self.on_overrun(worker)

    def _free(self, worker: Watched, who: int, number: int) -> None:
        """Put the keys that wait behind a run seen before back into the queue, for the other workers."""
        if self._seen.get(who) != number:
            self._seen[who] = number
            return
        # A queue that is shutting down takes no key back.
        while worker.waiting and not self._queue.shutting_down:
            try:
                key, priority = worker.waiting.pop()
            except IndexError:
                return
            self._queue.add(key, priority=priority)
            self._queue.done(key)
