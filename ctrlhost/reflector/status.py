"""The status of reflectors and informers, for health checks, metrics and `ctrlhost top`."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Literal

State = Literal["waiting", "over budget", "listing", "watching", "reconnecting", "stopped"]


@dataclass(slots=True)
class ReflectorStatus:
    """The status of one reflector. It writes it, any thread reads it; times are the clock's `now`, or None."""

    namespace: str = ""
    state: State = "listing"
    #: The reason for which it is not watching; empty while it watches.
    reason: str = ""
    resource_version: str = ""
    last_byte_at: float | None = None
    last_event_at: float | None = None
    last_bookmark_at: float | None = None
    last_list_at: float | None = None
    #: Objects of the current list so far, and the number still to come, if the server sends it.
    listing: int = 0
    remaining: int | None = None
    lists: int = 0
    #: Lists of a server that was restored to an earlier state.
    restores: int = 0
    watches: int = 0
    events: int = 0
    bookmarks: int = 0
    #: Failures by kind, for the metric.
    errors: dict[str, int] = field(default_factory=dict)
    last_error: str = ""
    #: When its state last changed.
    since: float | None = None
    #: Whether there is nothing to watch: it is to hold no ranges.
    resting: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def current_at(self) -> float | None:
        """When the cache was last known to be current, by an event, a bookmark or a list; None while that is always."""
        if self.resting:
            return None
        moments = (self.last_event_at, self.last_bookmark_at, self.last_list_at)
        return max((moment for moment in moments if moment is not None), default=None)

    def set(self, state: State, reason: str, now: float) -> None:
        """Change the state or its reason; `since` moves with the state only."""
        with self._lock:
            if self.state != state or self.since is None:
                self.since = now
            self.state, self.reason = state, reason

    def arrived(self, events: int, last_byte_at: float | None, last_event_at: float | None, listing: int) -> None:
        """Set what the core counts of streams that its decode threads read."""
        self.events, self.listing = events, listing
        self.last_byte_at, self.last_event_at = last_byte_at, last_event_at

    def listed(self, version: str, now: float) -> None:
        """Count a complete list."""
        self.lists += 1
        self.last_list_at, self.resource_version = now, version

    def failed(self, kind: str, message: str) -> None:
        """Count a failure of this kind."""
        self.errors[kind] = self.errors.get(kind, 0) + 1
        self.last_error = message


@dataclass(frozen=True, slots=True)
class InformerStatus:
    """One informer at one instant; ages are in seconds, None for never."""

    key: str
    api_version: str
    kind: str
    namespaces: tuple[str, ...] | None
    state: State
    reason: str
    #: Seconds in that state; None before the start.
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
    #: Since the cache was last known to be current.
    staleness: float | None
    relists: int
    errors: int
    last_error: str
    #: Objects of the current list so far, and the number still to come, if the server sends it.
    listing: int = 0
    remaining: int | None = None
    #: Narrower informers that had their own watches before this one was requested; keys.
    beside: tuple[str, ...] = ()
