"""Timers and daemons: a task for each object and handler, which ends with the object, the filter, or the term."""

from __future__ import annotations

import asyncio
import enum
import functools
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_kopf import processing
from ctrlhost_kopf.execution import Cause, Outcome, deliver_results, execute_handler, is_async
from ctrlhost_kopf.filters import matching
from ctrlhost_kopf.patches import Patch
from ctrlhost_kopf.progress import HandlerState

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost_kopf.plugin import Operator
    from ctrlhost_kopf.processing import Memory
    from ctrlhost_kopf.registry import Handler

#: Seconds between two looks at a daemon that nothing cancels; kopf has 60, and the object would stay as long.
_POLL = 1.0
#: Seconds that a daemon without limits has at the end of the operator; kopf leaves it behind at once.
_GRACE = 5.0
#: Ends that take longer than a pass may.
_ends: set[asyncio.Task[Any]] = set()


class DaemonStoppingReason(enum.Flag):
    """Why a daemon ends, and how far that is."""

    DONE = enum.auto()
    FILTERS_MISMATCH = enum.auto()
    RESOURCE_DELETED = enum.auto()
    OPERATOR_PAUSING = enum.auto()
    OPERATOR_EXITING = enum.auto()
    DAEMON_SIGNALLED = enum.auto()
    DAEMON_CANCELLED = enum.auto()
    DAEMON_ABANDONED = enum.auto()


class Stopper:
    """Ends one daemon. For the loop; the events may be awaited anywhere."""

    def __init__(self) -> None:
        self.when: float | None = None
        self.reason: DaemonStoppingReason | None = None
        self.event, self.async_event = threading.Event(), asyncio.Event()

    def set(self, reason: DaemonStoppingReason) -> None:
        """Ask the daemon to end, for one more reason."""
        self.when = asyncio.get_running_loop().time() if self.when is None else self.when
        self.reason = reason if self.reason is None else self.reason | reason
        self.event.set()
        self.async_event.set()

    def has(self, reason: DaemonStoppingReason) -> bool:
        """Return whether this is among the reasons."""
        return self.reason is not None and reason in self.reason

    async def sleep(self, seconds: float | None) -> None:
        """Wait so many seconds, or until the daemon has to end."""
        if seconds is None or seconds > 0:
            await _wait([asyncio.ensure_future(self.async_event.wait())], seconds, cancel=True)


class DaemonStopped:
    """The argument `stopped` of a handler: true when it has to end."""

    def __init__(self, stopper: Stopper) -> None:
        self._stopper = stopper

    def __bool__(self) -> bool:
        return self._stopper.event.is_set()

    def is_set(self) -> bool:
        """Return whether the handler has to end."""
        return bool(self)

    @property
    def reason(self) -> DaemonStoppingReason | None:
        """Why it has to end."""
        return self._stopper.reason


class SyncDaemonStopperChecker(DaemonStopped):
    """The argument `stopped` of a `def`."""

    def wait(self, timeout: float | None = None) -> SyncDaemonStopperChecker:
        """Wait until the handler has to end, at most so many seconds."""
        self._stopper.event.wait(timeout)
        return self


class AsyncDaemonStopperChecker(DaemonStopped):
    """The argument `stopped` of an `async def`."""

    async def wait(self, timeout: float | None = None) -> AsyncDaemonStopperChecker:  # noqa: ASYNC109 - kopf's word
        """Wait until the handler has to end, at most so many seconds."""
        await self._stopper.sleep(timeout)
        return self


