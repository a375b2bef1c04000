"""The plugin's metrics, and the progress of a pass. Names of Ingresses are no labels: there may be thousands."""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client import Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from logging import Logger

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from ctrlhost import Clock
    from ctrlhost_ingress_status.ingress import Desired

_LOG_INTERVAL = 60.0
_BUCKETS = Histogram.DEFAULT_BUCKETS
REASONS = ("gone", "replaced", "conflict", "invalid", "forbidden", "throttled", "server", "connection")


class _Durations:
    """The number of durations in each bucket, and their sum."""

    def __init__(self) -> None:
        self.buckets = [0] * len(_BUCKETS)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        self.buckets[bisect_left(_BUCKETS, seconds)] += 1
        self.sum += seconds

    @property
    def count(self) -> int:
        return sum(self.buckets)


class StatusMetrics:
    """Counts for the writer, in plain numbers under one lock, and gauges that are computed by each scrape."""

    def __init__(self, registry: CollectorRegistry, kind: str, desired: Desired) -> None:
        """Register all metrics, each series at zero."""
        self._kind, self._desired = kind, desired
        self.count_objects: Callable[[], Mapping[str, int]] = dict
        self.progress: Progress | None = None
        self._lock = threading.Lock()
        self._begun = self._needless = self._conflicts = 0
        self._failures = dict.fromkeys(REASONS, 0)
        self._succeeded, self._failed = _Durations(), _Durations()
        prefix = "ctrlhost_ingress_status"
        self.changes = Counter(f"{prefix}_address_changes", "Addresses that came into force", registry=registry)
        self.contested = Counter(f"{prefix}_contested", "Pauses of writes to contested objects", registry=registry)
        registry.register(self)

    def started(self) -> None:
        """Count the start of an update."""
        with self._lock:
            self._begun += 1

    def conflict(self) -> None:
        """Count a try that failed on a newer object."""
        with self._lock:
            self._conflicts += 1

    def needless(self) -> None:
        """Count a status that was right already."""
        with self._lock:
            self._begun += 1
            self._needless += 1
            self._succeeded.observe(0.0)

    def ended(self, seconds: float, *, needless: bool = False) -> None:
        """Count an update that succeeded."""
        with self._lock:
            self._needless += needless
            self._succeeded.observe(seconds)

    def failed(self, seconds: float, reason: str) -> None:
        """Count an update that was dropped, or that is retried after a back-off."""
        with self._lock:
            self._failures[reason] += 1
            self._failed.observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """Return the metric families; called by a scrape, from any thread."""
        with self._lock:
            updates = list(self._updates())
        yield from updates
        known = self._desired.known
        yield GaugeMetricFamily(
            "ctrlhost_ingress_status_addresses",
            "Addresses to publish; -1 before any is known",
            value=len(known.entries) if known else -1,
        )
        objects = GaugeMetricFamily(
            "ctrlhost_ingress_status_objects",
            "Objects by whether they are right and ours",
            labels=("state",),
        )
        for state, count in self.count_objects().items():
            objects.add_metric((state,), count)
        yield objects
        progress = self.progress
        yield GaugeMetricFamily(
            "ctrlhost_ingress_status_remaining_writes",
            "Objects whose status is wrong",
            value=progress.remaining() if progress else 0,
        )
        yield GaugeMetricFamily(
            "ctrlhost_ingress_status_remaining_seconds",
            "The least time that the remaining writes take; 0 without a limit",
            value=progress.seconds() if progress else 0,
        )

    def _updates(self) -> Iterator[Metric]:
        """Return what the writer counts; the caller holds the lock."""
        prefix, labels = "ctrlhost_status_update", ("kind",)
        for name, text, value in (
            ("", "Updates of statuses, with needless ones", self._begun),
            ("_success", "Updates that succeeded, with needless ones", self._succeeded.count),
            ("_noop", "Updates that were needless, since the status was right", self._needless),
            ("_conflict", "Tries that failed on a newer object", self._conflicts),
        ):
            counter = CounterMetricFamily(prefix + name, text, labels=labels)
            counter.add_metric((self._kind,), value)
            yield counter
        failures = CounterMetricFamily(f"{prefix}_failed", "Updates that failed, by reason", labels=(*labels, "reason"))
        for reason, value in self._failures.items():
            failures.add_metric((self._kind, reason), value)
        yield failures
        text = "Duration of updates, with the waits between tries"
        family = HistogramMetricFamily(f"{prefix}_duration_seconds", text, labels=(*labels, "error"))
        for error, durations in (("false", self._succeeded), ("true", self._failed)):
            buckets = list(zip(map(floatToGoString, _BUCKETS), accumulate(durations.buckets), strict=True))
            family.add_metric((self._kind, error), buckets, durations.sum)
        yield family


class Progress:
    """Estimates from the number of wrong statuses and the limit of writes. Methods may be called from any thread."""

    def __init__(self, remaining: Callable[[], int], qps: float, clock: Clock, log: Logger) -> None:
        """Count with `remaining`; `qps` 0 means no limit."""
        self.remaining = remaining
        self._qps, self._clock, self._log = qps, clock, log
        self._lock = threading.Lock()
        self._log_at = math.inf

    def seconds(self) -> float:
        """Return the least time that the remaining writes take; 0 without a limit."""
        return self.remaining() / self._qps if self._qps else 0.0

    def report(self) -> dict[str, object]:
        """Return the progress for the page."""
        return {
            "remaining writes": self.remaining(),
            "estimated time": f"{self.seconds():.0f} s" if self._qps else "no limit",
        }

    def began(self, count: int) -> None:
        """Log the start of a pass over so many Ingresses, unless there is none to write."""
        self._log_at = self._clock.now() + _LOG_INTERVAL
        if count:
            self._log.info("enqueued %d %s to write%s", count, _statuses(count), self._estimate(count))

    def written(self) -> None:
        """Log what remains, once a minute; called after each write of a pass."""
        now = self._clock.now()
        with self._lock:
            if now < self._log_at:
                return
            self._log_at = now + _LOG_INTERVAL
        count = self.remaining()
        if count:
            self._log.info("%d %s left to write%s", count, _statuses(count), self._estimate(count))

    def _estimate(self, count: int) -> str:
        return f", about {count / self._qps:.0f} s at status-qps {self._qps:g}" if count and self._qps else ""


def _statuses(count: int) -> str:
    return "status" if count == 1 else "statuses"
