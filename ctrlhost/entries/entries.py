"""The running entries of one plugin, and the reasons why it is degraded."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

from ctrlhost.entries.defaults import DEADLINES, setting
from ctrlhost.entries.degradation import Degradation
from ctrlhost.entries.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ctrlhost.entries.degradation import Reason
    from ctrlhost.entries.entry import Result

log = logging.getLogger("ctrlhost.host")


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
        #: Wakes the thread that compares entries with their deadlines.
        self.began = began
        self._changed = changed
        self._lock = threading.Lock()
        self._open: set[Entry] = set()
        self._degraded: dict[Reason, Degradation] = {}
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
        entry.configured = deadline is None
        with self._lock:
            self._open.add(entry)
        return entry

    def deadline(self, name: str) -> float:
        """Return the deadline of the settings for an entry `name`, in seconds; 0: none."""
        return self._deadlines[setting(name)]

    def set_deadlines(self, deadlines: Mapping[str, float]) -> None:
        """Change the deadlines of the settings, also of the calls that run."""
        self._deadlines = deadlines
        with self._lock:
            for entry in self._open:
                if entry.configured:
                    entry.deadline = self.deadline(entry.name)

    def running(self) -> list[Entry]:
        """Return the entries that run now and have a deadline."""
        with self._lock:
            return [entry for entry in self._open if entry.started is not None and entry.deadline]

    def overdue(self) -> Counter[str]:
        """Return the number of entries that are overdue now, by name."""
        with self._lock:
            return Counter(entry.name for entry in self._open if entry.overdue)

    @property
    def degraded(self) -> Mapping[Reason, str]:
        """Why the plugin is degraded, by reason."""
        return {reason: degradation.message for reason, degradation in self.degradations().items()}

    def degradations(self) -> dict[Reason, Degradation]:
        """Return why the plugin is degraded, and since when, by reason."""
        with self._lock:
            return dict(self._degraded)

    def degrade(self, reason: Reason, why: str) -> None:
        """Count the plugin as degraded for `reason` from now on; `why` is one line."""
        why = " ".join(why.split())
        with self._lock:
            before = self._degraded.get(reason)
            self._degraded[reason] = Degradation(why, time.time() if before is None else before.since)
        if before is None:
            log.warning("plugin %s degraded: %s: %s", self.plugin, reason, why, extra={"plugin": self.plugin})
        if before is None or before.message != why:
            self._changed()

    def follow(self, degraded: Mapping[Reason, Degradation]) -> None:
        """Count the plugin as degraded as its own process does, which logs that; `over-budget` stays as it is here."""
        with self._lock:
            before, self._degraded = self._degraded, dict(degraded)
            if (own := before.get("over-budget")) is not None:
                self._degraded["over-budget"] = own
            changed = before != self._degraded
        if changed:
            self._changed()

    def recover(self, reason: Reason) -> None:
        """End what `degrade` began; nothing happens if it did not."""
        with self._lock:
            before = self._degraded.pop(reason, None)
        if before is not None:
            log.info("plugin %s no longer degraded: %s", self.plugin, reason, extra={"plugin": self.plugin})
            self._changed()

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
