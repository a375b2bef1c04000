"""Log lines about a list that takes its time: how much of it is there, and how fast it comes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost.clock import Clock

log = logging.getLogger("ctrlhost.informers.list_log")

_SAY_EVERY = 5.0
"""Seconds between two lines."""


class ListLog:
    """For use by one thread."""

    def __init__(self, clock: Clock) -> None:
        """Take the time from `clock`."""
        self._clock = clock
        self._started = self._said = clock.now()

    def begin(self) -> None:
        """Note that a list begins."""
        self._started = self._said = self._clock.now()

    def more(self, resource: str, count: int, remaining: int | None = None) -> None:
        """Say how far it is, unless that was said just now; `remaining` are those still to come, if that is known."""
        now = self._clock.now()
        if now - self._said < _SAY_EVERY:
            return
        self._said = now
        total = "" if remaining is None else f" of about {count + remaining}"
        log.info("listing %s: %d%s, %.0f/s", resource, count, total, count / (now - self._started))
