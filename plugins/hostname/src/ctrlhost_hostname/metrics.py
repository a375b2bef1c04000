"""The plugin's metrics: upstream's counter of API calls, and its own, which begin with `ctrlhost_hostname_`."""

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
    """`provider_kube_calls{action,result}`, under exactly the name that dashboards for upstream ask for.

    A `Counter` of prometheus-client would append `_total` to it, so the samples are given here.
    """

    def __init__(self) -> None:
        """Start at nothing."""
        self._lock = threading.Lock()
        self._calls: Tally[tuple[str, str]] = Tally()

    def collect(self) -> Iterator[Metric]:
        """Give the samples."""
        metric = Metric("provider_kube_calls", "Calls to the Kubernetes API by action and result.", "unknown")
        with self._lock:
            calls = sorted(self._calls.items())
        for (action, result), count in calls:
            metric.add_sample("provider_kube_calls", {"action": action, "result": result}, float(count))
        yield metric

    @contextmanager
    def count(self, action: str) -> Iterator[None]:
        """Count the call that the body makes: a failure if it raises."""
        result = "fail"
        try:
            yield
            result = "success"
        finally:
            with self._lock:
                self._calls[action, result] += 1


class HostnameMetrics:
    """Everything that the plugin counts, in the registry that the host gave it."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        managed: Callable[[], float],
        ignored: Callable[[], float],
        flagged: Callable[[], float],
    ) -> None:
        """Register the metrics; the callables are asked whenever the metrics are read."""
        self.kube_calls = KubeCalls()
        registry.register(self.kube_calls)
        self.reconciles = Counter(
            "ctrlhost_hostname_reconcile_total",
            "Reconciles of a hostname by what came of them.",
            ["result"],
            registry=registry,
        )
        self.invalid_objects = Counter(
            "ctrlhost_hostname_invalid_objects_total",
            "Versions of objects that can not be used, by kind and reason.",
            ["kind", "reason"],
            registry=registry,
        )
        self.orphans = Counter(
            "ctrlhost_hostname_orphans_total",
            "Routes that nobody claims and that are left alone since they do not look like the plugin's own.",
            registry=registry,
        )
        self.conflicts = Gauge(
            "ctrlhost_hostname_conflicts",
            "ProviderHosts whose hostname another one holds.",
            registry=registry,
        )
        for name, text, value in (
            ("managed", "Connected hostnames.", managed),
            ("ignored_leases", "Leases with at least one counted failure.", ignored),
            ("flagged_leases", "Leases that are ignored.", flagged),
        ):
            Gauge(f"ctrlhost_hostname_{name}", text, registry=registry).set_function(value)
