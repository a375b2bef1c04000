"""Counts of requests and refused connections, by listener."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from ctrlhost._core import ListenerCounts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric


#: Why connections are closed or refused.
REASONS = ("full", "header_timeout", "host", "emfile", "tls")


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
            for code, number in counts.requests.items():
                requests.add_metric((name, str(code)), number)
            numbers = counts.rejected
            for reason in REASONS:
                rejected.add_metric((name, reason), numbers.get(reason, 0))
        yield from (requests, rejected)
