"""Calls of a plugin that a request starts and does not wait for: health checks and collectors of metrics."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from ctrlhost.controller.error_text import line_of
from ctrlhost.entries import Entries
from ctrlhost.health import Check

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What a call has returned, and when, in seconds of `time.monotonic`."""

    value: T
    at: float


class Probe(Generic[T]):
    """A function that is called on a thread of its own, one call at a time. Callable from any thread."""

    def __init__(self, thread: str, function: Callable[[], T]) -> None:
        """Prepare to call `function`, which must not raise, on a thread of this name."""
        #: What the last call returned; None before.
        self.outcome: Outcome[T] | None = None
        self._thread = thread
        self._function = function
        self._lock = threading.Lock()
        self._run: Future[None] | None = None
        self._since = 0.0

    def start(self) -> Future[None]:
        """Begin a call unless one runs; return what ends with the call."""
        with self._lock:
            if self._run is None or self._run.done():
                run: Future[None] = Future()
                # Before anything else: there may be too many threads.
                threading.Thread(target=self._body, args=(run,), name=self._thread, daemon=True).start()
                self._run, self._since = run, time.monotonic()
            return self._run

    def running_for(self) -> float | None:
        """Return the seconds since the running call began; None if none runs."""
        with self._lock:
            return time.monotonic() - self._since if self._run is not None and not self._run.done() else None

    def _body(self, run: Future[None]) -> None:
        try:
            self.outcome = Outcome(self._function(), time.monotonic())
        finally:
            run.set_result(None)


@dataclass(frozen=True, slots=True)
class CheckState:
    """How a health check stands, for any process of this machine: they share the clock of `time.monotonic`."""

    name: str
    #: The reason of a failure, empty for a success; None before the first call has ended.
    last: Outcome[str] | None
    #: When the running call began; None if none runs.
    since: float | None

    def line(self, deadline: float) -> Check:
        """Return the last outcome; with its age if a call runs, and a failure if that is beyond `deadline`."""
        now, last = time.monotonic(), self.last
        if self.since is not None and deadline and now - self.since >= deadline:
            return Check(self.name, passed=False, detail=f"no answer for {now - self.since:.0f} s")
        if last is None:
            return Check(self.name, passed=True, detail="no answer yet")
        detail = last.value
        if self.since is not None:
            detail = f"{detail or 'passed'} {now - last.at:.1f} s ago".strip()
        return Check(self.name, passed=not last.value, detail=detail)


class PluginCheck:
    """A health check of a plugin, called on its own thread, so that one that hangs fails."""

    def __init__(self, name: str, check: Callable[[], None], entries: Entries | None = None) -> None:
        """Wrap `check`, which raises if the plugin is unhealthy; `name` is `PLUGIN/NAME`."""
        self.name = name
        self._check = check
        self._entries = entries or Entries(name.partition("/")[0])
        #: Its outcome is the reason of a failure; empty for a success.
        self._probe = Probe(f"{name} check", self._call)

    def start(self) -> Future[None]:
        """Begin a call unless one runs; return what ends with the call."""
        return self._probe.start()

    def last(self) -> Check:
        """Return the last outcome; with its age if a call runs, and a failure if that is beyond its deadline."""
        return self.state().line(self._entries.deadline("health"))

    def state(self) -> CheckState:
        """Return how the check stands now."""
        running = self._probe.running_for()
        since = None if running is None else time.monotonic() - running
        return CheckState(self.name, self._probe.outcome, since)

    def _call(self) -> str:
        # A check has one thread at most, so it cannot use up those that may hang.
        entry = self._entries.open("health", costs_thread=False)
        entry.begin(self.name)
        try:
            self._check()
        except BaseException as error:  # noqa: BLE001 - any exception is a failure of the check
            return line_of(error)
        else:
            return ""
        finally:
            entry.end()
            entry.close()
