"""The threads on which a host calls the webhooks of one plugin, and the queue before them."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from ctrlhost.controller.context import bound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ctrlhost.entries import Entries, Entry

#: Calls of one plugin that run at once, and those that wait for a thread.
THREADS, QUEUE = 8, 64
#: Seconds after which a call that has not returned restarts the plugin: its thread cannot be stopped.
_ABANDONED_AFTER = 60.0


class Full(Exception):
    """The queue has no room for another call."""


class Ended(Exception):
    """The plugin has ended before it was called."""


class Load(NamedTuple):
    """What a plugin has to do: calls that run, those of them beyond their deadline, and those that wait."""

    running: int
    overdue: int
    queued: int


class _Call(NamedTuple):
    """A call that waits; `at` is when it came, in seconds of `time.monotonic`."""

    subject: str
    function: Callable[[], Any]
    seconds: float
    at: float
    future: Future[Any]


class WebhookPool:
    """The threads of one plugin, each of which is started when it is first needed. Callable from any thread."""

    def __init__(self, plugin: str, entries: Entries) -> None:
        """Start without threads."""
        self._plugin = plugin
        self._entries = entries
        self._changed = threading.Condition()
        self._queue: deque[_Call] = deque()
        #: The threads, those that wait for a call, and the calls on the others.
        self._threads = self._idle = self._busy = 0
        #: The calls that run, also on the plugin's event loop.
        self._running: set[Entry] = set()
        self._ended = False

    def submit(self, subject: str, function: Callable[[], Any], seconds: float) -> Future[Any]:
        """Call `function` on a thread; its time of so many seconds begins now.

        Full if there is no room, Ended after `end`. A future that is cancelled before its call leaves the queue.
        """
        future: Future[Any] = Future()
        with self._changed:
            if self._ended:
                raise Ended
            if len(self._queue) + self._busy >= QUEUE + THREADS:
                raise Full
            call = _Call(subject, function, seconds, time.monotonic(), future)
            self._queue.append(call)
            if len(self._queue) > self._idle and self._threads < THREADS:
                self._threads += 1
                threading.Thread(target=self._run, name=f"{self._plugin}/webhooks", daemon=True).start()
            self._changed.notify()
        future.add_done_callback(lambda done: self._drop(call) if done.cancelled() else None)
        return future

    @contextmanager
    def running(self, subject: str, seconds: float, since: float) -> Iterator[Entry]:
        """Note in a block that a call runs on this thread or task, for which it has so many seconds."""
        fatal = math.ceil(_ABANDONED_AFTER / seconds)
        # Not as a thread that hangs: there are never more of them, and a slow backend is no reason for a restart.
        entry = self._entries.open("webhook", late="dropped", deadline=seconds, fatal=fatal, costs_thread=False)
        with self._changed:
            self._running.add(entry)
        entry.begin(subject, seconds_ago=time.monotonic() - since)
        try:
            with bound(plugin=self._plugin):
                yield entry
        finally:
            entry.end()
            entry.close()
            with self._changed:
                self._running.discard(entry)

    def load(self) -> Load:
        """Return what the plugin has to do."""
        with self._changed:
            overdue = sum(entry.overdue for entry in self._running)
            return Load(len(self._running), overdue, len(self._queue))

    def overdue(self, subject: str) -> int:
        """Return the number of calls about a subject that are beyond their deadline."""
        with self._changed:
            return sum(entry.overdue and entry.subject == subject for entry in self._running)

    def end(self) -> None:
        """Call nothing more: what waits fails with Ended, and a call that runs may finish."""
        with self._changed:
            self._ended = True
            waiting, self._queue = list(self._queue), deque()
            self._changed.notify_all()
        for call in waiting:
            if call.future.set_running_or_notify_cancel():
                call.future.set_exception(Ended())

    def _drop(self, call: _Call) -> None:
        with self._changed, suppress(ValueError):
            self._queue.remove(call)

    def _next(self) -> _Call | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._queue or self._ended)
            self._idle -= 1
            if not self._queue:
                return None
            self._busy += 1
            return self._queue.popleft()

    def _run(self) -> None:
        while (call := self._next()) is not None:
            if call.future.set_running_or_notify_cancel():
                self._answer(call)
            with self._changed:
                self._busy -= 1

    def _answer(self, call: _Call) -> None:
        try:
            with self.running(call.subject, call.seconds, call.at):
                result = call.function()
        except BaseException as error:  # noqa: BLE001 - raised to whoever waits
            call.future.set_exception(error)
        else:
            call.future.set_result(result)
