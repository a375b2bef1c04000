"""Workers of a controller whose reconciler is `async def`: tasks on the plugin's event loop, fed by one thread."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import deque
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctrlhost.controller.context import Context
from ctrlhost.workqueue import ShutDown

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ctrlhost.controller.metrics import WorkerCounts
    from ctrlhost.controller.watchdog import Watched
    from ctrlhost.controller.worker import WorkerScope
    from ctrlhost.coordination.ownership import Run as RangeRun
    from ctrlhost.request import Request, Result

#: Seconds between two checks whether the remaining runs were abandoned.
_PERIOD = 0.5


@dataclass(slots=True, eq=False)
class AsyncRun:
    """A slot for one reconcile at a time on the loop, which the watchdog treats as a worker."""

    context: Context
    counts: WorkerCounts
    #: Always empty: no key waits behind an async run.
    waiting: deque[tuple[Request, int]] = field(default_factory=deque)
    task: asyncio.Future[Result | None] | None = None
    overran: bool = False
    #: Whether the slot ends with its run, which is stuck, or since it is one too many.
    retired: bool = False
    thread: int = 0
    #: The outcome of the slot's last run; None before.
    outcome: Future[None] | None = None
    #: The run of the key in its range; None if the controller is not sharded.
    part: RangeRun | None = None


class AsyncWorkers:
    """Runs up to `workers` reconciles at once on the plugin's loop, until the queue is shut down and empty.

    One thread feeds the loop. The slots belong to the loop's thread.
    """

    def __init__(self, workers: int, scope: WorkerScope, counts: WorkerCounts) -> None:
        """Prepare the slots."""
        self._scope = scope
        self._counts = counts
        self._loop = scope.contexts.plugin.loop
        self._indexes = itertools.count()
        self._runs = [self._slot() for _ in range(workers)]
        self._free = deque(self._runs)
        self._slots = threading.Semaphore(workers)
        self._abandoned = False
        self._thread = threading.Thread(target=self._feed, name=f"{scope.contexts.controller} feeder", daemon=True)
        scope.watchdog.watch(self._runs)
        scope.watchdog.on_timeout = self._cancel
        scope.watchdog.on_stuck = self._replace

    def start(self) -> None:
        """Start the loop, and the thread that feeds it; OSError or RuntimeError if that cannot be done now."""
        self._loop.start()
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether the thread, or a run on the loop, has not ended."""
        return self._thread.is_alive() or not all(outcome.done() for outcome in self._outcomes())

    def drain(self, deadline: float) -> bool:
        """Wait for the last run, also of stuck ones; see `Pool`."""
        if self._thread.ident is not None:
            self._thread.join(max(deadline - time.monotonic(), 0.0))
        self._abandoned = True
        # It may wait for a slot.
        self._slots.release()
        return not self._thread.is_alive()

    def _outcomes(self) -> list[Future[None]]:
        return [run.outcome for run in tuple(self._runs) if run.outcome is not None]

    def _slot(self) -> AsyncRun:
        return AsyncRun(Context(self._scope.contexts, next(self._indexes)), self._counts)

    def _feed(self) -> None:
        """Take a key for each free slot until the queue is shut down and empty; return after the last run."""
        queue, gate, pause, shards = self._scope.queue, self._scope.gate, self._scope.pause, self._scope.shards
        while True:
            self._slots.acquire()
            pause.wait()
            if gate is not None:
                gate.wait()
            if self._abandoned:
                return
            openings = 0 if shards is None else shards.openings
            try:
                key, priority = queue.get_with_priority()
            except ShutDown:
                break
            term = None if gate is None else gate.passes()
            if term == 0 or pause.paused:
                # Requeued until this replica leads again, and the controller is not paused.
                queue.add(key, priority=priority)
                queue.done(key)
                self._slots.release()
                continue
            part = None if shards is None else shards.begin(key, priority, openings)
            if shards is not None and part is None:
                queue.done(key)
                self._slots.release()
                continue
            run = self._free.popleft()
            run.part = part
            try:
                run.outcome = self._loop.submit(self._run_key(run, key, priority, term))
            except RuntimeError:
                # The plugin has ended.
                if shards is not None and part is not None:
                    shards.end(part)
                return
        while not self._abandoned and wait(self._outcomes(), _PERIOD).not_done:
            pass

    async def _run_key(self, run: AsyncRun, key: Request, priority: int, term: int | None) -> None:
        """Reconcile one key in a term, on the loop's thread, so that the counts need no lock."""
        context, counts, timeout, now = run.context, self._counts, self._scope.results.timeout, run.context.clock.now
        if run.part is not None:
            context.enter_range(run.part)
        elif term is not None and term != context.term:
            context.enter(term)
        self._scope.enter(context)
        run.thread = threading.get_ident()
        started = now()
        context.request, context.started, context.number = key, started, context.number + 1
        context.priority, in_flight = priority, context.in_flight
        counts.active += 1
        if timeout is not None:
            self._scope.watchdog.notify()
        ending: tuple[str, ...] = ()
        try:
            ending = await self._reconcile_one(run, key)
            # The next run of the key writes after the cancelled writes of this one.
            await in_flight.ended()
        finally:
            if run.part is not None and self._scope.shards is not None:
                self._scope.shards.end(run.part)
            seconds = now() - started
            self._scope.history.ended((key, started, seconds, context.worker, context.number, *ending))
            counts.observe(seconds)
            if seconds >= self._scope.watchdog.limit:
                self._scope.watchdog.returned(run)
            context.request = context.started = None  # type: ignore[assignment]
            counts.active -= 1
            run.task, run.overran = None, False
            self._scope.queue.done(key)
            if run.retired:
                self._runs.remove(run)
            else:
                self._free.append(run)
                self._slots.release()

    async def _reconcile_one(self, run: AsyncRun, key: Request) -> tuple[str, ...]:
        results, counts, context = self._scope.results, self._counts, run.context
        priority, permit = context.priority, context.permit
        try:
            # A separate task, so that a cancellation at the timeout ends the reconciler and not this coroutine.
            run.task = asyncio.ensure_future(self._scope.reconciler()(context, key))
            result = await run.task
        except asyncio.CancelledError as error:
            late: BaseException = error
            if run.overran:
                late = TimeoutError(f"the reconcile was cancelled at its timeout of {results.timeout:g} s")
            return results.ended(key, priority, late, counts, permit)
        except BaseException as error:  # noqa: BLE001 - any error of a plugin is contained
            return results.ended(key, priority, error, counts, permit)
        if result is None and key not in results.attempts:
            counts.successes += 1
            return ()
        return results.ended(key, priority, result, counts)

    def _cancel(self, run: Watched) -> None:
        """Cancel a run that exceeded its timeout; called on the watchdog's thread."""
        if isinstance(run, AsyncRun) and (task := run.task) is not None and not self._abandoned:
            run.overran = True
            with suppress(RuntimeError):
                self._loop.call(task.cancel)

    def _replace(self, run: Watched) -> None:
        """Open another slot for this one, whose run is stuck; called on a thread of the host."""
        if isinstance(run, AsyncRun) and not self._abandoned:
            # The loop's thread knows whether the run has ended. While that thread is blocked, a slot would not help.
            with suppress(RuntimeError):
                self._loop.call(self._replace_here, run, run.context.number)

    def _replace_here(self, run: AsyncRun, number: int) -> None:
        if run.retired or run.context.number != number or run.context.started is None:
            return
        run.retired = True
        self._open_slot()

    def _open_slot(self) -> None:
        new = self._slot()
        self._runs.append(new)
        self._free.append(new)
        self._slots.release()

    def resize(self, workers: int) -> None:
        """Open or close slots; see `Pool`."""
        with suppress(RuntimeError):
            self._loop.call(self._resize_here, workers)

    def _resize_here(self, workers: int) -> None:
        surplus = sum(not run.retired for run in self._runs) - workers
        for _ in range(-surplus):
            self._open_slot()
        while surplus > 0 and self._slots.acquire(blocking=False):
            # Not one that the feeder holds for the next key.
            self._runs.remove(self._free.pop())
            surplus -= 1
        for run in [run for run in self._runs if not run.retired][: max(surplus, 0)]:
            run.retired = True
