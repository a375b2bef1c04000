"""Entries: the calls of the host into one plugin's Python code, each with a deadline; and why a plugin is degraded.

A Python thread cannot be stopped. When an entry is overdue the host therefore names it, continues without its thread,
and may restart the plugin. Whoever calls a plugin opens an `Entry` for the thread or slot that it calls on; the thread
of `supervisor/deadlines` compares all running entries with their deadlines.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Self

from ctrlhost.request import Request

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping
    from types import FrameType

log = logging.getLogger("ctrlhost.host")

#: The innermost frames that a report of an overdue entry contains.
_FRAMES = 20
#: The setting below `deadlines` for entries that are not hooks.
_SETTINGS = {
    "callback": frozenset({"map", "predicate", "handler", "index", "transform", "requests", "limiter"}),
    "page": frozenset({"page", "listener"}),
    "probe": frozenset({"metrics", "health"}),
    "stopping": frozenset({"ctrlhost_stopping"}),
}
_SETTING = {entry: setting for setting, entries in _SETTINGS.items() for entry in entries}
#: Seconds, by the setting below `deadlines`; 0: no deadline.
DEADLINES: Mapping[str, float] = MappingProxyType(
    {"hook": 30.0, "stopping": 5.0, "callback": 5.0, "page": 10.0, "probe": 2.0}
)

Result = Literal["used", "dropped"]


class Entries:
    """The running entries of one plugin, and the reasons why it is degraded. Callable from any thread."""

    def __init__(
        self,
        plugin: str = "",
        deadlines: Mapping[str, float] = DEADLINES,
        overruns: Counter[str] | None = None,
        *,
        stuck_limit: int = 8,
        began: Callable[[], None] = lambda: None,
        fail: Callable[[str], None] = lambda _reason: None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """Start without entries, for the `plugin`, or for the users of a library without one.

        `overruns` are those of earlier attempts to run the plugin; `stuck_limit` threads may hang. `began` is called
        when an entry with a deadline begins, and must be cheap; `fail` stops the plugin for a reason; `changed` is
        called after a change of `degraded`.
        """
        self.plugin = plugin
        #: The number of overruns by entry; only grows.
        self.overruns: Counter[str] = Counter() if overruns is None else overruns
        self.fail = fail
        self._deadlines = deadlines
        self._stuck_limit = stuck_limit
        self._began = began
        self._changed = changed
        self._lock = threading.Lock()
        self._open: set[Entry] = set()
        self._degraded: dict[str, str] = {}
        self._checks: dict[Callable[[float], None], float] = {}

    def open(
        self,
        name: str,
        *,
        controller: str = "",
        late: Result = "used",
        deadline: float | None = None,
        on_overrun: Callable[[Entry], None] | None = None,
        fatal: int = 0,
        costs_thread: bool = True,
    ) -> Entry:
        """Return an entry `name`, such as `map` or `ctrlhost_setup`, for one thread or slot; close it at the end.

        `late` is what happens to a result that comes after the deadline. `deadline`, in seconds, replaces that of the
        settings; 0: none. `on_overrun` is called at the overrun, on a thread of the host. After `fatal` deadlines
        the plugin fails; 0: it does not. `costs_thread` is whether each overdue call counts as a thread that hangs; not
        so for calls that share one thread, such as pages.
        """
        seconds = self.deadline(name) if deadline is None else deadline
        entry = Entry(self, name, controller, late, seconds, on_overrun, fatal, costs_thread=costs_thread)
        with self._lock:
            self._open.add(entry)
        return entry

    def deadline(self, name: str) -> float:
        """Return the deadline of the settings for an entry `name`, in seconds; 0: none."""
        return self._deadlines[_SETTING.get(name, "hook")]

    def running(self) -> list[Entry]:
        """Return the entries that run now and have a deadline."""
        with self._lock:
            return [entry for entry in self._open if entry.started is not None and entry.deadline]

    def overdue(self) -> Counter[str]:
        """Return the number of entries that are overdue now, by name."""
        with self._lock:
            return Counter(entry.name for entry in self._open if entry.overdue)

    @property
    def degraded(self) -> Mapping[str, str]:
        """Why the plugin is degraded, by reason."""
        return dict(self._degraded)

    def degrade(self, reason: str, why: str) -> None:
        """Count the plugin as degraded for `reason` from now on; `why` is one line."""
        with self._lock:
            before = self._degraded.get(reason)
            self._degraded[reason] = why
        if before is None:
            log.warning("plugin %s degraded: %s: %s", self.plugin, reason, why, extra={"plugin": self.plugin})
        if before != why:
            self._changed()

    def recover(self, reason: str) -> None:
        """End what `degrade` began; nothing happens if it did not."""
        with self._lock:
            before = self._degraded.pop(reason, None)
        if before is not None:
            log.info("plugin %s no longer degraded: %s", self.plugin, reason, extra={"plugin": self.plugin})
            self._changed()

    def began(self) -> None:
        """Wake the thread that compares entries with their deadlines."""
        self._began()

    def overran(self, entry: Entry) -> None:
        """Count an overrun."""
        with self._lock:
            self.overruns[entry.name] += 1

    def returned(self) -> None:
        """Note that an overdue entry has returned."""
        if not self.overdue():
            self.recover("slow")

    def stuck(self) -> int:
        """Return the number of threads that hang in an overdue entry."""
        with self._lock:
            return sum(entry.overdue and entry.costs_thread and entry.task is None for entry in self._open)

    def bound_stuck(self) -> None:
        """Fail the plugin if too many of its threads hang."""
        if (count := self.stuck()) >= self._stuck_limit:
            self.fail(f"{count} of its threads hang (stuck_limit {self._stuck_limit})")

    @property
    def active(self) -> bool:
        """Whether an entry is open, or something is watched."""
        with self._lock:
            return bool(self._open or self._checks)

    def watch(self, check: Callable[[float], None], period: float = 1.0) -> Callable[[], None]:
        """Call `check` at least every `period` seconds from a thread of the host; return a function that ends this.

        `check` gets the seconds since the last call in which the process was stopped.
        """
        with self._lock:
            self._checks[check] = period

        def end() -> None:
            with self._lock:
                self._checks.pop(check, None)

        return end

    @property
    def period(self) -> float:
        """The seconds after which to call `check` again."""
        with self._lock:
            return min(self._checks.values(), default=1.0)

    def check(self, excused: float) -> bool:
        """Compare everything with its deadline, but for the `excused` seconds in which the process was stopped.

        Return whether an entry with a deadline runs.
        """
        with self._lock:
            checks = list(self._checks)
        running = self.running()
        for entry in running:
            if excused:
                entry.excuse(excused)
            entry.check(time.monotonic())
        for check in checks:
            check(excused)
        return bool(running)

    def closed(self, entry: Entry) -> None:
        """Forget an entry."""
        with self._lock:
            self._open.discard(entry)


class Entry:
    """One thread or slot on which the host calls a plugin, for one call at a time.

    As a context manager, around the call. The members may be read from any thread.
    """

    __slots__ = (
        "_entries",
        "_failed",
        "_fatal",
        "_lock",
        "_on_overrun",
        "_result",
        "_thread",
        "controller",
        "costs_thread",
        "deadline",
        "late",
        "name",
        "overdue",
        "started",
        "subject",
        "task",
    )

    def __init__(
        self,
        entries: Entries,
        name: str,
        controller: str,
        late: Result,
        deadline: float,
        on_overrun: Callable[[Entry], None] | None,
        fatal: int = 0,
        *,
        costs_thread: bool = True,
    ) -> None:
        """Prepare; see `Entries.open`."""
        self.name = name
        self.costs_thread = costs_thread
        self.controller = controller
        #: Seconds; 0: none.
        self.deadline = deadline
        #: The object that the call is about: a Request, a key, or a name; empty without one.
        self.subject: Any = ""
        #: When the call began, in seconds of `time.monotonic`; None between calls.
        self.started: float | None = None
        #: Whether the running call is beyond its deadline.
        self.overdue = False
        #: Whether the last call returned after its deadline.
        self.late = False
        #: The task of a call on an event loop, for its stack.
        self.task: asyncio.Future[Any] | None = None
        self._entries = entries
        self._result = late
        self._lock = threading.Lock()
        self._on_overrun = on_overrun
        self._fatal = fatal
        #: Whether the plugin failed because of the running call.
        self._failed = False
        self._thread = 0

    def begin(self, subject: Any = "", *, thread: int | None = None, seconds_ago: float = 0.0) -> None:
        """Note that a call begins on this thread, or has begun on another `thread` some seconds ago."""
        self.subject, self._thread = subject, thread or threading.get_ident()
        self.started = time.monotonic() - seconds_ago
        if self.deadline:
            self._entries.began()

    def end(self) -> bool:
        """Note that the call has returned; return whether that was in time. If not, this is logged."""
        with self._lock:
            started, overdue = self.started, self.overdue
            self.started, self.overdue, self.task, self.late = None, False, None, overdue
            self._failed = False
        if overdue and started is not None:
            seconds = time.monotonic() - started
            text = f"{self.describe()} returned after {seconds:.1f} s, result {self._result}"
            log.warning("%s", text, extra=self._fields(seconds))
            self._entries.returned()
        return not overdue

    def __enter__(self) -> Self:
        """Begin a call without a subject, unless one has begun."""
        if self.started is None:
            self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        """End the call; `late` says how."""
        self.end()

    def close(self) -> None:
        """Remove the entry from those of its plugin; nothing may run in it."""
        self._entries.closed(self)

    def excuse(self, seconds: float) -> None:
        """Count `seconds` in which the process did not run as if they had not passed."""
        with self._lock:
            if self.started is not None:
                self.started += seconds

    def check(self, now: float) -> bool:
        """Report the call if its deadline has passed and it was not reported; return whether it is overdue."""
        with self._lock:
            started = self.started
            if started is None or not self.deadline or now - started < self.deadline:
                return self.overdue
            fatal = bool(self._fatal) and not self._failed and now - started >= self._fatal * self.deadline
            self._failed = self._failed or fatal
            reported, self.overdue = self.overdue, True
            fields, text = self._fields(now - started), self.describe()
            if not reported:
                # Before the call can return and log that, so that the number of overruns equals that of these lines.
                self._entries.overran(self)
        if not reported:
            line = f"{text} runs for {now - started:.1f} s (deadline {self.deadline:g} s)"
            log.warning("%s", line, extra={**fields, "stack": self.stack()})
            self._entries.degrade("slow", f"{self._what()} is beyond its deadline of {self.deadline:g} s")
            self._entries.bound_stuck()
            # It may have returned meanwhile.
            self._entries.returned()
            if self._on_overrun is not None:
                self._on_overrun(self)
        if fatal:
            self._entries.fail(f"{self._what()} has not returned after {now - started:.1f} s")
        return True

    def describe(self) -> str:
        """Return the plugin, the entry and its object as the beginning of a log line."""
        return f"plugin {self._entries.plugin}: {self._what()}"

    def _what(self) -> str:
        return f"{self.name} of {_text(self.subject)}" if self.subject else self.name

    def stack(self) -> list[str]:
        """Return the innermost frames of the call, the innermost last, as `file:line function`; empty if it is over."""
        waiting = _awaited(self.task)
        return waiting[-_FRAMES:] if waiting else stack_of(self._thread)

    def _fields(self, seconds: float) -> dict[str, Any]:
        fields = {"plugin": self._entries.plugin, "entry": self.name, "seconds": round(seconds, 3)}
        if self.controller:
            fields["controller"] = self.controller
        return {**fields, "object": _text(self.subject)} if self.subject else fields


def stack_of(thread: int) -> list[str]:
    """Return the innermost frames of a thread, the innermost last, as `file:line function`; empty if it has ended."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - the only way to see another thread's stack
    return [_place(*one) for one in list(traceback.walk_stack(frame))[:_FRAMES][::-1]] if frame is not None else []


def _awaited(task: asyncio.Future[Any] | None) -> list[str]:
    """Return the frames of a task that waits, the innermost last; empty if it runs now, so that its thread has them."""
    coroutine: Any = getattr(task, "get_coro", lambda: None)()
    places: list[str] = []
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        if coroutine.cr_running:
            return []
        places.append(_place(frame, frame.f_lineno))
        coroutine = coroutine.cr_await
    return places


def _place(frame: FrameType, line: int) -> str:
    return f"{frame.f_code.co_filename}:{line} {frame.f_code.co_name}"


def _text(subject: Any) -> str:
    """Return a key as text. A plugin's own type of key is not asked: its `__str__` might hang."""
    return str(subject) if type(subject) in (str, Request) else f"a {type(subject).__name__}"
