"""The work queue that a Python author would write without ctrlhost: the peer of the queue benches."""

from __future__ import annotations

import threading
from collections import deque


class PlainQueue:
    """Dedup with two sets and a deque under one condition; no delays, no metrics, no priorities."""

    def __init__(self) -> None:
        """Start empty."""
        self._condition = threading.Condition()
        self._queued: deque[str] = deque()
        self._dirty: set[str] = set()
        self._processing: set[str] = set()
        self._failures: dict[str, int] = {}

    def add(self, key: str) -> None:
        """Queue a key, once."""
        with self._condition:
            if key in self._dirty:
                return
            self._dirty.add(key)
            if key not in self._processing:
                self._queued.append(key)
                self._condition.notify()

    def get(self) -> str:
        """Wait for a key."""
        with self._condition:
            while not self._queued:
                self._condition.wait()
            key = self._queued.popleft()
            self._dirty.discard(key)
            self._processing.add(key)
            return key

    def forget(self, key: str) -> None:
        """Drop the key's failures."""
        with self._condition:
            self._failures.pop(key, None)

    def done(self, key: str) -> None:
        """Mark the key as processed; queue it again if it was added meanwhile."""
        with self._condition:
            self._processing.discard(key)
            if key in self._dirty:
                self._queued.append(key)
                self._condition.notify()

    def __len__(self) -> int:
        """Count the queued keys."""
        return len(self._queued)
