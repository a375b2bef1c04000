"""Noticing that somebody else writes the same conditions with other rules, and giving in."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost_naming.conditions import Condition
    from ctrlhost_naming.crd import Crd

ROUNDS = 3
"""So many foreign changes of one CRD within the window are borne; one more is a fight."""
WINDOW = 60.0
"""Seconds."""


class FightGuard:
    """Counts foreign changes of what this plugin wrote. Methods may be called from any thread."""

    def __init__(self) -> None:
        """Start at peace."""
        self._lock = threading.Lock()
        self._written: dict[str, Condition] = {}
        self._changes: dict[str, deque[float]] = {}
        self._lost: set[str] = set()

    def wrote(self, key: str, condition: Condition) -> None:
        """Remember what NamesAccepted says after an own write."""
        with self._lock:
            self._written[key] = condition

    def contradicted(self, crd: Crd, wanted: Condition, now: float) -> bool:
        """Before a write, say whether it would repeat what somebody else has undone once too often; then give up.

        What counts is that the very condition that was written before is about to be written again. A status that
        somebody else wrote first, or that follows from other names, is no fight.
        """
        with self._lock:
            if self._written.get(crd.name) != wanted or crd.names_accepted == wanted:
                return False
            changes = self._changes.setdefault(crd.name, deque())
            changes.append(now)
            while changes[0] <= now - WINDOW:
                changes.popleft()
            if len(changes) <= ROUNDS:
                return False
            self._lost.add(crd.group)
            return True

    def lost(self, group: str) -> bool:
        """Say whether nothing is written any more for the CRDs of a group."""
        with self._lock:
            return group in self._lost

    def forget(self, key: str) -> None:
        """Drop what is known of a CRD that is gone."""
        with self._lock:
            self._written.pop(key, None)
            self._changes.pop(key, None)
