"""The watchdog of a controller's workers: it reports slow reconciles, and frees keys that wait behind them."""

from __future__ import annotations

import logging
import math
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ctrlhost.entries import awaited, stack_of

if TYPE_CHECKING:
    import asyncio
    from collections import deque
    from collections.abc import Callable, Iterable

    from ctrlhost.clock import Clock
    from ctrlhost.controller.context import Context
    from ctrlhost.controller.metrics import WorkerCounts
    from ctrlhost.entries import Entries, Entry
    from ctrlhost.request import Request
    from ctrlhost.workqueue import WorkQueue

log = logging.getLogger("ctrlhost.controller")

#: Seconds of real time between two checks of running workers; idle workers are not checked.
_PERIOD = 0.02
#: Seconds that a cancelled run may take to end, until it counts as stuck.
_CANCELLATION = 1.0


class Watched(Protocol):
    """The watched members of a worker, or of a slot for async runs."""

    context: Context
    waiting: deque[tuple[Request, int]]
    counts: WorkerCounts
    #: The thread that runs the reconciler, for its stack.
    thread: int

    @property
    def task(self) -> asyncio.Future[Any] | None:
        """The task of an async run."""


class RunningKey(NamedTuple):
    """A run in progress."""

    key: Any
    seconds: float
    reconcile_id: str
    #: The innermost frame, as `file:line function`; empty if the run has just ended.
    where: str
    #: The keys that the worker has taken from the queue and not begun.
    behind: tuple[Any, ...]


