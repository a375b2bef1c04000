"""Sampling of log lines: repeated errors of a plugin become a summary, and all lines of a plugin share a rate."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ctrlhost.controller.causes import Cause

#: The lines of one kind of error that are logged.
FULL = 10
#: Seconds between two summaries of one kind of error.
SUMMARY_AFTER = 10.0
#: Seconds between two tracebacks of one kind of error.
TRACE_AFTER = 60.0
#: After this many seconds without a line, a kind of error is new again.
_FORGET_AFTER = 600.0
#: The kinds of errors that are remembered per plugin.
_MAX_KINDS = 1000
#: The burst of all lines of a plugin, in seconds of its rate.
_BURST = 10.0

#: The reasons for which a line is dropped.
REASONS = ("sampled", "rate", "full")


class Kind(NamedTuple):
    """A kind of error: the class of the exception, empty for a plain line, and the place, `file:line`."""

    error: str
    place: str


class Summary(NamedTuple):
    """Lines of one kind that were not logged."""

    plugin: str
    kind: Kind
    level: int
    lines: int
    #: What the last of them was about: a key of any type, or None.
    subject: Any
    #: The seconds in which they came.
    seconds: float
    #: The cause of the last of them; None if it was no failed reconcile.
    cause: Cause | None


@dataclass(slots=True)
class _Seen:
    """The lines of one kind."""

    last: float
    full: int = 0
    more: int = 0
    due: float = 0.0
    level: int = 0
    subject: Any = None
    cause: Cause | None = None
    #: When the last line with a traceback was logged.
    traced: float = -TRACE_AFTER


class _Plugin:
    """The state of one plugin: its kinds of errors, and the lines that it may write now."""

    def __init__(self, rate: float, now: float) -> None:
        self.kinds: OrderedDict[Kind, _Seen] = OrderedDict()
        self._rate = rate
        self._lines = rate * _BURST
        self._at = now

    def take(self, now: float) -> bool:
        """Count a line if the rate allows it; return whether it does."""
        if not self._rate:
            return True
        self._lines = min(self._rate * _BURST, self._lines + (now - self._at) * self._rate)
        self._at = now
        if self._lines < 1:
            return False
        self._lines -= 1
        return True


class LogSampler:
    """Decides which lines of plugins are logged. Methods may be called from any thread, and call no plugin's code.

    The first lines of each kind of error are logged, one a minute with its traceback; later ones become one summary
    each 10 seconds.
    """

    def __init__(self, log_lines: Callable[[str], float], clock: Callable[[], float] = time.monotonic) -> None:
        """Start empty; `log_lines` returns the lines that a plugin may write per second, with 0 for any number."""
        self._log_lines = log_lines
        self._clock = clock
        self._plugins: dict[str, _Plugin] = {}
        self._left: list[Summary] = []
        self._dropped: Counter[tuple[str, str]] = Counter()
        # A destructor that logs may run in any of the methods.
        self._lock = threading.RLock()

    def admits(
        self, plugin: str, level: int, kind: Kind | None, subject: Any = None, cause: Cause | None = None
    ) -> bool:
        """Return whether a line of the plugin is logged, and count it if not; `kind` is None for what is no error.

        `cause` is that of a failed reconcile.
        """
        with self._lock:
            now = self._clock()
            state = self._plugins.get(plugin)
            if state is None:
                state = self._plugins[plugin] = _Plugin(self._log_lines(plugin), now)
            if kind is not None and not self._is_new(plugin, state, kind, now):
                seen = state.kinds[kind]
                seen.level, seen.subject, seen.cause = level, subject, cause
                self._dropped[plugin, "sampled"] += 1
                return False
            if not state.take(now):
                self._dropped[plugin, "rate"] += 1
                return False
            return True

    def traces(self, plugin: str, kind: Kind) -> bool:
        """Return whether a line that was admitted has its traceback: the first one of its kind in a minute has."""
        with self._lock:
            now = self._clock()
            state = self._plugins.get(plugin)
            seen = None if state is None else state.kinds.get(kind)
            if seen is None:
                return True
            if now - seen.traced < TRACE_AFTER:
                return False
            seen.traced = now
            return True

    def _is_new(self, plugin: str, state: _Plugin, kind: Kind, now: float) -> bool:
        """Return whether the line is among the first of its kind; otherwise add it to the summary."""
        seen = state.kinds.get(kind)
        if seen is None:
            seen = state.kinds[kind] = _Seen(now)
            if len(state.kinds) > _MAX_KINDS:
                oldest, its = state.kinds.popitem(last=False)
                self._leave(plugin, oldest, its, now)
        seen.last = now
        state.kinds.move_to_end(kind)
        if seen.full < FULL:
            seen.full += 1
            return True
        if not seen.more:
            seen.due = now + SUMMARY_AFTER
        seen.more += 1
        return False

    def _leave(self, plugin: str, kind: Kind, seen: _Seen, now: float) -> None:
        if seen.more:
            seconds = now - seen.due + SUMMARY_AFTER
            self._left.append(Summary(plugin, kind, seen.level, seen.more, seen.subject, seconds, seen.cause))
            seen.more, seen.subject, seen.cause = 0, None, None

    def summaries(self, *, all_of_them: bool = False) -> list[Summary]:
        """Return the summaries that are due, or all of them, and forget kinds that no longer occur."""
        with self._lock:
            now = self._clock()
            for plugin, state in list(self._plugins.items()):
                for kind, seen in list(state.kinds.items()):
                    if all_of_them or now >= seen.due:
                        self._leave(plugin, kind, seen, now)
                    if now - seen.last >= _FORGET_AFTER:
                        del state.kinds[kind]
            left, self._left = self._left, []
            return left

    def forked(self) -> None:
        """Start over in a forked child: the thread that had the lock may not exist here, and the parent reports."""
        self._lock = threading.RLock()
        self._plugins, self._left, self._dropped = {}, [], Counter()

    def drop(self, plugin: str, reason: str, count: int = 1) -> None:
        """Count lines that were dropped elsewhere."""
        with self._lock:
            self._dropped[plugin, reason] += count

    @property
    def dropped(self) -> Mapping[tuple[str, str], int]:
        """The numbers of dropped lines by plugin and reason."""
        with self._lock:
            return dict(self._dropped)
