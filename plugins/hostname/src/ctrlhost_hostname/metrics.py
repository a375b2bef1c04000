"""The plugin's metrics: upstream's counter of API calls, and those that begin with `ctrlhost_hostname_`."""

from __future__ import annotations

import threading
from collections import Counter as Tally
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class KubeCalls(Collector):
    """`provider_kube_calls{action,result}`, the name that dashboards for upstream query.

    A `Counter` of prometheus-client would append `_total` to it.
    """

    def __init__(self) -> None:
        """Start without calls."""
        self._lock = threading.Lock()
        self._calls: Tally[tuple[str, str]] = Tally()

    def collect(self) -> Iterator[Metric]:
        """Return the samples."""
        metric = Metric("provider_kube_calls", "Calls to the Kubernetes API by action and result.", "unknown")
        with self._lock:
            calls = sorted(self._calls.items())
        for (action, result), count in calls:
            metric.add_sample("provider_kube_calls", {"action": action, "result": result}, float(count))
        yield metric

    @contextmanager
    def count(self, action: str) -> Iterator[None]:
        """Count the call in the body, as a failure if it raises."""
        result = "fail"
        try:
            yield
            result = "success"
        finally:
            with self._lock:
                self._calls[action, result] += 1


class HostnameMetrics:
    """All metrics of the plugin, in the registry of the host."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        managed: Callable[[], float],
        ignored: Callable[[], float],
        flagged: Callable[[], float],
        held: Callable[[], float],
    ) -> None:
        """Register the metrics; the callables are called on every scrape."""
        self.kube_calls = KubeCalls()
        registry.register(self.kube_calls)
        self.reconciles = Counter(
            "ctrlhost_hostname_reconcile_total",
            "Reconciles of a hostname by result.",
            ["result"],
            registry=registry,
        )
        self.invalid_objects = Counter(
            "ctrlhost_hostname_invalid_objects_total",
            "Versions of invalid objects, by kind and reason.",
            ["kind", "reason"],
            registry=registry,
        )
        self.orphans = Counter(
            "ctrlhost_hostname_orphans_total",
            "Unclaimed or misplaced routes that are left alone because the plugin did not write them.",
            registry=registry,
        )
        self.conflicts = Gauge(
            "ctrlhost_hostname_conflicts",
            "ProviderHosts whose hostname another ProviderHost holds.",
            registry=registry,
        )
        for name, text, value in (
            ("managed", "Connected hostnames.", managed),
            ("ignored_leases", "Leases with at least one counted failure.", ignored),
            ("flagged_leases", "Leases that are ignored.", flagged),
            ("held_removals", "Unclaimed hostnames whose routes the mass-removal brake keeps.", held),
        ):
            Gauge(f"ctrlhost_hostname_{name}", text, registry=registry).set_function(value)
