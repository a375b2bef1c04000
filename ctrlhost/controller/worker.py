"""One worker of a controller whose reconciler is a plain function: a thread that takes keys and runs them.

A reconcile that does nothing costs about a microsecond here, so the loop takes several keys at a time when reconciles
are that short, counts in local variables, and touches the queue once per batch. A key waits in a batch behind slow
company only until the watchdog hands it back (see `worker_watchdog`).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ctrlhost.controller.context import Context, current
from ctrlhost.controller.metrics import BUCKETS
from ctrlhost.workqueue import ShutDown

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.controller.context import ControllerScope
    from ctrlhost.controller.leader_gate import LeaderGate
    from ctrlhost.controller.metrics import WorkerCounts
    from ctrlhost.controller.results import Outcomes
    from ctrlhost.controller.watchdog import Watchdog
    from ctrlhost.request import Request, Result

_FIRST_BUCKET = BUCKETS[0]
_MAX_BATCH = 64
#: A batch may take about this many seconds; reconciles that are slower than it come one at a time.
_BATCH_SECONDS = 0.001


class Worker:
    """Runs reconciles one after the other until its queue is shut down and empty."""

    def __init__(
        self,
        index: int,
        reconcile: Callable[[Context, Request], Result | None],
        scope: ControllerScope,
        outcomes: Outcomes,
        counts: WorkerCounts,
        watchdog: Watchdog,
        gate: LeaderGate | None = None,
    ) -> None:
        """Make the worker; `run` is the body of its thread."""
        self.context = Context(scope, index)
        self.counts = counts
        #: Keys that were taken from the queue and not begun yet. The watchdog takes from here too.
        self.waiting: deque[tuple[Request, int]] = deque()
        self._reconcile = reconcile
        self._queue = scope.queue
        self._outcomes = outcomes
        self._watchdog = watchdog
        self._gate = gate

    def run(self) -> None:
        """Take keys and reconcile them; returns when the queue says that there is nothing more to come."""
        current.set(self.context)
        queue, size, now = self._queue, 1, self.context.clock.now
        while True:
            if self._gate is not None:
                self._gate.wait()
            try:
                batch = queue.get_batch_with_priority(size)
            except ShutDown:
                return
            began = now()
            self.counts.active = 1
            done: list[Request] = []
            try:
                self._run_batch(batch, done, began)
            finally:
                self.context.request = self.context.started = None
                self.counts.active = 0
                queue.done_many(done)
            size = _next_size(size, len(done), now() - began)

    def _run_batch(self, batch: list[tuple[Request, int]], done: list[Request], started: float) -> None:
        """Run the keys, and note in `done` those that were begun here."""
        context, reconcile, counts, waiting = self.context, self._reconcile, self.counts, self.waiting
        failing, outcomes, now = self._outcomes.failing, self._outcomes, context.clock.now
        timeout, buckets = outcomes.timeout, counts.buckets
        waiting.extend(batch)
        # Before the watchdog is called, or it might find nobody running and go back to sleep.
        context.started = started
        if timeout is not None or len(batch) > 1:
            self._watchdog.look_after()
        gate = self._gate
        while waiting:
            if gate is not None and not gate.passes():
                self._hand_back(done)
                return
            try:
                key, context.priority = waiting.popleft()
            except IndexError:
                return
            done.append(key)
            context.request = key
            context.started = started
            context.number += 1
            try:
                result = reconcile(context, key)
            except BaseException as error:  # noqa: BLE001 - whatever a plugin raises stays the plugin's
                outcomes.failed(key, context.priority, error, counts)
            else:
                if result is not None:
                    outcomes.finished(key, context.priority, result, counts)
                elif failing and key in failing:
                    outcomes.succeeded(key)
            ended = now()
            seconds = ended - started
            if seconds <= _FIRST_BUCKET:
                counts.runs += 1
                counts.seconds += seconds
                buckets[0] += 1
            else:
                counts.observe(seconds)
            if timeout is not None and seconds >= timeout:
                outcomes.overran(counts)
            started = ended

    def _hand_back(self, done: list[Request]) -> None:
        """Queue what was not begun once more, for when this replica leads again."""
        while self.waiting:
            try:
                key, priority = self.waiting.popleft()
            except IndexError:
                return
            self._queue.add(key, priority=priority)
            done.append(key)


def _next_size(size: int, count: int, seconds: float) -> int:
    """Give how many keys to take next: twice as many while a batch stays short, one when it does not."""
    if count < size:
        return size
    if seconds * 2 <= _BATCH_SECONDS:
        return min(size * 2, _MAX_BATCH)
    return size if seconds <= _BATCH_SECONDS else 1
