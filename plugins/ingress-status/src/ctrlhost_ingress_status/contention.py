"""Detects that another writer keeps changing a status back, and pauses writes to it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost import Request

#: Changes by others that are corrected within the window; after one more, writes pause.
EDITS = 5
WINDOW = 600.0
FIRST_PAUSE, MAX_PAUSE = 60.0, 1800.0
_SWEEP_AT = 1000


@dataclass(slots=True)
class _Fight:
    edits: list[float] = field(default_factory=list)
    #: The number of pauses in a row.
    rounds: int = 0
    until: float = 0.0


class Contention:
    """Counts the changes of others per key. Thread-safe; times are the clock's seconds."""

    def __init__(self) -> None:
        """Start without contested objects."""
        self._fights: dict[Request, _Fight] = {}
        self._lock = threading.Lock()

    def edited(self, key: Request, now: float) -> bool:
        """Record that another writer replaced a right status, and return whether writes pause from now on."""
        with self._lock:
            self._sweep(now)
            fight = self._fights.setdefault(key, _Fight())
            if now < fight.until:
                return False
            if fight.rounds and now - fight.until > WINDOW:
                fight.rounds = 0
            fight.edits = [at for at in fight.edits if now - at < WINDOW]
            fight.edits.append(now)
            if not fight.rounds and len(fight.edits) <= EDITS:
                return False
            fight.until = now + min(FIRST_PAUSE * 2**fight.rounds, MAX_PAUSE)
            # Further rounds would not lengthen the pause.
            fight.rounds = min(fight.rounds + 1, 16)
            fight.edits.clear()
            return True

    def pause(self, key: Request, now: float) -> float:
        """Return for how many seconds writes to the object still pause."""
        fight = self._fights.get(key)
        return max(0.0, fight.until - now) if fight else 0.0

    def forget(self, key: Request) -> None:
        """Drop the state of a deleted object."""
        with self._lock:
            self._fights.pop(key, None)

    def keys(self) -> list[Request]:
        """Return the objects that others have changed lately."""
        with self._lock:
            return list(self._fights)

    def contested(self, now: float) -> list[Request]:
        """Return the objects whose writes pause now."""
        with self._lock:
            return [key for key, fight in self._fights.items() if now < fight.until]

    def _sweep(self, now: float) -> None:
        if len(self._fights) < _SWEEP_AT:
            return
        for key, fight in list(self._fights.items()):
            if now - max(fight.until, *fight.edits, 0.0) > WINDOW:
                del self._fights[key]
