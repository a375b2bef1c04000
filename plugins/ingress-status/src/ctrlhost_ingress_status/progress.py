"""The progress of a pass over many Ingresses: how many writes remain, and how long they take."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from logging import Logger

    from ctrlhost import Clock

_LOG_INTERVAL = 60.0


class Progress:
    """Estimates from the number of wrong statuses and the limit of writes. Methods may be called from any thread."""

    def __init__(self, remaining: Callable[[], int], qps: float, clock: Clock, log: Logger) -> None:
        """Count with `remaining`; `qps` 0 means no limit."""
        self.remaining = remaining
        self._qps, self._clock, self._log = qps, clock, log
        self._lock = threading.Lock()
        self._log_at = math.inf

    def seconds(self) -> float:
        """Return the least time that the remaining writes take; 0 without a limit."""
        return self.remaining() / self._qps if self._qps else 0.0

    def report(self) -> dict[str, object]:
        """Return the progress for the page."""
        return {
            "remaining writes": self.remaining(),
            "estimated time": f"{self.seconds():.0f} s" if self._qps else "no limit",
        }

    def began(self, count: int) -> None:
        """Log the start of a pass over so many Ingresses."""
        self._log_at = self._clock.now() + _LOG_INTERVAL
        self._log.info("enqueued %d statuses to write%s", count, self._estimate(count))

    def written(self) -> None:
        """Log what remains, once a minute; called after each write of a pass."""
        now = self._clock.now()
        with self._lock:
            if now < self._log_at:
                return
            self._log_at = now + _LOG_INTERVAL
        count = self.remaining()
        self._log.info("%d statuses left to write%s", count, self._estimate(count))

    def _estimate(self, count: int) -> str:
        return f", about {count / self._qps:.0f} s at status-qps {self._qps:g}" if count and self._qps else ""
