"""The last errors of the controllers of a host."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

#: The errors that are kept.
ERRORS = 50


class ErrorEntry(NamedTuple):
    """One error of a reconcile."""

    #: In seconds since the epoch.
    time: float
    controller: str
    key: str
    reconcile_id: str
    kind: str
    error: str
    place: str


class ErrorLog:
    """The last errors of all controllers of a host. Callable from any thread."""

    def __init__(self) -> None:
        """Start empty."""
        self._entries: deque[ErrorEntry] = deque(maxlen=ERRORS)

    def add(self, entry: ErrorEntry) -> None:
        """Add an error."""
        self._entries.append(entry)

    def entries(self) -> list[ErrorEntry]:
        """Return the errors, the newest first."""
        return list(self._entries.copy())[::-1]
