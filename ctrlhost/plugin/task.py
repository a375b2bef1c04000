"""Background tasks of plugins, each on its own thread."""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import threading
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from ctrlhost.clock import doubling
from ctrlhost.controller.error_text import line_of
from ctrlhost.coordination.writes import refused
from ctrlhost.duration import Duration, in_seconds
from ctrlhost.entries import Entries

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ctrlhost.clock import Clock
    from ctrlhost.controller.event_loop import PluginLoop
    from ctrlhost.coordination.writes import Permit
    from ctrlhost.duration import DurationLike
    from ctrlhost.entries import Entry

log = logging.getLogger("ctrlhost.task")

#: When a task ends at a shutdown: with the intake of new work, or after the last reconcile.
Until: TypeAlias = Literal["stopping", "drained"]

_FIRST_DELAY = 1.0
_MAX_DELAY = 300.0
#: A call of a task with `every` is reported after twice that time, in seconds, but not before this.
_LEAST_DEADLINE = 60.0


class Task:
    """Calls `run(stop)` once or every `every` seconds; logs errors, and retries with back-off.

    A task without `every` is finished when it returns. `stop` is set when the task must end, and an `async def` is
    cancelled; a task that ignores it is abandoned at the end of the process.
    """

    def __init__(
        self,
        plugin: str,
        name: str,
        run: Callable[[threading.Event], Any],
        *,
        every: DurationLike | None,
        first_after: DurationLike = 0.0,
        needs_leader: bool,
        until: Until = "stopping",
        clock: Clock,
        loop: PluginLoop,
        entries: Entries | None = None,
        work: Callable[[], AbstractContextManager[Permit | None]] = nullcontext,
    ) -> None:
        """Prepare; `start` starts the thread, which waits for `first_after` before the first call.

        ValueError if `every` is not positive and finite, `first_after` is negative or infinite, or `until` is none of
        its values. `work` is entered
        around each call; for a leader's task it binds writes to the term in which the call begins.
        """
        period = None if every is None else in_seconds(every)
        if period is not None and not 0 < period < float("inf"):
            raise ValueError(f"task `{plugin}/{name}`: every must be a positive number of seconds, got {every!r}")
        if until not in get_args(Until):
            raise ValueError(f'task `{plugin}/{name}`: until must be "stopping" or "drained", got {until!r}')
        self.name = f"{plugin}/{name}"
        self.needs_leader = needs_leader
        self.until = until
        #: The error of the last call; None after a success.
        self.error: str | None = None
        self.failures = 0
        self._run = run
        self._every = period
        self._first_after = Duration(first_after)
        self._clock = clock
        self._loop = loop
        self._entries = entries or Entries(plugin)
        self._deadline = max(2 * period, _LEAST_DEADLINE) if period is not None else 0.0
        self._work = work
        self._is_async = inspect.iscoroutinefunction(run)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        #: When the next call begins, by the clock; with `every` also while that runs, else infinite from its begin on.
        self._next = math.inf
        #: The call of an `async def`; read and set on the event loop.
        self._running: asyncio.Task[Any] | None = None

    def start(self) -> None:
        """Start a new thread, also after `stop`; a running task continues."""
        if self._thread is not None and self._thread.is_alive() and not self._stop.is_set():
            return
        self._stop = threading.Event()
        self._next = self._clock.now() + self._first_after
        thread = threading.Thread(target=self._body, args=(self._stop,), name=f"{self.name} task", daemon=True)
        thread.start()
        # Only now: a `stop` on another thread joins it.
        self._thread = thread

    def stop(self, timeout: float) -> bool:
        """Stop the task; return whether it ended within `timeout` real seconds."""
        self._stop.set()
        if self._thread is None:
            return True
        if self._is_async and self._thread.is_alive():
            # A loop that has ended has cancelled its tasks.
            with suppress(RuntimeError):
                self._loop.call(self._cancel)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def running(self) -> bool:
        """Whether the task's thread is alive."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def due_at(self) -> float:
        """When the next call is due by the clock; past while a call of a task with `every` runs. For tests."""
        return self._next if self.running and not self._stop.is_set() else math.inf

    def _cancel(self) -> None:
        if self._running is not None:
            self._running.cancel()

    def _body(self, stop: threading.Event) -> None:
        delays = doubling(_FIRST_DELAY, _MAX_DELAY)
        while not self._clock.wait_until(stop, self._next):
            if self._every is None:
                self._next = math.inf
            if self._call(stop):
                if self._every is None:
                    return
                delays, pause = doubling(_FIRST_DELAY, _MAX_DELAY), self._every
            else:
                pause = next(delays)
            if stop is self._stop:
                self._next = self._clock.now() + pause

    def _call(self, stop: threading.Event) -> bool:
        permit = None
        entry = self._entries.open("task", deadline=self._deadline)
        entry.begin(self.name)
        try:
            with self._work() as permit:
                if self._is_async:
                    self._loop.submit(self._run_async(stop, entry)).result()
                else:
                    self._run(stop)
        except BaseException as error:
            # A call whose term is over is no failure: the task starts anew in the next term.
            if stop.is_set() or refused(error, permit):
                return True
            self.failures += 1
            self.error = line_of(error)
            log.error("task %s failed: %s", self.name, self.error, exc_info=error)
            return False
        finally:
            if permit is not None:
                permit.in_flight.wait()
            entry.end()
            entry.close()
        self.error = None
        return True

    async def _run_async(self, stop: threading.Event, entry: Entry) -> None:
        entry.task = self._running = asyncio.current_task()
        try:
            # `stop` may have come before there was something to cancel.
            if not stop.is_set():
                await self._run(stop)
        finally:
            if self._running is entry.task:
                self._running = None
