"""The plugin's metrics: upstream's counter of calls for routes, and those that begin with `ctrlhost_hostname_`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge

if TYPE_CHECKING:
    from collections.abc import Callable

_PREFIX = "ctrlhost_hostname_"
_ORPHANS = "Unclaimed or misplaced routes that are left alone because the plugin did not write them."
GAUGES = {
    "managed": "Connected hostnames.",
    "ignored_leases": "Leases with at least one counted failure.",
    "flagged_leases": "Leases that are ignored.",
    "held_removals": "Unclaimed hostnames whose routes the mass-removal brake keeps.",
    "conflicts": "ProviderHosts whose hostname another ProviderHost holds.",
}


class HostnameMetrics:
    """All metrics of the plugin, in the registry of the host."""

    def __init__(self, registry: CollectorRegistry, **values: Callable[[], float]) -> None:
        """Register the metrics; the callables, named as in `GAUGES`, are called on every scrape."""

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"{_PREFIX}{name}_total", text, labels, registry=registry)

        self._reconciles = counter("reconcile", "Reconciles of a hostname by result.", "result")
        self.invalid_objects = counter("invalid_objects", "Invalid objects that were reported.", "kind", "reason")
        self.orphans = counter("orphans", _ORPHANS)
        text, labels = "Calls for routes by action and result", ("action", "result")
        self._calls = counter("kube_calls", f"{text}.", *labels)
        # A `Counter` would append `_total` to the name that dashboards for upstream query.
        self._upstreams_calls = Gauge(
            "provider_kube_calls", f"{text}: the name of upstream.", labels, registry=registry
        )
        for name, text in GAUGES.items():
            Gauge(f"{_PREFIX}{name}", text, registry=registry).set_function(values[name])

    def reconcile(self, function: Callable[[], str]) -> None:
        """Call a function that returns the result of a reconcile, and count it; an exception is an error."""
        result = "error"
        try:
            result = function()
        finally:
            self._reconciles.labels(result).inc()

    def called(self, action: str, result: str = "success") -> None:
        """Count a call for a route."""
        self._calls.labels(action, result).inc()
        self._upstreams_calls.labels(action, result).inc()