class Watchdog:
    """Checks running workers: often while keys wait behind a run, or with a timeout; else once a second."""

    def __init__(
        self,
        controller: str,
        queue: WorkQueue,
        clock: Clock,
        entries: Entries,
        timeout: float | None = None,
        slow_after: float = 0.0,
    ) -> None:
        """Watch runs of `controller`; `timeout` and `slow_after` in seconds, None and 0 for none."""
        self.controller = controller
        #: Called with a run that exceeded the timeout; cancels async runs.
        self.on_timeout: Callable[[Watched], None] | None = None
        #: Called with a run that counts as stuck; starts another worker.
        self.on_stuck: Callable[[Watched], None] | None = None
        self._queue = queue
        self._clock = clock
        self._entries = entries
        self._workers: Iterable[Watched] = ()
        self._busy = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None
        #: Guards what is known of the runs.
        self._lock = threading.Lock()
        self._runs: dict[int, _Run] = {}
        self.set_limits(timeout, slow_after)

    def set_limits(self, timeout: float | None, slow_after: float) -> None:
        """Change the limits, also of the runs in progress."""
        self._timeout = timeout or math.inf
        self._slow_after = slow_after or math.inf
        #: The seconds after which a worker calls `returned`.
        self.limit = min(self._timeout, self._slow_after)
        self._unwatch = self._entries.watch(self._check_slow, min(1.0, self._slow_after / 4))

    def watch(self, workers: Iterable[Watched]) -> None:
        """Watch these workers from now on; the collection may change meanwhile."""
        self._workers = workers

    def notify(self) -> None:
        """Start checking often; cheap, and called by a worker before it runs keys that wait, or with a timeout."""
        if not self._busy.is_set():
            self._busy.set()
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name=f"{self.controller} watchdog", daemon=True)
                    self._thread.start()

    def stop(self) -> None:
        """End the thread; runs that are stuck are followed until they return."""
        self._stopped = True
        self._busy.set()

    def longest(self) -> float:
        """Return the seconds that the longest run has taken so far; 0 without one."""
        now = self._clock.now()
        begun = [worker.context.started for worker in tuple(self._workers) if worker.context.request is not None]
        return max((now - started for started in begun if started is not None), default=0.0)

    def running_keys(self) -> list[RunningKey]:
        """Return the runs in progress, the longest first."""
        now, running = self._clock.now(), []
        for worker in tuple(self._workers):
            context = worker.context
            key, started = context.request, context.started
            if key is None or started is None:
                continue
            frames = awaited(worker.task) or stack_of(worker.thread)
            behind = tuple(waiting_key for waiting_key, _ in tuple(worker.waiting))
            where = frames[-1] if frames else ""
            running.append(RunningKey(key, now - started, context.reconcile_id, where, behind))
        return sorted(running, key=lambda run: -run.seconds)

    def running(self) -> list[Watched]:
        """Return the workers that run a reconcile now."""
        return [worker for worker in tuple(self._workers) if worker.context.request is not None]

    def returned(self, worker: Watched) -> None:
        """Note that a run has returned after `limit`; called by its worker, before it begins another run."""
        with self._lock:
            run = self._runs.pop(id(worker.context), None)
            if run is None or run.number != worker.context.number or not run.counted:
                worker.counts.timeouts += 1
        if run is not None:
            run.end()

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
        # A worker that is about to begin has no request yet.
        running = any(worker.context.started is not None for worker in tuple(self._workers))
        for worker, run, seconds in self._running():
            if seconds >= self._timeout and not run.timed_out:
                self._time_out(worker, run, seconds)
            if worker.waiting:
                self._free(worker, run)
            run.seen = True
        return running

    def _check_slow(self, excused: float) -> None:
        """Report the runs that are stuck, but for the `excused` seconds in which the process was stopped."""
        running = self._running()
        if self._stopped and not running:
            self._unwatch()
        for worker, run, seconds in running:
            run.excused += excused
            deadline = self._slow_after
            if run.timed_out and worker.task is not None and self._timeout + _CANCELLATION < deadline:
                deadline = self._timeout + _CANCELLATION
            if seconds - run.excused >= deadline and run.entry is None:
                self._report(worker, run, seconds - run.excused, deadline)

    def _running(self) -> list[tuple[Watched, _Run, float]]:
        """Return the workers that run, what is known of their runs, and the seconds that these have taken.

        Forget the runs that have ended. One that was reported just after its worker had compared it with `limit` ends
        here: its worker has not called `returned`.
        """
        running, now = [], self._clock.now()
        with self._lock:
            known, self._runs = self._runs, {}
            for worker in tuple(self._workers):
                context = worker.context
                started, number, request = context.started, context.number, context.request
                if started is None or request is None:
                    continue
                run = known.get(id(context))
                if run is None or run.number != number:
                    run = _Run(number, request)
                else:
                    del known[id(context)]
                self._runs[id(context)] = run
                running.append((worker, run, now - started))
        for run in known.values():
            run.end()
        return running

    def _time_out(self, worker: Watched, run: _Run, seconds: float) -> None:
        run.timed_out = True
        with self._lock:
            if self._runs.get(id(worker.context)) is not run:
                return
            self._count(worker, run)
        log.warning(
            "controller %s: reconcile of %s is running for %.3g s, longer than its timeout of %.3g s",
            self.controller,
            run.request,
            seconds,
            self._timeout,
        )
        if self.on_timeout is not None:
            self.on_timeout(worker)

    def _report(self, worker: Watched, run: _Run, seconds: float, deadline: float) -> None:
        entry = self._entries.open("reconcile", controller=self.controller, deadline=deadline)
        with self._lock:
            if worker.context.number != run.number or self._runs.get(id(worker.context)) is not run:
                entry.close()
                return
            run.entry = entry
            entry.task = worker.task
            entry.begin(run.request, thread=worker.thread, seconds_ago=seconds)
            self._count(worker, run)
        entry.check(time.monotonic())
        if entry.overdue and self.on_stuck is not None:
            self.on_stuck(worker)

    def _count(self, worker: Watched, run: _Run) -> None:
        """Count a run once as too long; under the lock."""
        if not run.counted:
            run.counted = True
            worker.counts.timeouts += 1

    def _free(self, worker: Watched, run: _Run) -> None:
        """Requeue the keys that wait behind a run that an earlier check saw, for the other workers."""
        # A queue that is shutting down accepts no keys.
        while run.seen and worker.waiting and not self._queue.shutting_down:
            try:
                key, priority = worker.waiting.pop()
            except IndexError:
                return
            self._queue.add(key, priority=priority)
            self._queue.done(key)


@dataclass(slots=True, eq=False)
class _Run:
    """What is known of one run."""

    number: int
    request: Any
    #: Whether an earlier check saw the run; whether it exceeded the timeout; whether it was counted.
    seen: bool = False
    timed_out: bool = False
    counted: bool = False
    #: Seconds in which the process was stopped.
    excused: float = 0.0
    #: Set while the run is stuck.
    entry: Entry | None = None

    def end(self) -> None:
        """End the report of a run that was stuck."""
        if self.entry is not None:
            self.entry.end()
            self.entry.close()
