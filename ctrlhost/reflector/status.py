"""What an informer says about itself: for health checks, metrics and `ctrlhost top`."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Literal

State = Literal["waiting", "listing", "watching", "reconnecting", "stopped"]


@dataclass(slots=True)
class ReflectorStatus:
    """How one reflector is doing. Written by its thread, read by any; times are the clock's `now`, None for never."""

    namespace: str = ""
    state: State = "listing"
    #: Why it is not watching; empty while it is.
    reason: str = ""
    resource_version: str = ""
    last_byte_at: float | None = None
    last_event_at: float | None = None
    last_bookmark_at: float | None = None
    last_list_at: float | None = None
    #: Objects that came so far with the list under way, and how many the server said are still to come.
    listing: int = 0
    remaining: int | None = None
    lists: int = 0
    watches: int = 0
    events: int = 0
    bookmarks: int = 0
    #: Failures by kind, for the metric.
    errors: dict[str, int] = field(default_factory=dict)
    last_error: str = ""
    #: Since when it is in its state.
    since: float | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def set(self, state: State, reason: str, now: float) -> None:
        """Change the state, or the reason for being in it."""
        with self._lock:
            if self.state != state or self.since is None:
                self.since = now
            self.state, self.reason = state, reason

    def failed(self, kind: str, message: str) -> None:
        """Count a failure."""
        self.errors[kind] = self.errors.get(kind, 0) + 1
        self.last_error = message


@dataclass(frozen=True, slots=True)
class InformerStatus:
    """One informer at one moment; ages are in seconds, None for never."""

    key: str
    api_version: str
    kind: str
    namespaces: tuple[str, ...] | None
    state: State
    reason: str
    #: For how long it is in that state; None before it was started.
    state_age: float | None
    has_synced: bool
    users: int
    objects: int
    bytes: int
    resource_version: str
    last_byte_age: float | None
    last_event_age: float | None
    last_bookmark_age: float | None
    last_list_age: float | None
    relists: int
    errors: int
    last_error: str
    #: While the first list is under way: objects so far, and how many are still to come if the server says so.
    listing: int = 0
    remaining: int | None = None
