"""Objects that no cache can hold, such as those without a name: said in the log once, then once a minute at most."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost.clock import Clock
    from ctrlhost.informers.engine import Engine

log = logging.getLogger(__name__)

_SAY_AGAIN = 60.0


class Skips:
    """Says what one engine left out. For use by the reflector's thread."""

    def __init__(self, engine: Engine, kind: str, clock: Clock) -> None:
        """Look at an engine that has left out nothing yet."""
        self._engine = engine
        self._kind = kind
        self._clock = clock
        self._said = 0
        self._said_at: float | None = None

    def look(self) -> None:
        """Say what was left out since this was said last, unless that was a moment ago."""
        now = self._clock.now()
        if self._said_at is not None and now - self._said_at < _SAY_AGAIN:
            return
        stats = self._engine.stats()
        count = stats["skipped"] - self._said
        if count:
            self._said, self._said_at = stats["skipped"], now
            log.warning("left out %d of what came for %s; the last one is %s", count, self._kind, stats["last_skip"])
