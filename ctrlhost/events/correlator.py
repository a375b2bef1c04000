"""Equal events become one event with a series, and an object that has too many events loses the rest."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctrlhost.clock import Clock

#: A series that nothing was added to for so many seconds has ended.
FINISH_AFTER = 360.0
#: A live series is written again after so many seconds, as a sign of life.
REFRESH_AFTER = 1800.0
#: Writes per source and object: so many at once, one more for each so many seconds.
BURST, REFILL_SECONDS = 25, 300.0
_REMEMBERED = 4096


@dataclass(slots=True)
class _Series:
    """An event that was written, and what has been seen of its like since."""

    event: dict[str, Any]
    count: int
    last_seen: float
    #: The count that was written last, and when.
    said: int
    said_at: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to write: a new event, or the series of one that was written before."""

    event: dict[str, Any]
    patch: bool


class Correlator:
    """Decides what is written. Its user holds a lock around every call."""

    def __init__(self, clock: Clock) -> None:
        """Remember nothing yet; refills count on the clock's monotonic time."""
        self._clock = clock
        self._series: OrderedDict[tuple[Any, ...], _Series] = OrderedDict()
        self._buckets: OrderedDict[tuple[Any, ...], tuple[float, float]] = OrderedDict()
        #: Events that were not written since their object had too many.
        self.dropped = 0

    def observe(self, event: dict[str, Any], now: float) -> Verdict | None:
        """Take note of an event at `now`, in seconds since the epoch; None when nothing is to be written."""
        key = _key(event)
        known = self._series.get(key)
        if known is not None and now - known.last_seen <= FINISH_AFTER:
            known.count += 1
            known.last_seen = now
            if known.count > 2:
                # Counted in memory; written when the series ends, or by its next heartbeat.
                return None
            if not self._admitted(event):
                return None
            return Verdict(self._said(known, now), patch=True)
        if not self._admitted(event):
            return None
        self._series[key] = _Series(event, 1, now, 1, now)
        self._series.move_to_end(key)
        if len(self._series) > _REMEMBERED:
            self._series.popitem(last=False)
        return Verdict(event, patch=False)

    def upkeep(self, now: float) -> list[dict[str, Any]]:
        """Give the events whose series is to be written at `now`, and forget those that ended."""
        due = []
        for key, one in list(self._series.items()):
            if now - one.last_seen > FINISH_AFTER:
                del self._series[key]
                if one.count > one.said:
                    due.append(self._said(one, now))
            elif one.count > 1 and now - one.said_at >= REFRESH_AFTER:
                due.append(self._said(one, now))
        return due

    def unsaid(self) -> list[dict[str, Any]]:
        """Give the events of series that have grown since they were written, and count them as written."""
        return [self._said(one, one.last_seen) for one in self._series.values() if one.count > one.said]

    @staticmethod
    def _said(one: _Series, now: float) -> dict[str, Any]:
        one.said, one.said_at = one.count, now
        seen = datetime.fromtimestamp(one.last_seen, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {**one.event, "series": {"count": one.count, "lastObservedTime": seen}}

    def _admitted(self, event: dict[str, Any]) -> bool:
        """Take a token of the event's source and object."""
        regarding = event["regarding"]
        parts = ("apiVersion", "kind", "namespace", "name", "uid")
        key = (event["reportingController"], *(regarding.get(part) for part in parts))
        now = self._clock.now()
        tokens, since = self._buckets.pop(key, (float(BURST), now))
        tokens = min(float(BURST), tokens + (now - since) / REFILL_SECONDS)
        admitted = tokens >= 1.0
        self._buckets[key] = (tokens - 1.0 if admitted else tokens, now)
        if len(self._buckets) > _REMEMBERED:
            self._buckets.popitem(last=False)
        if not admitted:
            self.dropped += 1
        return admitted


def _key(event: dict[str, Any]) -> tuple[Any, ...]:
    """Give what makes two events alike; the note is not part of it, as upstream."""

    def flat(reference: dict[str, str] | None) -> tuple[Any, ...]:
        # The version moves with every change of the object, so it can not tell its events apart.
        return tuple(sorted((name, value) for name, value in (reference or {}).items() if name != "resourceVersion"))

    own = tuple(event[name] for name in ("type", "action", "reason", "reportingController", "reportingInstance"))
    return (*own, flat(event["regarding"]), flat(event.get("related")))
