"""Log lines about the progress and the rate of a long list."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost.clock import Clock

log = logging.getLogger("ctrlhost.informers.list_log")

_LOG_INTERVAL = 5.0
"""Seconds between two log lines."""


class ListProgress:
    """Logs the progress of one list. For use by one thread."""

    def __init__(self, clock: Clock) -> None:
        """Start the list now."""
        self._clock = clock
        self._started = self._logged_at = clock.now()

    def report(self, resource: str, count: int, remaining: int | None = None) -> None:
        """Log the progress, at most once per interval; `remaining` is the number of objects still to come, if known."""
        now = self._clock.now()
        if now - self._logged_at < _LOG_INTERVAL:
            return
        self._logged_at = now
        total = "" if remaining is None else f" of about {count + remaining}"
        log.info("listing %s: %d%s, %.0f/s", resource, count, total, count / (now - self._started))
