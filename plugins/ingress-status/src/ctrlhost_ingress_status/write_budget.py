"""The budget of writes: one token bucket, whose last quarter is reserved for single changes."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable

_RESERVED = 0.25
#: The part of a token that may be missing through rounding.
_ROUNDING = 1e-6
#: In seconds. A wait below the clock's resolution would keep a worker busy.
_MIN_WAIT = 0.001


class WriteBudget:
    """Hands out tokens for bulk and for single writes. Without a token, a key gets a time at which to come back.

    No worker waits here. A key keeps its place in the queue of its kind until it gets a token or leaves. Thread-safe;
    times are the clock's seconds.
    """

    def __init__(self, qps: float, burst: int) -> None:
        """Start with a full bucket; `qps` 0 means no limit."""
        self._qps, self._burst = qps, float(burst)
        self._level = self._burst
        self._at: float | None = None
        # By whether a write is bulk: the level below which it gets no token.
        self._floors = {False: 0.0, True: min(burst * _RESERVED, burst - 1.0)}
        self._queues: dict[bool, dict[Hashable, float]] = {False: {}, True: {}}
        self._lock = threading.Lock()

    def take(self, key: Hashable, now: float, *, bulk: bool) -> float:
        """Take a token for `key`; return 0.0 on success, else the seconds after which to ask again."""
        if self._qps <= 0:
            return 0.0
        with self._lock:
            if self._at is not None:
                self._level = min(self._burst, self._level + (now - self._at) * self._qps)
            self._at = now
            queue, floor = self._queues[bulk], self._floors[bulk]
            if self._level - 1.0 >= floor - _ROUNDING:
                self._level -= 1.0
                self._leave(key)
                return 0.0
            place = queue.get(key, now)
            if place <= now + _ROUNDING:
                queue.pop(key, None)
                first = now + (floor + 1.0 - self._level) / self._qps
                # Places only grow, so the newest is the last.
                last = next(reversed(queue.values()), -math.inf)
                place = queue[key] = max(first, last + 1.0 / self._qps)
            return max(place - now, _MIN_WAIT)

    def keys(self) -> list[Any]:
        """Return the keys that wait for a token."""
        with self._lock:
            return [key for queue in self._queues.values() for key in queue]

    def leave(self, key: Hashable) -> None:
        """Release the key's place, if it has one."""
        with self._lock:
            self._leave(key)

    def clear_bulk(self) -> None:
        """Drop the queue of bulk writes, since a new pass makes a new one."""
        with self._lock:
            self._queues[True].clear()

    def waiting(self) -> int:
        """Return how many keys wait for a token."""
        return len(self.keys())

    def _leave(self, key: Hashable) -> None:
        for queue in self._queues.values():
            queue.pop(key, None)
