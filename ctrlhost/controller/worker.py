"""A worker of a controller whose reconciler is a plain function: a thread that takes keys and runs them.

A reconcile that does nothing costs about a microsecond here, so the loop takes several keys at a time when reconciles
are that short, counts in local variables, and touches the queue once per batch. A key waits in a batch behind a slow
reconcile only until the watchdog requeues it.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ctrlhost.controller.clients import working
from ctrlhost.controller.context import Context, current
from ctrlhost.controller.metrics import BUCKETS
from ctrlhost.own_writes.versions import changed_by_run
from ctrlhost.workqueue import ShutDown

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.controller.context import ControllerScope
    from ctrlhost.controller.history import History
    from ctrlhost.controller.hot_loops import HotLoops
    from ctrlhost.controller.metrics import WorkerCounts
    from ctrlhost.controller.pauses import Pause
    from ctrlhost.controller.results import Results
    from ctrlhost.controller.shard_gate import ShardGate
    from ctrlhost.controller.watchdog import Watchdog
    from ctrlhost.coordination.term import Tenure
    from ctrlhost.request import Request
    from ctrlhost.workqueue import WorkQueue

_FIRST_BUCKET = BUCKETS[0]
_MAX_BATCH = 64
#: A batch may take about this many seconds; slower reconciles are taken one at a time.
_BATCH_SECONDS = 0.001


class LeaderGate:
    """A gate that workers pass only while their replica leads. Safe to use from any thread."""

    def __init__(self, tenure: Tenure) -> None:
        """Start open; `tenure` is read before each reconcile."""
        self._tenure = tenure
        self._lock = threading.Lock()
        self._open = threading.Event()
        self._open.set()
        self._ended = False

    def wait(self) -> None:
        """Wait until `resume` or `end`, if `passes` closed the gate."""
        self._open.wait()

    def passes(self) -> int:
        """Return the term in which a reconcile may begin now; without one return 0, and close the gate."""
        if term := self._tenure.term:
            return term
        with self._lock:
            if not self._ended:
                self._open.clear()
        return 0

    def resume(self) -> None:
        """Open the gate when the replica leads; called repeatedly, since a worker may close it just after a call."""
        self._open.set()

    def end(self) -> None:
        """Release all waiting workers for good, so that they see the shutdown of the queue."""
        with self._lock:
            self._ended = True
            self._open.set()


@dataclass(frozen=True, slots=True, eq=False)
class WorkerScope:
    """State that the workers of one controller share."""

    #: State that the contexts of their runs share.
    contexts: ControllerScope
    reconcile: Callable[..., Any]
    queue: WorkQueue
    results: Results
    watchdog: Watchdog
    history: History
    #: Pauses the workers while another replica leads; None if leadership cannot change or does not matter.
    gate: LeaderGate | None
    pause: Pause
    #: Admits the keys whose ranges are open here; None for a controller that is not sharded.
    shards: ShardGate | None
    #: None if none are looked for.
    hot_loops: HotLoops | None

    def enter(self, context: Context) -> None:
        """Attribute the log lines and the writes of this thread or task to the runs in `context`, and to their term."""
        current.set(context)
        working.set(context.permit)
        if self.hot_loops is not None:
            changed_by_run.set(partial(self.hot_loops.wrote, context))

    def reconciler(self) -> Callable[..., Any]:
        """Return the function that reconciles a key now."""
        return self.reconcile if self.hot_loops is None else self.hot_loops.reconcile


class Worker:
    """Runs reconciles one after the other until its queue is shut down and empty, or until it is retired."""

    def __init__(self, index: int, scope: WorkerScope, counts: WorkerCounts) -> None:
        """Prepare; `run` is the body of the thread."""
        self.context = Context(scope.contexts, index)
        self.counts = counts
        #: Keys taken from the queue and not begun yet; the watchdog may requeue them.
        self.waiting: deque[tuple[Request, int]] = deque()
        self.thread = 0
        self.task: None = None
        self._scope = scope
        #: Whether it begins no further run.
        self.retired = False
        self._ending = threading.Lock()
        self._ended = False

    def run(self) -> None:
        """Reconcile keys until the queue is shut down and empty."""
        self._scope.enter(self.context)
        self.thread = threading.get_ident()
        queue, gate, pause, shards = self._scope.queue, self._scope.gate, self._scope.pause, self._scope.shards
        size, now = 1, self.context.clock.now
        while True:
            if pause.paused:
                pause.wait()
            if gate is not None:
                gate.wait()
            if self.retired and self._end():
                return
            openings = 0 if shards is None else shards.openings
            try:
                batch = queue.get_batch_with_priority(size)
            except ShutDown:
                return
            began = now()
            self.counts.active = 1
            done: list[Request] = []
            try:
                self._run_batch(batch, done, began, openings)
            finally:
                self.context.request = self.context.started = None  # type: ignore[assignment]
                self.counts.active = 0
                queue.done_many(done)
            size = _next_size(size, len(done), now() - began)

    def retire(self) -> None:
        """Begin no further run; called on another thread, while a run is stuck or after it has returned."""
        self.retired = True
        # Here, so that the loop over a batch needs no check.
        done: list[Request] = []
        self._requeue(done)
        self._scope.queue.done_many(done)

    def resume(self) -> bool:
        """End `retire` of a worker that has no run; return whether that was not too late."""
        with self._ending:
            if self._ended or self.context.started is not None:
                return False
            self.retired = False
            return True

    def _end(self) -> bool:
        with self._ending:
            self._ended = self.retired
            return self._ended

    def _run_batch(self, batch: list[tuple[Request, int]], done: list[Request], started: float, openings: int) -> None:
        """Run the keys, and append those that this worker began or requeued to `done`.

        `openings` is how many times ranges had opened here when the keys were taken.
        """
        scope, context, counts, waiting = self._scope, self.context, self.counts, self.waiting
        reconcile, gate, pause, results = scope.reconciler(), scope.gate, scope.pause, scope.results
        shards, part = scope.shards, None
        attempts, record, now = results.attempts, scope.history.runs.append, context.clock.now
        record_more = scope.history.ended
        limit, buckets = scope.watchdog.limit, counts.buckets
        short = min(_FIRST_BUCKET, limit)
        waiting.extend(batch)
        if self.retired:
            self._requeue(done)
            return
        # Set before the watchdog wakes, which would otherwise see no running worker and sleep again.
        context.started = started
        if results.timeout is not None or len(batch) > 1:
            scope.watchdog.notify()
        while waiting:
            if pause.paused:
                self._requeue(done)
                return
            if gate is not None:
                term = gate.passes()
                if not term:
                    self._requeue(done)
                    return
                if shards is None and term != context.term:
                    context.enter(term)
                    scope.enter(context)
            try:
                key, context.priority = waiting.popleft()
            except IndexError:
                return
            done.append(key)
            if shards is not None:
                if (part := shards.begin(key, context.priority, openings)) is None:
                    continue
                if context.enter_range(part):
                    scope.enter(context)
            context.request = key
            context.started = started
            context.number += 1
            ending: tuple[str, ...] = ()
            try:
                result = reconcile(context, key)
            except BaseException as error:  # noqa: BLE001 - any error of a plugin is contained
                ending = results.ended(key, context.priority, error, counts, context.permit)
            else:
                if result is None and not (attempts and key in attempts):
                    counts.successes += 1
                else:
                    ending = results.ended(key, context.priority, result, counts)
            if context.in_flight.writes:
                # Of threads that the run has left.
                context.in_flight.wait()
            if shards is not None and part is not None:
                shards.end(part)
            ended = now()
            seconds = ended - started
            run = (key, started, seconds, context.worker, context.number)
            if ending:
                record_more((*run, *ending))
            else:
                record(run)
            if seconds < short:
                counts.seconds += seconds
                buckets[0] += 1
            else:
                counts.observe(seconds)
                if seconds >= limit:
                    scope.watchdog.returned(self)
            started = ended

    def _requeue(self, done: list[Request]) -> None:
        """Requeue the waiting keys, for other workers or until a reconcile may begin again; dropped at a shutdown."""
        while self.waiting:
            try:
                key, priority = self.waiting.popleft()
            except IndexError:
                return
            self._scope.queue.add(key, priority=priority)
            done.append(key)


def _next_size(size: int, count: int, seconds: float) -> int:
    """Return how many keys to take next: twice as many while batches are short, one after a long batch."""
    if count < size:
        return size
    if seconds * 2 <= _BATCH_SECONDS:
        return min(size * 2, _MAX_BATCH)
    return size if seconds <= _BATCH_SECONDS else 1
