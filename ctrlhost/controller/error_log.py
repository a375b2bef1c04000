"""The last errors of the controllers of a host, by plugin."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

#: The errors that are kept of each plugin.
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
    """The last errors of the controllers of each plugin. Callable from any thread."""

    def __init__(self) -> None:
        """Start empty."""
        self._entries: dict[str, deque[ErrorEntry]] = {}

    def add(self, entry: ErrorEntry) -> None:
        """Add an error."""
        plugin = entry.controller.partition("/")[0]
        kept = self._entries.get(plugin)
        if kept is None:
            kept = self._entries.setdefault(plugin, deque(maxlen=ERRORS))
        kept.append(entry)

    def entries(self) -> list[ErrorEntry]:
        """Return the last errors of all plugins, the newest first."""
        entries = [entry for plugin in self._entries.copy() for entry in self.of_plugin(plugin)]
        return sorted(entries, key=lambda entry: entry.time, reverse=True)[:ERRORS]

    def of_plugin(self, plugin: str) -> list[ErrorEntry]:
        """Return the last errors of a plugin, the newest first."""
        return list(self._entries.get(plugin, deque()).copy())[::-1]
