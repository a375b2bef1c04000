"""Errors that come back with each attempt are logged once, and again after a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds until the same error is logged again.
AGAIN = 300.0


class Repeats:
    """The error that was logged last. One thread uses it."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Start without one. `now` returns the time in seconds."""
        self._now = now
        self._last = "", 0.0

    def is_new(self, text: str) -> bool:
        """Return whether an error is to be logged: not if it is the last one, and no more than `AGAIN` seconds old."""
        now = self._now()
        if self._last[0] == text and now < self._last[1] + AGAIN:
            return False
        self._last = text, now
        return True

    def end(self) -> None:
        """Take note that an attempt has succeeded: the next error is a new one."""
        self._last = "", 0.0
