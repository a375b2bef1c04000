"""The plugin's metrics. No name of a CRD is a label, since there may be thousands."""

from __future__ import annotations

from collections import Counter as Tally
from typing import TYPE_CHECKING

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily

from ctrlhost_naming.differences import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from ctrlhost import Clock
    from ctrlhost_naming.differences import Ledger
    from ctrlhost_naming.index import NameIndex

RESULTS = ("shortcut", "noop", "written", "conflict409", "gone", "error")
CAUSES = ("release", "taken", "delete")
STATES = ("accepted", "conflict", "pending")


class NamingMetrics:
    """Counters that the controller moves, and gauges that are worked out when somebody asks."""

    def __init__(self, registry: CollectorRegistry, index: NameIndex, ledger: Ledger, clock: Clock) -> None:
        """Register everything, each series at zero."""
        self._index, self._ledger, self._clock = index, ledger, clock
        self.syncs = Counter(
            "ctrlhost_naming_syncs", "Looks at one CRD, by outcome", labelnames=("result",), registry=registry
        )
        self.requeues = Counter(
            "ctrlhost_naming_requeues",
            "CRDs looked at again because a name they wait for changed hands",
            labelnames=("cause",),
            registry=registry,
        )
        self.fights = Counter(
            "ctrlhost_naming_fights",
            "Groups given up because somebody else kept changing the status",
            registry=registry,
        )
        self.seconds = Histogram(
            "ctrlhost_naming_sync_seconds", "How long a look at one CRD took, writes included", registry=registry
        )
        for result in RESULTS:
            self.syncs.labels(result)
        for cause in CAUSES:
            self.requeues.labels(cause)
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Give the gauges; called by a scrape, from any thread."""
        states: Tally[str] = Tally()
        reasons: Tally[str] = Tally()
        for crd in self._index.crds():
            if crd.names_accepted is None:
                states["pending"] += 1
            elif crd.names_accepted.status == "True":
                states["accepted"] += 1
            else:
                states["conflict"] += 1
                reasons[crd.names_accepted.reason] += 1
        crds = GaugeMetricFamily("ctrlhost_naming_crds", "CRDs by what NamesAccepted says", labels=("state",))
        for state in STATES:
            crds.add_metric((state,), states[state])
        yield crds
        conflicts = GaugeMetricFamily(
            "ctrlhost_naming_conflicts", "CRDs whose names are not all accepted, by reason", labels=("reason",)
        )
        for reason, count in sorted(reasons.items()):
            conflicts.add_metric((reason,), count)
        yield conflicts
        found = Tally(difference.kind for difference in self._ledger.report(self._clock.now()))
        differences = GaugeMetricFamily(
            "ctrlhost_naming_differences", "CRDs with which something is the matter, by kind", labels=("kind",)
        )
        for kind in Kind:
            differences.add_metric((kind.value,), found[kind])
        yield differences
