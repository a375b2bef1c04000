"""What was not taken over: objects without a name and the like, bookmarks that go back. Said once a minute at most."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost.clock import Clock
    from ctrlhost.reflector.engine import Engine

log = logging.getLogger("ctrlhost.informers.skips")

_SAY_AGAIN = 60.0


class Skips:
    """Says what one engine left out. For use by the reflector's thread."""

    def __init__(self, engine: Engine, kind: str, clock: Clock) -> None:
        """Look at an engine that has left out nothing yet."""
        self._engine = engine
        self._kind = kind
        self._clock = clock
        self._objects = self._bookmarks = 0
        self._said_at: float | None = None

    def look(self) -> None:
        """Say what was not taken over since this was said last, unless that was a moment ago."""
        now = self._clock.now()
        if self._said_at is not None and now - self._said_at < _SAY_AGAIN:
            return
        stats = self._engine.stats()
        objects, bookmarks = stats["skipped"] - self._objects, stats["backward_bookmarks"] - self._bookmarks
        if objects or bookmarks:
            self._objects, self._bookmarks, self._said_at = stats["skipped"], stats["backward_bookmarks"], now
        if objects:
            log.warning("left out %d of what came for %s; the last one is %s", objects, self._kind, stats["last_skip"])
        if bookmarks:
            log.warning("%d bookmarks of %s went back to an older version; the newer one stands", bookmarks, self._kind)
