"""The plugin's metrics; the series of a network are on the replica that works on it, and are removed with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from ctrlhost import Request
    from ctrlhost_bitcoin.mesh.node_state import Memory

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class BitcoinMetrics:
    """Counters for the RPC client, and gauges that are computed by each scrape."""

    def __init__(self, registry: CollectorRegistry, memory: Memory, owns: Callable[[Request], bool]) -> None:
        """Register all metrics; `owns` says whether this replica works on a network."""
        self._memory, self._owns = memory, owns
        self._requests = Counter(
            "ctrlhost_bitcoin_rpc_requests",
            "RPC calls to daemons, by method and outcome",
            labelnames=("method", "outcome"),
            registry=registry,
        )
        self._seconds = Histogram(
            "ctrlhost_bitcoin_rpc_duration_seconds",
            "Duration of RPC calls to daemons",
            labelnames=("method",),
            buckets=_BUCKETS,
            registry=registry,
        )
        registry.register(self)

    def called(self, method: str, outcome: str, seconds: float) -> None:
        """Count a call; from any thread."""
        self._requests.labels(method, outcome).inc()
        self._seconds.labels(method).observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """Return the gauges; called by a scrape, from any thread."""
        labels = ("namespace", "name", "state")
        nodes = GaugeMetricFamily("ctrlhost_bitcoin_nodes", "Nodes of a network by state", labels=labels)
        links = GaugeMetricFamily("ctrlhost_bitcoin_mesh_links", "Links of a network by state", labels=labels)
        for key, network in filter(lambda known: self._owns(known[0]), self._memory.all()):
            for state, count in network.counts().items():
                nodes.add_metric((key.namespace, key.name, state), count)
            for state, count in network.links().items():
                links.add_metric((key.namespace, key.name, state), count)
        yield nodes
        yield links
