"""Counts of requests and refused connections, by listener."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

Reason = Literal["full", "header_timeout", "host", "emfile", "tls"]
REASONS: tuple[Reason, ...] = ("full", "header_timeout", "host", "emfile", "tls")


class ListenerCounts:
    """The counts of one listener, which only its thread changes."""

    def __init__(self) -> None:
        """Start with zeros."""
        self.requests: Counter[int] = Counter()
        self.rejected: Counter[Reason] = Counter()


class HttpCounts(Collector):
    """The counts of all listeners of a host."""

    def __init__(self) -> None:
        """Start without listeners."""
        self._listeners: dict[str, ListenerCounts] = {}

    def of(self, listener: str) -> ListenerCounts:
        """Return the counts of a listener, which go on when it is opened again."""
        return self._listeners.setdefault(listener, ListenerCounts())

    def collect(self) -> Iterator[Metric]:
        """Return the counts as metrics."""
        requests = CounterMetricFamily(
            "ctrlhost_http_requests", "Requests to a listener, by status code", labels=("listener", "code")
        )
        rejected = CounterMetricFamily(
            "ctrlhost_http_connections_rejected",
            "Connections that a listener has closed or refused, by reason",
            labels=("listener", "reason"),
        )
        for name, counts in list(self._listeners.items()):
            for code, number in sorted(counts.requests.copy().items()):
                requests.add_metric((name, str(code)), number)
            for reason in REASONS:
                rejected.add_metric((name, reason), counts.rejected[reason])
        yield from (requests, rejected)
