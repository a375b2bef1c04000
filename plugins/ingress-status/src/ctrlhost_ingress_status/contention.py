"""Noticing that somebody else keeps changing a status back, and leaving it alone for a while."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost import Request

#: So many changes by others within the window are mended; one more, and the object is left alone.
EDITS = 5
WINDOW = 600.0
FIRST_PAUSE = 60.0
LONGEST_PAUSE = 1800.0
_SWEEP_AT = 1000


@dataclass(slots=True)
class _Fight:
    edits: list[float] = field(default_factory=list)
    #: How often the object was left alone without peace since.
    rounds: int = 0
    until: float = 0.0


class Contention:
    """Counts what others changed, per key. Safe to use from any thread; times are the clock's seconds."""

    def __init__(self) -> None:
        """Know of no fight."""
        self._fights: dict[Request, _Fight] = {}
        self._lock = threading.Lock()

    def edited(self, key: Request, now: float) -> bool:
        """Note that somebody replaced what stood in the status rightly; True when the object is left alone from now."""
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
            fight.until = now + min(FIRST_PAUSE * 2**fight.rounds, LONGEST_PAUSE)
            # More rounds would make the pause no longer.
            fight.rounds = min(fight.rounds + 1, 16)
            fight.edits.clear()
            return True

    def pause(self, key: Request, now: float) -> float:
        """Give for how many seconds the object is still left alone."""
        fight = self._fights.get(key)
        return max(0.0, fight.until - now) if fight else 0.0

    def forget(self, key: Request) -> None:
        """Drop what is known of an object that is gone."""
        with self._lock:
            self._fights.pop(key, None)

    def contested(self, now: float) -> list[Request]:
        """Give the objects that are left alone now."""
        with self._lock:
            return [key for key, fight in self._fights.items() if now < fight.until]

    def _sweep(self, now: float) -> None:
        if len(self._fights) < _SWEEP_AT:
            return
        for key, fight in list(self._fights.items()):
            if now - max(fight.until, *fight.edits, 0.0) > WINDOW:
                del self._fights[key]
