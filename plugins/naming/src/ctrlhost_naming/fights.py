"""Detect another writer of the same conditions with different rules, and give up."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost_naming.crd import Condition, Crd

ROUNDS = 3
"""The number of foreign changes of one CRD within the window that are tolerated; one more is a fight."""
WINDOW = 60.0
"""Seconds."""


class FightGuard:
    """Counts foreign changes of this plugin's writes. Methods may be called from any thread."""

    def __init__(self) -> None:
        """Start without fights."""
        self._lock = threading.Lock()
        self._decided: dict[str, Condition] = {}
        self._changes: dict[str, deque[float]] = {}
        self._given_up: set[str] = set()

    def is_fight(self, crd: Crd, wanted: Condition, now: float, *, retry: bool = False) -> bool:
        """Return whether a write would repeat what another writer undid too often; if so, give up the group.

        A change counts if the condition of the last write is about to be written again. It does not count if the other
        writer was first, if the condition follows from other names, or if that write has failed (`retry`).
        """
        with self._lock:
            repeated = self._decided.get(crd.name) == wanted != crd.names_accepted
            self._decided[crd.name] = wanted
            if retry or not repeated:
                return False
            changes = self._changes.setdefault(crd.name, deque())
            changes.append(now)
            while changes[0] <= now - WINDOW:
                changes.popleft()
            if len(changes) <= ROUNDS:
                return False
            self._given_up.add(crd.group)
            return True

    def has_given_up(self, group: str) -> bool:
        """Return whether the CRDs of a group are no longer written."""
        with self._lock:
            return group in self._given_up

    def forget(self, key: str) -> None:
        """Drop the records of a deleted CRD."""
        with self._lock:
            self._decided.pop(key, None)
            self._changes.pop(key, None)
