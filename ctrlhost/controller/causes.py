"""The causes for which keys of a controller fail: the unit of an incident. A cause has a number of keys, a first and a
last time, a rate, and an example with its traceback.

Errors of one class, at one place and with one text have one cause. Words that differ from key to key are masked in the
text, so that ten thousand texts are few causes.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zlib import crc32

from ctrlhost.controller.places import cause_of
from ctrlhost.request import Request

if TYPE_CHECKING:
    from ctrlhost.controller.traces import Trace

#: The causes of each controller that are kept; the one that failed longest ago makes room.
CAUSES = 200
#: Characters of a text.
TEXT = 200
#: Seconds over which failures are counted.
_WINDOW = 60.0
_WORD = re.compile(r"[\w.-]+")
_HEX = re.compile(r"[0-9a-fA-F]{8,}")
#: Shorter names of objects may be any word of a text.
_SHORTEST_NAME = 3


@dataclass(slots=True, eq=False)
class Cause:
    """One cause; `Causes` changes it. Times are seconds of the host's clock."""

    #: Eight hex digits, the same in each replica and after a restart.
    id: str
    controller: str
    #: The class of the error.
    kind: str
    #: `file:line` of the plugin's code; empty without a frame of it.
    place: str
    #: The message, with `#` for each word that differs from key to key.
    text: str
    first: float
    last: float
    #: The key that failed last, its error in one line, its run and the traceback.
    key: Any
    error: str
    reconcile_id: str
    trace: Trace | None
    #: The keys whose last run failed for this cause.
    keys: int = 0
    #: The failures since the start.
    failures: int = 0
    #: The failures since `_window` began, and those of the window before.
    _recent: int = 0
    _before: int = 0
    _window: float = 0.0

    @property
    def title(self) -> str:
        """Return what it is and where, such as `ValueError at shop/orders.py:12`."""
        return f"{self.kind} at {self.place}" if self.place else self.kind

    def per_second(self, now: float) -> float:
        """Return the failures per second over the last minute."""
        age = now - self._window
        if age >= 2 * _WINDOW:
            return 0.0
        if age >= _WINDOW:
            return self._recent * (2 * _WINDOW - age) / _WINDOW / _WINDOW
        before = self._before * (_WINDOW - age) / _WINDOW
        return (self._recent + before) / min(_WINDOW, max(1.0, now - self.first))

    def count(self, now: float) -> None:
        """Count a failure."""
        self.failures += 1
        self.last = now
        if now - self._window >= _WINDOW:
            self._before = self._recent if now - self._window < 2 * _WINDOW else 0
            self._recent, self._window = 0, now
        self._recent += 1


class Causes:
    """The causes of one controller. Callable from any thread."""

    def __init__(self, controller: str) -> None:
        """Start without causes."""
        self.controller = controller
        self._lock = threading.Lock()
        #: By class, place and text, in the order of their last failures.
        self._causes: OrderedDict[tuple[str, str, str], Cause] = OrderedDict()

    def failed(
        self, key: Any, kind: str, place: str, error: str, reconcile_id: str, trace: Trace | None, now: float
    ) -> Cause:
        """Count a failure of a key; return its cause. `error` is the line of the error, with its class."""
        what = kind, cause_of(place), masked(error.removeprefix(f"{kind}: "), key)
        with self._lock:
            cause = self._causes.get(what)
            if cause is None:
                number = format(crc32("\0".join((self.controller, *what)).encode(errors="replace")), "08x")
                cause = Cause(number, self.controller, *what, now, now, key, error, reconcile_id, trace, _window=now)
                self._causes[what] = cause
                if len(self._causes) > CAUSES:
                    self._causes.popitem(last=False)
            self._causes.move_to_end(what)
            cause.count(now)
            cause.key, cause.error, cause.reconcile_id = key, error, reconcile_id
            cause.trace = trace.sharing(cause.trace) if trace is not None else None
        return cause

    def move(self, before: Cause | None, after: Cause | None) -> None:
        """Count a key that failed for the cause `before` to another one, or to none."""
        if before is after:
            return
        with self._lock:
            if before is not None:
                before.keys -= 1
            if after is not None:
                after.keys += 1

    def worst(self, count: int | None = None) -> list[Cause]:
        """Return the causes, those with the most failing keys first, then those that failed last."""
        with self._lock:
            causes = list(self._causes.values())
        return sorted(causes, key=lambda cause: (-cause.keys, -cause.last))[:count]

    def find(self, number: str) -> Cause | None:
        """Return the cause with an id."""
        return next((cause for cause in self.worst() if cause.id == number), None)

    @property
    def failing(self) -> int:
        """The number of causes for which keys fail now."""
        with self._lock:
            return sum(cause.keys > 0 for cause in self._causes.values())


def masked(text: str, key: Any) -> str:
    """Return a text with `#` for each word that has a digit, is a long hex number, or is a part of the key."""
    names = {str(part) for part in (key if type(key) is Request else (key,)) if type(part) is str}
    names = {name for name in names if len(name) >= _SHORTEST_NAME}

    def mask(match: re.Match[str]) -> str:
        word = match[0]
        varies = any(map(str.isdigit, word)) or word.rstrip(".") in names or _HEX.fullmatch(word)
        return "#" if varies else word

    # Cut first: an error may have any text. What is cut after that has the same length in all of them.
    return _WORD.sub(mask, text[: 2 * TEXT])[:TEXT]
