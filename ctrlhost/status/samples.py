"""Samples of the last hour: five numbers per controller every five seconds, and the rates of the last minute."""

from __future__ import annotations

import math
import time
from array import array
from bisect import bisect_left
from collections import deque
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from ctrlhost import _core
from ctrlhost.controller.metrics import BUCKETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ctrlhost.controller.controller import Controller
    from ctrlhost.controller.metrics import ControllerCounts

#: Seconds between two samples, and their number.
PERIOD = 5.0
SAMPLES = 720
#: Seconds over which rates and quantiles are computed.
WINDOW = 60.0

#: Samples of which a sparkline has the mean, and its length.
_STEP = 24
SPARKS = SAMPLES // _STEP

SERIES = ("rate", "errors", "p50", "p99", "depth")

_BASES = round(WINDOW / PERIOD)


class Rates(NamedTuple):
    """The rates and quantiles of a controller; None without runs, or without time to compare."""

    per_second: float | None
    errors_per_second: float | None
    p50: float | None
    p99: float | None


class _Base(NamedTuple):
    """The counts of a controller at one moment."""

    at: float
    errors: int
    buckets: Sequence[int]


class Ring:
    """The samples of one controller, which take 14 KB. The newest replaces the oldest."""

    def __init__(self) -> None:
        """Start empty."""
        self._values = {name: array("f", [math.nan]) * SAMPLES for name in SERIES}
        #: The number of the newest sample, by its time; None before the first.
        self._slot: int | None = None
        #: The last value of `recent`, and the slots for which it is right.
        self._recent: tuple[tuple[int | None, int], list[float | None]] | None = None

    def add(self, slot: int, values: Mapping[str, float]) -> None:
        """Set the sample `slot`; those that are missing before it stay empty. An earlier slot is ignored."""
        last = slot - 1 if self._slot is None else self._slot
        if slot <= last:
            return
        for empty in range(max(last + 1, slot - SAMPLES + 1), slot):
            for series in self._values.values():
                series[empty % SAMPLES] = math.nan
        for name, series in self._values.items():
            series[slot % SAMPLES] = values[name]
        self._slot = slot

    def series(self, name: str, slot: int) -> list[float | None]:
        """Return the samples up to `slot`, the newest last; None where there is none."""
        series, newest = self._values[name], self._slot
        if newest is None:
            return [None] * SAMPLES
        known = [series[at % SAMPLES] if newest - SAMPLES < at <= newest else math.nan for at in _last(slot)]
        return [None if math.isnan(value) else value for value in known]

    def recent(self, slot: int) -> list[float | None]:
        """Return the mean rates of 24 samples each up to `slot`, the newest last; None where there is no sample."""
        at = (self._slot, slot)
        if self._recent is None or self._recent[0] != at:
            last = slot // _STEP
            self._recent = (at, [self._mean(step * _STEP) for step in range(last - SPARKS + 1, last + 1)])
        return self._recent[1]

    def _mean(self, first: int) -> float | None:
        newest = self._slot
        if newest is None or first > newest or first <= newest - SAMPLES:
            return None
        start = first % SAMPLES
        # What follows the newest sample is an hour old.
        values = self._values["rate"][start : start + min(_STEP, newest - first + 1)]
        known = [value for value in values if not math.isnan(value)]
        return round(sum(known) / len(known), 3) if known else None


class _Sampled:
    """What is kept of one controller."""

    def __init__(self, counts: ControllerCounts) -> None:
        self.counts = counts
        self.at = 0.0
        self.ring = Ring()
        self.bases: deque[_Base] = deque(maxlen=_BASES)


