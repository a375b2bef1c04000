"""The plugin's metrics. No name of an Ingress is a label, since there may be many thousands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from ctrlhost_ingress_status.desired import Desired

REASONS = ("gone", "replaced", "conflict", "invalid", "forbidden", "throttled", "server", "connection")


class StatusMetrics:
    """Counters that the writer moves, and gauges that are worked out when somebody asks."""

    def __init__(self, registry: CollectorRegistry, kind: str, desired: Desired) -> None:
        """Register everything, each series at zero."""
        self._desired = desired
        self.count_objects: Callable[[], Mapping[str, int]] = dict
        prefix = "ctrlhost_status_update"

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labelnames=("kind", *labels), registry=registry)

        # The series are looked up here and not at each write.
        self._total = counter(prefix, "Statuses that were looked at to be updated").labels(kind)
        succeeded = counter(f"{prefix}_success", "Updates that came to a good end, needless ones included")
        self._success = succeeded.labels(kind)
        self._noop = counter(f"{prefix}_noop", "Updates that were needless, since the status was right").labels(kind)
        self._conflict = counter(f"{prefix}_conflict", "Tries that met a newer object").labels(kind)
        failed = counter(f"{prefix}_failed", "Updates that failed, by reason", "reason")
        self._failed = {reason: failed.labels(kind, reason) for reason in REASONS}
        seconds = Histogram(
            f"{prefix}_duration_seconds",
            "How long an update took, with the waits between its tries",
            labelnames=("kind", "error"),
            registry=registry,
        )
        self._seconds, self._seconds_of_failures = seconds.labels(kind, "false"), seconds.labels(kind, "true")
        self.changes = Counter(
            "ctrlhost_ingress_status_address_changes", "Addresses that were put in force", registry=registry
        )
        self.contested = Counter(
            "ctrlhost_ingress_status_contested", "Times an object was left alone for a while", registry=registry
        )
        registry.register(self)

    def begun(self) -> None:
        """Count an update that is taken up."""
        self._total.inc()

    def conflict(self) -> None:
        """Count a try that met a newer object."""
        self._conflict.inc()

    def needless(self) -> None:
        """Count a status that was right when it was looked at."""
        self._total.inc()
        self.ended(0.0, needless=True)

    def ended(self, seconds: float, *, needless: bool = False) -> None:
        """Count an update that came to a good end."""
        self._success.inc()
        if needless:
            self._noop.inc()
        self._seconds.observe(seconds)

    def failed(self, seconds: float, reason: str) -> None:
        """Count an update that was given up, or that begins anew after a while."""
        self._failed[reason].inc()
        self._seconds_of_failures.observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """Give the gauges; called by a scrape, from any thread."""
        known = self._desired.known
        yield GaugeMetricFamily(
            "ctrlhost_ingress_status_addresses",
            "Addresses to publish, -1 as long as nothing is known",
            value=len(known.entries) if known else -1,
        )
        objects = GaugeMetricFamily(
            "ctrlhost_ingress_status_objects", "Objects by what they say, or whose they are", labels=("state",)
        )
        for state, count in self.count_objects().items():
            objects.add_metric((state,), count)
        yield objects
