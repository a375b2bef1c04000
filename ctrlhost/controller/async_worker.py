"""Workers of a controller whose reconciler is `async def`: tasks on the plugin's event loop, fed by one thread."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import TYPE_CHECKING

from ctrlhost.controller.context import Context, current
from ctrlhost.workqueue import ShutDown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ctrlhost.controller.context import ControllerScope
    from ctrlhost.controller.event_loop import PluginLoop
    from ctrlhost.controller.leader_gate import LeaderGate
    from ctrlhost.controller.metrics import WorkerCounts
    from ctrlhost.controller.results import Outcomes
    from ctrlhost.controller.watchdog import Watchdog, Watched
    from ctrlhost.request import Request, Result


class AsyncRun:
    """One slot for a reconcile on the loop; the watchdog looks at it as it does at a worker."""

    def __init__(self, context: Context) -> None:
        """Take the slot's context, which serves one run after the other."""
        self.context = context
        #: Nothing ever waits behind an async run.
        self.waiting: deque[tuple[Request, int]] = deque()
        self.task: asyncio.Task[Result | None] | None = None
        self.overran = False


class AsyncWorkers:
    """Runs up to `workers` reconciles at once on the plugin's loop, until the queue is shut down and empty."""

    def __init__(
        self,
        workers: int,
        reconcile: Callable[[Context, Request], Awaitable[Result | None]],
        scope: ControllerScope,
        outcomes: Outcomes,
        counts: WorkerCounts,
        watchdog: Watchdog,
        loop: PluginLoop,
        gate: LeaderGate | None = None,
    ) -> None:
        """Make the slots; `run` is the body of the feeding thread."""
        self.runs = [AsyncRun(Context(scope, index)) for index in range(workers)]
        self._reconcile = reconcile
        self._queue = scope.queue
        self._outcomes = outcomes
        self._counts = counts
        self._watchdog = watchdog
        self._loop = loop
        self._gate = gate
        self._slots = threading.Semaphore(workers)
        self._free = deque(self.runs)
        watchdog.on_overrun = self._cancel

    def run(self) -> None:
        """Take a key for each slot that is free; returns when nothing more will come and the last run has ended."""
        while True:
            self._slots.acquire()
            if self._gate is not None:
                self._gate.wait()
            try:
                key, priority = self._queue.get_with_priority()
            except ShutDown:
                break
            if self._gate is not None and not self._gate.passes():
                # Queued once more, for when this replica leads again.
                self._queue.add(key, priority=priority)
                self._queue.done(key)
                self._slots.release()
                continue
            run = self._free.popleft()
            self._loop.submit(self._turn(run, key, priority))
        for _ in range(len(self.runs) - 1):
            self._slots.acquire()

    async def _turn(self, run: AsyncRun, key: Request, priority: int) -> None:
        """Reconcile one key; runs on the loop, so counts need no lock."""
        context, counts, outcomes, now = run.context, self._counts, self._outcomes, self._loop_now(run)
        current.set(context)
        started = now()
        context.request, context.started, context.number = key, started, context.number + 1
        context.priority = priority
        counts.active += 1
        if outcomes.timeout is not None:
            self._watchdog.look_after()
        try:
            await self._reconcile_one(run, key)
        finally:
            seconds = now() - started
            counts.observe(seconds)
            if outcomes.timeout is not None and seconds >= outcomes.timeout:
                outcomes.overran(counts)
            context.request = context.started = None
            counts.active -= 1
            run.task, run.overran = None, False
            self._queue.done(key)
            self._free.append(run)
            self._slots.release()

    async def _reconcile_one(self, run: AsyncRun, key: Request) -> None:
        try:
            # A task of its own, so that a cancellation at the timeout ends the reconciler and not the turn.
            run.task = asyncio.ensure_future(self._awaited(run.context, key))
            result = await run.task
        except asyncio.CancelledError as error:
            late = (
                TimeoutError(f"the reconcile was cancelled at its timeout of {self._outcomes.timeout:g} s")
                if run.overran
                else error
            )
            self._outcomes.failed(key, run.context.priority, late, self._counts)
        except BaseException as error:  # noqa: BLE001 - whatever a plugin raises stays the plugin's
            self._outcomes.failed(key, run.context.priority, error, self._counts)
        else:
            if result is not None:
                self._outcomes.finished(key, run.context.priority, result, self._counts)
            elif key in self._outcomes.failing:
                self._outcomes.succeeded(key)

    async def _awaited(self, context: Context, key: Request) -> Result | None:
        return await self._reconcile(context, key)

    @staticmethod
    def _loop_now(run: AsyncRun) -> Callable[[], float]:
        return run.context.clock.now

    def _cancel(self, run: Watched) -> None:
        """End a run that took too long; called by the watchdog's thread."""
        if isinstance(run, AsyncRun) and (task := run.task) is not None:
            run.overran = True
            self._loop.call(task.cancel)
