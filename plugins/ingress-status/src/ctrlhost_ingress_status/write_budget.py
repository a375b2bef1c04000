"""The budget of writes: one bucket of tokens, of which the last quarter is kept for single changes."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

_RESERVED = 0.25
#: A token that is short by no more than rounding is a token.
_ROUNDING = 1e-6
#: A wait that the clock does not notice would make a worker go round and round, in seconds.
_SHORTEST = 0.001


class Lanes:
    """Hands out tokens to two lanes. Who gets none is told when to come back, so that nobody waits in a worker.

    A place in the line of a lane is kept until its key was served or left. Safe to use from any thread; times are the
    clock's seconds.
    """

    def __init__(self, qps: float, burst: int) -> None:
        """Fill the bucket; `qps` 0 means no limit."""
        self._qps, self._burst = qps, float(burst)
        self._level = self._burst
        self._at: float | None = None
        # The slow lane can take a token only from a bucket that holds one more than the reserve.
        self._floors = {False: 0.0, True: min(burst * _RESERVED, burst - 1.0)}
        self._lines: dict[bool, dict[Hashable, float]] = {False: {}, True: {}}
        self._lock = threading.Lock()

    def take(self, key: Hashable, now: float, *, slow: bool) -> float:
        """Take a token for `key`; 0.0 when it got one, else the seconds after which to ask again."""
        if self._qps <= 0:
            return 0.0
        with self._lock:
            self._fill(now)
            line, floor = self._lines[slow], self._floors[slow]
            if self._level - 1.0 >= floor - _ROUNDING:
                self._level -= 1.0
                self._leave(key)
                return 0.0
            place = line.get(key, now)
            if place <= now + _ROUNDING:
                line.pop(key, None)
                first = now + (floor + 1.0 - self._level) / self._qps
                # The newest place is the last one, since each is later than the one before.
                last = next(reversed(line.values()), -math.inf)
                place = line[key] = max(first, last + 1.0 / self._qps)
            return max(place - now, _SHORTEST)

    def leave(self, key: Hashable) -> None:
        """Give up the key's place, if it has one."""
        with self._lock:
            self._leave(key)

    def clear_slow(self) -> None:
        """Send everybody home from the slow lane, since a new pass makes a new line."""
        with self._lock:
            self._lines[True].clear()

    def waiting(self) -> int:
        """Give how many keys wait for a token."""
        with self._lock:
            return sum(len(line) for line in self._lines.values())

    def _fill(self, now: float) -> None:
        if self._at is not None:
            self._level = min(self._burst, self._level + (now - self._at) * self._qps)
        self._at = now

    def _leave(self, key: Hashable) -> None:
        for line in self._lines.values():
            line.pop(key, None)
