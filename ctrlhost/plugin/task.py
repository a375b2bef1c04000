"""Tasks: work of a plugin that no object wakes, on a thread of its own."""

from __future__ import annotations

import inspect
import logging
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.clock import Clock
    from ctrlhost.controller.event_loop import PluginLoop

log = logging.getLogger("ctrlhost.task")

_FIRST_DELAY = 1.0
_MAX_DELAY = 300.0

#: Whether what runs here is a task that only the leader runs, so that the plugin's client can refuse its writes.
leader_only: ContextVar[bool] = ContextVar("leader_only", default=False)


class Task:
    """Calls `run(stop)`, once or every so many seconds; what it raises is logged, and it is tried again with back-off.

    A task without `every` that returns is finished. `stop` is set when the task should end; a task that ignores it is
    left behind at the end of the process.
    """

    def __init__(
        self,
        plugin: str,
        name: str,
        run: Callable[[threading.Event], Any],
        *,
        every: float | None,
        needs_leader: bool,
        clock: Clock,
        loop: PluginLoop,
    ) -> None:
        """Prepare; nothing runs before `start`. `every` is in seconds."""
        if every is not None and not 0 < every < float("inf"):
            raise ValueError(f"task `{plugin}/{name}`: every is a positive number of seconds, not {every!r}")
        self.name = f"{plugin}/{name}"
        self.needs_leader = needs_leader
        #: What the last call raised, until one succeeds.
        self.error: str | None = None
        self.failures = 0
        self._run = run
        self._every = every
        self._clock = clock
        self._loop = loop
        self._is_async = inspect.iscoroutinefunction(run)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, on a new thread; a task that runs already goes on. A stopped task starts anew."""
        if self._thread is not None and self._thread.is_alive() and not self._stop.is_set():
            return
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._body, args=(self._stop,), name=f"{self.name} task", daemon=True)
        self._thread.start()

    def stop(self, timeout: float) -> bool:
        """Ask the task to end, and say whether it did within `timeout` real seconds."""
        self._stop.set()
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def running(self) -> bool:
        """Whether the task's thread is alive."""
        return self._thread is not None and self._thread.is_alive()

    def _body(self, stop: threading.Event) -> None:
        leader_only.set(self.needs_leader)
        delay = _FIRST_DELAY
        while not stop.is_set():
            if self._call(stop):
                if self._every is None:
                    return
                delay, pause = _FIRST_DELAY, self._every
            else:
                pause, delay = delay, min(delay * 2, _MAX_DELAY)
            self._clock.wait(stop, pause)

    def _call(self, stop: threading.Event) -> bool:
        try:
            if self._is_async:
                self._loop.submit(self._run(stop)).result()
            else:
                self._run(stop)
        except BaseException as error:
            if stop.is_set():
                return True
            self.failures += 1
            self.error = f"{type(error).__name__}: {error}"
            log.error("task %s failed: %s", self.name, self.error, exc_info=error)
            return False
        self.error = None
        return True
