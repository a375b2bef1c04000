"""The state that a plugin is in within its host, and the reason for it."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("ctrlhost.host")

State = Literal["failed", "waiting", "syncing", "running", "stopping", "stopped"]

#: How long a plugin waits in each state before it looks again whether its caches are full, in seconds.
PAUSE: dict[State, float] = {"syncing": 0.01, "waiting": 0.1, "running": 0.5, "stopping": 0, "stopped": 0, "failed": 0}


class PluginState:
    """A plugin's name and state; whatever changes the state says so in the log and to the host."""

    def __init__(self, name: str, changed: Callable[[], None]) -> None:
        """Begin as a plugin that syncs; `changed` is called after each change."""
        self.name = name
        self.state: State = "syncing"
        self.reason = ""
        self._changed = changed
        self._lock = threading.Lock()
        #: Whether it was started, so that it has something to tell of its end.
        self._begun = False

    def __repr__(self) -> str:
        """Show name, state and reason."""
        return f"<plugin {self.name} {self.state}{f': {self.reason}' if self.reason else ''}>"

    @property
    def failed(self) -> bool:
        """Whether the plugin has failed; it stays so."""
        return self.state == "failed"

    def settled(self) -> bool:
        """Whether there is nothing to wait for: the plugin runs, or waits for somebody else, or has failed."""
        return self.state not in ("syncing", "stopping")

    def _report(self, behind: list[str], waiting: list[str], *, synced: bool) -> None:
        if waiting:
            self._move("waiting", "; ".join(dict.fromkeys(waiting)))
        elif behind or not synced:
            self._move("syncing", f"{', '.join(behind)} not synced yet" if behind else "")
        else:
            self._move("running", "")

    def _move(self, state: State, reason: str) -> None:
        with self._lock:
            # A plugin that has failed stays so, and one that stops does not start again.
            past = {"failed": 3, "stopped": 2, "stopping": 1}
            if past.get(state, 0) < past.get(self.state, 0) or (state, reason) == (self.state, self.reason):
                return
            moved = state != self.state
            self.state, self.reason = state, reason
        level = {"failed": logging.ERROR, "waiting": logging.WARNING}.get(state, logging.INFO)
        # A plugin that never started has nothing to tell of its end.
        quiet = not self._begun and state in ("stopping", "stopped")
        if not quiet and (moved or state != "syncing"):
            separator = ": " if reason else ""
            log.log(level, "plugin %s %s%s%s", self.name, state, separator, reason, extra={"plugin": self.name})
        self._changed()
