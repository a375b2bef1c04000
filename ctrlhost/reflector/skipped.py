"""Log lines about skipped objects, such as those without a name, and outdated bookmarks: at most one a minute."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost.cache import SharedInformer
    from ctrlhost.clock import Clock

log = logging.getLogger("ctrlhost.informers.skips")

_LOG_INTERVAL = 60.0


class SkippedObjects:
    """Logs the objects that one engine skipped. For use by the reflector's thread."""

    def __init__(self, engine: SharedInformer, kind: str, clock: Clock) -> None:
        """Watch an engine that has skipped nothing yet."""
        self._engine = engine
        self._kind = kind
        self._clock = clock
        self._objects = self._bookmarks = 0
        self._logged_at: float | None = None

    def report(self) -> None:
        """Log the objects skipped since the last log line, unless that is less than a minute old."""
        now = self._clock.now()
        if self._logged_at is not None and now - self._logged_at < _LOG_INTERVAL:
            return
        stats = self._engine.stats()
        objects, bookmarks = stats["skipped"] - self._objects, stats["backward_bookmarks"] - self._bookmarks
        if objects or bookmarks:
            self._objects, self._bookmarks, self._logged_at = stats["skipped"], stats["backward_bookmarks"], now
        if objects:
            log.warning("skipped %d objects of %s; the last one: %s", objects, self._kind, stats["last_skip"])
        if bookmarks:
            log.warning("ignored %d bookmarks of %s: older version than the last one", bookmarks, self._kind)