@dataclass(eq=False)
class Daemon:
    """A timer or daemon of one object."""

    operator: Operator
    memory: Memory
    handler: Handler
    cause: Cause
    stopper: Stopper = field(default_factory=Stopper)
    task: asyncio.Task[None] = field(init=False)
    #: Seconds until the task is cancelled, and those after that until it is left behind.
    limits: tuple[float | None, float | None] = (None, None)
    #: How long after the first reason to end it was cancelled, in seconds; None before.
    cancelled: float | None = None

    def start(self) -> None:
        """Begin."""
        checker = AsyncDaemonStopperChecker if is_async(self.handler.fn) else SyncDaemonStopperChecker
        extra, options = {"stopped": checker(self.stopper)}, self.handler.options
        self.limits = options.get("cancellation_backoff"), options.get("cancellation_timeout")
        body = self.memory.body
        self.cause = replace(self.cause, group=self.handler.group, body=body, patch=Patch(body=body), extra=extra)
        self.task = asyncio.create_task(self._run(), name=str(self.handler))

    async def _run(self) -> None:
        handler, memory = self.handler, self.memory
        try:
            delay = handler.options.get("initial_delay")
            await self.stopper.sleep((delay(**self.cause.kwargs) if callable(delay) else delay) or 0)
            await (self._repeat() if handler.group == "timer" else self._call_until_done())
        except asyncio.CancelledError:
            pass
        except Exception:
            self.cause.logger.exception("%s ends", handler)
        finally:
            if self.stopper.reason is None:
                memory.forever_stopped.add(handler.id)
            memory.daemons.pop(handler.id, None)
            self.stopper.set(DaemonStoppingReason.DONE)

    async def _call_until_done(self) -> None:
        state = HandlerState.fresh(self.operator.time)
        while not self.stopper.event.is_set() and not state.finished:
            state, outcome = await self._call(state)
            await self.stopper.sleep(outcome.delay or 0)

    async def _repeat(self) -> None:
        options, now, stopper = self.handler.options, asyncio.get_running_loop().time, self.stopper
        interval, idle = options.get("interval"), options.get("idle")
        state = HandlerState.fresh(self.operator.time)
        while not stopper.event.is_set():
            if state.finished:
                state = HandlerState.fresh(self.operator.time)
            while idle is not None and not stopper.event.is_set() and now() < self.memory.idle_since + idle:
                await stopper.sleep(self.memory.idle_since + idle - now())
            if stopper.event.is_set():
                return
            began = now()
            state, outcome = await self._call(state)
            if not state.finished:
                await stopper.sleep(outcome.delay or 0)
            elif interval is not None and options.get("sharp"):
                await stopper.sleep(interval - (now() - began) % interval)
            elif interval is not None:
                await stopper.sleep(interval)
            elif idle is not None:
                while not stopper.event.is_set() and self.memory.idle_since <= began:
                    await stopper.sleep(idle)
            else:
                return

    async def _call(self, state: HandlerState) -> tuple[HandlerState, Outcome]:
        """Call the handler, write its patch and result, and return its new state."""
        cause, key = self.cause, (self.memory.uid, self.handler.id)
        counted = replace(self.handler, fn=_counted(self.handler.fn, self.operator.running_daemons, key))
        outcome = await execute_handler(counted, cause, state)
        deliver_results({self.handler.id: outcome}, cause.patch)
        if cause.patch:
            remaining = None
            try:
                remaining = await processing.apply(self.operator, cause.resource, cause.body, cause.patch)
            except ctrlhost.CtrlhostError as error:
                cause.logger.error("%s: its changes could not be written: %s", self.handler, error)
            self.cause = replace(cause, patch=Patch(remaining, body=cause.body))
        return state.with_outcome(outcome), outcome

    async def stop(self, reason: DaemonStoppingReason) -> float | None:
        """Take the next step towards the end; return the seconds until the one after, None if there is none."""
        await self._ask(reason)
        backoff, timeout = self.limits
        age = self._age()
        if self.task.done():
            return None
        if backoff is not None and age < backoff:
            await self._ask(DaemonStoppingReason.DAEMON_SIGNALLED)
            return None if self.task.done() else backoff - age
        if timeout is None:
            polling = self.handler.options.get("cancellation_polling")
            return float(min(polling or self.operator.settings.background.cancellation_polling, _POLL))
        if self.cancelled is None:
            # Also when this look is late.
            self.cancelled = age
            self.task.cancel()
            await self._ask(DaemonStoppingReason.DAEMON_CANCELLED)
            return None if self.task.done() else timeout
        if (left := self.cancelled + timeout - age) > 0:
            return left
        self._abandon()
        return None

    async def end(self, reason: DaemonStoppingReason) -> None:
        """Take all steps, waiting between them; then leave a daemon behind that has not ended."""
        backoff, timeout = self.limits
        while (delay := await self.stop(reason)) is not None:
            if timeout is None and self._age() >= (_GRACE if backoff is None else backoff):
                self._abandon()
                return
            await _wait([self.task], delay)

    def _age(self) -> float:
        return asyncio.get_running_loop().time() - (self.stopper.when or 0)

    async def _ask(self, reason: DaemonStoppingReason) -> None:
        """Add a reason to end, and wait for an end that is a matter of moments."""
        if self.stopper.has(reason):
            return
        self.stopper.set(reason)
        background = self.operator.settings.background
        if background.instant_exit_timeout is not None:
            await _wait([self.task], background.instant_exit_timeout)
        for _ in range(background.instant_exit_zero_time_cycles or 0):
            if self.task.done():
                return
            await asyncio.sleep(0)

    def _abandon(self) -> None:
        if not self.stopper.has(DaemonStoppingReason.DAEMON_ABANDONED):
            self.stopper.set(DaemonStoppingReason.DAEMON_ABANDONED)
            self.cause.logger.warning("%s did not end in time; left behind", self.handler)


