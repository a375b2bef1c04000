"""The plugin's metrics. CRD names are not labels, since there may be thousands."""

from __future__ import annotations

from collections import Counter as Tally
from typing import TYPE_CHECKING

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily

from ctrlhost_naming.crd import Field
from ctrlhost_naming.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from ctrlhost import Clock
    from ctrlhost_naming.findings import Ledger

RESULTS = ("shortcut", "noop", "written", "gone")
CAUSES = ("release", "taken", "delete")
REASONS = frozenset(field.reason for field in Field)
STATES = ("accepted", "conflict", "pending")


class NamingMetrics:
    """Counters of the controller, and gauges that are computed by each scrape."""

    def __init__(self, registry: CollectorRegistry, ledger: Ledger, clock: Clock) -> None:
        """Register all metrics, each series at zero."""
        self._ledger, self._clock = ledger, clock
        self.syncs = Counter(
            "ctrlhost_naming_syncs", "Reconciles of one CRD, by outcome", labelnames=("result",), registry=registry
        )
        self.requeues = Counter(
            "ctrlhost_naming_requeues",
            "CRDs requeued because the owner of a name they wait for changed",
            labelnames=("cause",),
            registry=registry,
        )
        self.fights = Counter(
            "ctrlhost_naming_fights",
            "Groups given up because another writer kept changing the status",
            registry=registry,
        )
        self.seconds = Histogram(
            "ctrlhost_naming_sync_seconds", "Duration of the decision about one CRD", registry=registry
        )
        for result in RESULTS:
            self.syncs.labels(result)
        for cause in CAUSES:
            self.requeues.labels(cause)
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Return the gauges; called by a scrape, from any thread."""
        states: Tally[str] = Tally()
        reasons: Tally[str] = Tally()
        for entry in self._ledger.entries().values():
            condition = entry.names_accepted
            if condition is None:
                states["pending"] += 1
            elif condition.is_true:
                states["accepted"] += 1
            else:
                states["conflict"] += 1
                # Another writer of the status may give any text.
                reasons[condition.reason if condition.reason in REASONS else "other"] += 1
        crds = GaugeMetricFamily("ctrlhost_naming_crds", "CRDs by NamesAccepted", labels=("state",))
        for state in STATES:
            crds.add_metric((state,), states[state])
        yield crds
        conflicts = GaugeMetricFamily(
            "ctrlhost_naming_conflicts", "CRDs whose names are not all accepted, by reason", labels=("reason",)
        )
        for reason, count in sorted(reasons.items()):
            conflicts.add_metric((reason,), count)
        yield conflicts
        kinds = Tally(difference.kind for difference in self._ledger.report(self._clock.now()))
        differences = GaugeMetricFamily("ctrlhost_naming_differences", "CRDs with a finding, by kind", labels=("kind",))
        for kind in Finding:
            differences.add_metric((kind.value,), kinds[kind])
        yield differences
