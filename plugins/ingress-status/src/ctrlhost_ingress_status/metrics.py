"""The plugin's metrics, and the progress of a pass. Names of Ingresses are no labels: there may be thousands."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from logging import Logger

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from ctrlhost import Clock
    from ctrlhost_ingress_status.ingress import Desired

_LOG_INTERVAL = 60.0
REASONS = ("gone", "replaced", "conflict", "invalid", "forbidden", "throttled", "server", "connection")


class StatusMetrics:
    """Counters for the writer, and gauges that are computed by each scrape."""

    def __init__(self, registry: CollectorRegistry, kind: str, desired: Desired) -> None:
        """Register all metrics, each series at zero."""
        self._desired = desired
        self.count_objects: Callable[[], Mapping[str, int]] = dict
        self.progress: Progress | None = None
        prefix = "ctrlhost_status_update"

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labelnames=("kind", *labels), registry=registry)

        # The series are resolved once, not at each write.
        self._total = counter(prefix, "Updates of statuses, with needless ones").labels(kind)
        succeeded = counter(f"{prefix}_success", "Updates that succeeded, with needless ones")
        self._success = succeeded.labels(kind)
        self._noop = counter(f"{prefix}_noop", "Updates that were needless, since the status was right").labels(kind)
        self._conflict = counter(f"{prefix}_conflict", "Tries that failed on a newer object").labels(kind)
        failed = counter(f"{prefix}_failed", "Updates that failed, by reason", "reason")
        self._failed = {reason: failed.labels(kind, reason) for reason in REASONS}
        seconds = Histogram(
            f"{prefix}_duration_seconds",
            "Duration of updates, with the waits between tries",
            labelnames=("kind", "error"),
            registry=registry,
        )
        self._seconds, self._seconds_of_failures = seconds.labels(kind, "false"), seconds.labels(kind, "true")
        prefix = "ctrlhost_ingress_status"
        self.changes = Counter(f"{prefix}_address_changes", "Addresses that came into force", registry=registry)
        self.contested = Counter(f"{prefix}_contested", "Pauses of writes to contested objects", registry=registry)
        registry.register(self)

    def started(self) -> None:
        """Count the start of an update."""
        self._total.inc()

    def conflict(self) -> None:
        """Count a try that failed on a newer object."""
        self._conflict.inc()

    def needless(self) -> None:
        """Count a status that was right already."""
        self._total.inc()
        self.ended(0.0, needless=True)

    def ended(self, seconds: float, *, needless: bool = False) -> None:
        """Count an update that succeeded."""
        self._success.inc()
        if needless:
            self._noop.inc()
        self._seconds.observe(seconds)

    def failed(self, seconds: float, reason: str) -> None:
        """Count an update that was dropped, or that is retried after a back-off."""
        self._failed[reason].inc()
        self._seconds_of_failures.observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """Return the gauges; called by a scrape, from any thread."""
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
        """Log the start of a pass over so many Ingresses."""
        self._log_at = self._clock.now() + _LOG_INTERVAL
        self._log.info("enqueued %d statuses to write%s", count, self._estimate(count))

    def written(self) -> None:
        """Log what remains, once a minute; called after each write of a pass."""
        now = self._clock.now()
        with self._lock:
            if now < self._log_at:
                return
            self._log_at = now + _LOG_INTERVAL
        count = self.remaining()
        self._log.info("%d statuses left to write%s", count, self._estimate(count))

    def _estimate(self, count: int) -> str:
        return f", about {count / self._qps:.0f} s at status-qps {self._qps:g}" if count and self._qps else ""
