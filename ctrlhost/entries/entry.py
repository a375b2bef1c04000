"""One thread or slot on which the host calls a plugin, and the report of a call that is overdue."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from ctrlhost.entries.recursion import restore_recursion_limit
from ctrlhost.entries.stacks import FRAMES, awaited, stack_of
from ctrlhost.request import Request

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from ctrlhost.entries.degradation import Reason

log = logging.getLogger("ctrlhost.host")

Result = Literal["used", "dropped"]


class Owner(Protocol):
    """What an entry needs of its plugin's `Entries`."""

    plugin: str
    #: Stops the plugin for a reason.
    fail: Callable[[str], None]
    #: Notes that a call with a deadline begins.
    began: Callable[[], None]

    def overran(self, entry: Entry) -> None:
        """Count an overrun."""

    def degrade(self, reason: Reason, why: str) -> None:
        """Count the plugin as degraded for `reason` from now on."""

    def bound_stuck(self) -> None:
        """Fail the plugin if too many of its threads hang."""

    def returned(self) -> None:
        """Note that an overdue entry has returned."""

    def closed(self, entry: Entry) -> None:
        """Forget an entry."""


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
        "configured",
        "controller",
        "costs_thread",
        "deadline",
        "late",
        "name",
        "overdue",
        "started",
        "subject",
        "task",
        "thread",
    )

    def __init__(
        self,
        entries: Owner,
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
        #: Whether the deadline is that of the settings.
        self.configured = False
        self._entries = entries
        self._result = late
        self._lock = threading.Lock()
        self._on_overrun = on_overrun
        self._fatal = fatal
        #: Whether the plugin failed because of the running call.
        self._failed = False
        #: The thread of the running call, or of the last one.
        self.thread = 0

    def begin(self, subject: Any = "", *, thread: int | None = None, seconds_ago: float = 0.0) -> None:
        """Note that a call begins on this thread, or has begun on another `thread` some seconds ago."""
        self.subject, self.thread = subject, thread or threading.get_ident()
        self.started = time.monotonic() - seconds_ago
        if self.deadline:
            self._entries.began()

    def end(self) -> bool:
        """Note that the call has returned; return whether that was in time. If not, this is logged."""
        restore_recursion_limit()
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
        waiting = awaited(self.task)
        return waiting[-FRAMES:] if waiting else stack_of(self.thread)

    def _fields(self, seconds: float) -> dict[str, Any]:
        fields = {"plugin": self._entries.plugin, "entry": self.name, "seconds": round(seconds, 3)}
        if self.controller:
            fields["controller"] = self.controller
        return {**fields, "key": _text(self.subject)} if self.subject else fields


def _text(subject: Any) -> str:
    """Return a key as text. A plugin's own type of key is not asked: its `__str__` might hang."""
    return str(subject) if type(subject) in (str, Request) else f"a {type(subject).__name__}"