async def spawn(operator: Operator, cause: Cause, memory: Memory, reset: bool) -> list[float]:
    """Start and end the timers and daemons of an object as its state wants; return when to look again, in seconds.

    `reset` says that the object has changed, which idle timers wait for.
    """
    if reset or not memory.idle_since:
        memory.idle_since = asyncio.get_running_loop().time()
    reason, handlers = DaemonStoppingReason.RESOURCE_DELETED, []
    if cause.body.metadata.deletion_timestamp is None:
        reason = DaemonStoppingReason.FILTERS_MISMATCH
        handlers = matching(operator.registry.spawning, cause, memory.forever_stopped)
    wanted = {handler.id for handler in handlers}
    ended = [await daemon.stop(reason) for key, daemon in list(memory.daemons.items()) if key not in wanted]
    delays = [delay for delay in ended if delay is not None]
    for handler in handlers if operator.spawns else ():
        if (memory.uid, handler.id) in operator.running_daemons and handler.id not in memory.daemons:
            # Left behind before a restart, in a thread that nothing ends.
            delays.append(_POLL)
        elif handler.id not in memory.daemons:
            daemon = memory.daemons[handler.id] = Daemon(operator, memory, handler, cause)
            daemon.start()
        elif memory.daemons[handler.id].stopper.event.is_set():
            # It matches again before it has ended.
            delays.append(_POLL)
    return delays


async def forget(memory: Memory) -> None:
    """Begin to end the timers and daemons of an object that is gone."""
    for daemon in list(memory.daemons.values()):
        task = asyncio.create_task(daemon.end(DaemonStoppingReason.RESOURCE_DELETED))
        _ends.add(task)
        task.add_done_callback(_ends.discard)


async def stop_all(operator: Operator, reason: DaemonStoppingReason) -> None:
    """End all timers and daemons of an operator, at once; none begins until the next term."""
    operator.spawns = False
    daemons = [daemon for memory in operator.memories.values() for daemon in memory.daemons.values()]
    await asyncio.gather(*(daemon.end(reason) for daemon in daemons))


def _counted(fn: Callable[..., Any], running: set[tuple[str, str]], key: tuple[str, str]) -> Callable[..., Any]:
    """Return a `def` that is among the running ones while it runs, on whatever thread; an `async def` as it is."""
    if is_async(fn):
        return fn

    @functools.wraps(fn)
    def call(**kwargs: Any) -> Any:
        running.add(key)
        try:
            return fn(**kwargs)
        finally:
            running.discard(key)

    return call


async def _wait(futures: list[asyncio.Future[Any]], seconds: float | None, *, cancel: bool = False) -> None:
    """Wait for futures, at most so many seconds; then cancel them if that is wanted."""
    try:
        await asyncio.wait(futures, timeout=seconds)
    finally:
        for future in futures if cancel else ():
            future.cancel()
