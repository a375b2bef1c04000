"""Merge equal events into one event with a series, and limit the events of an object."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ctrlhost.clock import micro_time

if TYPE_CHECKING:
    from ctrlhost.clock import Clock
    from ctrlhost.transport.interface import Permit

#: Seconds without a new event after which a series has ended.
FINISH_AFTER = 360.0
#: Seconds after which an open series is written again, as a heartbeat.
REFRESH_AFTER = 1800.0
#: Writes per source and object: the size of a burst, and the seconds for one more.
BURST, REFILL_SECONDS = 25, 300.0
_MAX_ENTRIES = 4096


@dataclass(slots=True)
class _Series:
    """A written event, and the equal events since."""

    event: dict[str, Any]
    count: int
    last_seen: float
    #: The count that was written last, and when.
    written: int
    written_at: float
    #: Asked before each write of it.
    permit: Permit | None


class Recorded(NamedTuple):
    """An event, how often it was recorded, and when last, in seconds since the epoch."""

    type: str
    reason: str
    note: str
    times: int
    last: float


class Correlator:
    """Decides which events are written. The caller must hold a lock around every call."""

    def __init__(self, clock: Clock) -> None:
        """Start without events; limits refill by the clock's monotonic time."""
        self._clock = clock
        self._series: OrderedDict[tuple[Any, ...], _Series] = OrderedDict()
        self._buckets: OrderedDict[tuple[Any, ...], tuple[float, float]] = OrderedDict()
        #: Events that were dropped because their object had too many.
        self.dropped = 0

    def observe(self, event: dict[str, Any], now: float, permit: Permit | None = None) -> dict[str, Any] | None:
        """Record an event at `now`, in seconds since the epoch; `permit` is asked before it is written.

        Returns the event to write: a new one, or a written one with its `series`; None if there is nothing to write.
        """
        key = _key(event)
        known = self._series.get(key)
        if known is not None and now - known.last_seen <= FINISH_AFTER:
            known.count += 1
            known.last_seen, known.permit = now, permit
            # Further events are written when the series ends, or by its next heartbeat.
            if known.count > 2 or not self._admit(event):
                return None
            return self._series_event(known, now)
        if not self._admit(event):
            return None
        self._series[key] = _Series(event, 1, now, 1, now, permit)
        self._series.move_to_end(key)
        if len(self._series) > _MAX_ENTRIES:
            self._series.popitem(last=False)
        return event

    def about(self, kind: str, namespace: str, name: str) -> list[Recorded]:
        """Return the events of an object whose series are open, the newest first."""
        wanted = (kind, namespace, name)
        series = [known for known in self._series.values() if _object_of(known.event) == wanted]
        return [
            Recorded(known.event["type"], known.event["reason"], known.event["note"], known.count, known.last_seen)
            for known in sorted(series, key=lambda known: known.last_seen, reverse=True)
        ]

    def upkeep(self, now: float) -> list[tuple[dict[str, Any], Permit | None]]:
        """Return the events whose series must be written at `now`, with their permits, and forget the ended series."""
        due = []
        for key, series in list(self._series.items()):
            if now - series.last_seen > FINISH_AFTER:
                del self._series[key]
                if series.count > series.written:
                    due.append((self._series_event(series, now), series.permit))
            elif series.count > 1 and now - series.written_at >= REFRESH_AFTER:
                due.append((self._series_event(series, now), series.permit))
        return due

    def unwritten(self) -> list[tuple[dict[str, Any], Permit | None]]:
        """Return the events of series that have grown since they were written, and count them as written."""
        grown = [series for series in self._series.values() if series.count > series.written]
        return [(self._series_event(series, series.last_seen), series.permit) for series in grown]

    @staticmethod
    def _series_event(series: _Series, now: float) -> dict[str, Any]:
        series.written, series.written_at = series.count, now
        return {**series.event, "series": {"count": series.count, "lastObservedTime": micro_time(series.last_seen)}}

    def _admit(self, event: dict[str, Any]) -> bool:
        """Take a token of the event's source and object; return whether one was left."""
        regarding = event["regarding"]
        parts = ("apiVersion", "kind", "namespace", "name", "uid")
        key = (event["reportingController"], *(regarding.get(part) for part in parts))
        now = self._clock.now()
        tokens, since = self._buckets.pop(key, (float(BURST), now))
        tokens = min(float(BURST), tokens + (now - since) / REFILL_SECONDS)
        admitted = tokens >= 1.0
        self._buckets[key] = (tokens - 1.0 if admitted else tokens, now)
        if len(self._buckets) > _MAX_ENTRIES:
            self._buckets.popitem(last=False)
        if not admitted:
            self.dropped += 1
        return admitted


def _object_of(event: dict[str, Any]) -> tuple[str, str, str]:
    regarding = event["regarding"]
    return regarding.get("kind", ""), regarding.get("namespace", ""), regarding["name"]


def _key(event: dict[str, Any]) -> tuple[Any, ...]:
    """Return the key by which events are equal; the note is not part of it, as upstream."""

    def flat(reference: dict[str, str] | None) -> tuple[Any, ...]:
        # The version changes with each write of the object, so it must not distinguish events.
        return tuple(sorted((name, value) for name, value in (reference or {}).items() if name != "resourceVersion"))

    own = tuple(event[name] for name in ("type", "action", "reason", "reportingController", "reportingInstance"))
    return (*own, flat(event["regarding"]), flat(event.get("related")))