class Samples:
    """Takes the samples of a host. One thread samples; any thread reads."""

    def __init__(
        self,
        controllers: Callable[[], Iterable[Controller]],
        totals: Callable[[], Mapping[str, float]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Sample these controllers, and further numbers that only grow; `clock` never goes back."""
        self._controllers = controllers
        self._totals = totals
        self._clock = clock
        self._slot: int | None = None
        self._sampled: dict[str, _Sampled] = {}
        self._bases: deque[tuple[float, Mapping[str, float]]] = deque(maxlen=_BASES)

    def check(self) -> None:
        """Take a sample if one is due; called often."""
        now = self._clock()
        slot = int(now / PERIOD)
        if self._slot is None or slot > self._slot:
            self.sample(now, slot)

    def sample(self, now: float, slot: int) -> None:
        """Take the sample `slot`."""
        gap = self._slot is not None and slot != self._slot + 1
        self._slot = slot
        depths = {row["id"]: depth_of(row) for row in _core.queue_metrics()}
        latest: dict[str, _Sampled] = {}
        for controller in self._controllers():
            counts = controller.counts
            if counts is None:
                continue
            known = self._sampled.get(controller.name)
            if known is None:
                known = _Sampled(counts)
            elif known.counts is not counts:
                # The plugin has restarted: its counts have begun anew, but what it did before stays visible.
                known.counts = counts
                known.bases.clear()
            latest[controller.name] = known
            before, base = known.bases[-1] if known.bases and not gap else None, _base(now, counts)
            rates = _rates(before, base)
            values = (rates.per_second, rates.errors_per_second, rates.p50, rates.p99, depths.get(controller.queue.id))
            numbers = {name: math.nan if value is None else value for name, value in zip(SERIES, values, strict=True)}
            known.ring.add(slot, numbers)
            known.bases.append(base)
            known.at = now
        # Those of a plugin that restarts now stay.
        kept = {name: sampled for name, sampled in self._sampled.items() if now - sampled.at < PERIOD * SAMPLES}
        self._sampled = kept | latest
        self._bases.append((now, self._totals()))

    def rates(self, controller: Controller) -> Rates:
        """Return the rates of a controller over the last minute, up to now."""
        known, counts = self._sampled.get(controller.name), controller.counts
        if known is None or counts is None or known.counts is not counts:
            return Rates(None, None, None, None)
        now = self._clock()
        base = next((base for base in tuple(known.bases) if now - base.at <= WINDOW), None)
        return _rates(base, _base(now, counts))

    def per_second(self, name: str, value: float) -> float | None:
        """Return the rate of one of the further numbers, which is `value` now, over the last minute."""
        now = self._clock()
        at, totals = next((base for base in tuple(self._bases) if now - base[0] <= WINDOW), (now, {}))
        return (value - totals.get(name, 0.0)) / (now - at) if now > at else None

    def recent(self, controller: str) -> list[float | None]:
        """Return the mean rates of a controller in the last hour, the newest last; None where there is no sample."""
        known, slot = self._sampled.get(controller), self._slot
        return [None] * SPARKS if known is None or slot is None else known.ring.recent(slot)

    def series(self, controller: str) -> dict[str, list[float | None]] | None:
        """Return the series of a controller, the newest sample last; None for an unknown one."""
        known, slot = self._sampled.get(controller), self._slot
        if known is None or slot is None:
            return None
        return {name: known.ring.series(name, slot) for name in SERIES}


def depth_of(row: Mapping[str, object]) -> int:
    """Return the number of keys that need work, of a row of `_core.queue_metrics`."""
    depth = row["depth"]
    return sum(depth.values()) if isinstance(depth, dict) else 0


def quantile(part: float, counts: Sequence[int]) -> float | None:
    """Return a quantile of durations by bucket, as `histogram_quantile` of Prometheus does; None without any."""
    sums = list(accumulate(counts))
    if not sums[-1]:
        return None
    rank = part * sums[-1]
    position = bisect_left(sums, rank)
    if position >= len(BUCKETS):
        return BUCKETS[-1]
    lower, before = (BUCKETS[position - 1], sums[position - 1]) if position else (0.0, 0)
    return lower + (BUCKETS[position] - lower) * (rank - before) / counts[position]


def _base(now: float, counts: ControllerCounts) -> _Base:
    total = counts.total()
    return _Base(now, total.errors, total.buckets)


def _rates(before: _Base | None, now: _Base) -> Rates:
    if before is None or now.at <= before.at:
        return Rates(None, None, None, None)
    seconds = now.at - before.at
    buckets = [count - other for count, other in zip(now.buckets, before.buckets, strict=True)]
    per_second, errors = sum(buckets) / seconds, (now.errors - before.errors) / seconds
    return Rates(per_second, errors, quantile(0.5, buckets), quantile(0.99, buckets))


def _last(slot: int) -> range:
    return range(slot - SAMPLES + 1, slot + 1)
