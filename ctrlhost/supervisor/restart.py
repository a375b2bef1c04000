"""The pauses before the restarts of a plugin, and how many of them there are."""

from __future__ import annotations

import random

from ctrlhost.clock import doubling

#: Seconds; the pause before a restart never grows beyond.
_MAX_DELAY = 300.0
#: The pause is longer by up to this part of it, so that plugins that fail together do not restart together.
_JITTER = 0.2
#: Seconds without a failure after which the count starts again.
RESET_AFTER = 600.0


class Restarts:
    """Counts the restarts of one plugin. Not thread-safe."""

    def __init__(self, limit: int, delay: float) -> None:
        """Allow `limit` restarts; `delay` is the first pause in seconds."""
        self.limit = limit
        #: Restarts since the plugin last ran well.
        self.count = 0
        #: When the pause ends that was counted last.
        self.at = 0.0
        self._delay = delay
        self._delays = doubling(delay, _MAX_DELAY)

    def next_pause(self, ran: float | None, now: float = 0.0) -> float | None:
        """Return the seconds from `now` to the next restart and count it; None if none is left.

        `ran` is how long the plugin has run without a failure, in seconds; None if it did not run.
        """
        if ran is not None and ran >= RESET_AFTER:
            self.count, self._delays = 0, doubling(self._delay, _MAX_DELAY)
        if self.count >= self.limit:
            return None
        self.count += 1
        pause = next(self._delays)
        pause *= random.uniform(1, 1 + _JITTER)  # noqa: S311 - spreads restarts only
        self.at = now + pause
        return pause
