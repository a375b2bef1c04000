"""What the lists and watches of one reflector share: where they read from, and where that goes."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctrlhost.reflector.steps import RangesChanged, Stopped

if TYPE_CHECKING:
    from ctrlhost.cache import SharedInformer, WatchProgress
    from ctrlhost.clock import Clock
    from ctrlhost.reflector.list_watch import ListWatch
    from ctrlhost.reflector.resume_point import ResumePoint
    from ctrlhost.reflector.shard import Shard
    from ctrlhost.reflector.skipped import SkippedObjects
    from ctrlhost.reflector.status import ReflectorStatus


@dataclass(frozen=True, slots=True)
class Feed:
    """The parts of one reflector. For its steps; the events are for any thread."""

    requests: ListWatch
    engine: SharedInformer
    position: ResumePoint
    status: ReflectorStatus
    clock: Clock
    skipped: SkippedObjects
    #: The part that is held; None for all.
    shard: Shard | None = None
    #: A new list is requested although the watch works.
    list_wanted: threading.Event = field(default_factory=threading.Event)
    stopping: threading.Event = field(default_factory=threading.Event)

    def check(self) -> None:
        """Raise Stopped if the reflector is to end."""
        if self.stopping.is_set():
            raise Stopped

    def check_ranges(self) -> None:
        """Raise RangesChanged if the list in progress is not that of the ranges that are wanted."""
        if self.shard is not None and self.shard.outdated:
            raise RangesChanged

    def listed(self, version: str, pages: int, requested: str) -> None:
        """Record a complete list."""
        self.position.listed(version, pages, requested)
        self.status.listed(version, self.clock.now())

    def record(self, progress: WatchProgress) -> int:
        """Count what a stream brought; return the number of its events."""
        now, status = self.clock.now(), self.status
        status.last_byte_at = now
        if progress.events:
            status.last_event_at = now
            status.events += progress.events
        if progress.bookmarks:
            status.last_bookmark_at = now
            status.bookmarks += progress.bookmarks
        if progress.skipped or progress.bookmarks:
            self.skipped.report()
        return progress.events
