"""The metrics of a client, under client-go's names."""

from __future__ import annotations

import bisect
import threading
import weakref
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING

from ctrlhost._core import transport_busy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from ctrlhost._core import HttpClient

_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
_STATES = ("connecting", "idle", "call", "stream")
_HANDSHAKES = {"full": "false", "resumed": "true"}


class ClientMetrics:
    """Requests by outcome, the time until the response began, and connections; a collector for prometheus-client.

    All methods may be called from any thread.
    """

    def __init__(self) -> None:
        """Start at zero."""
        self._lock = threading.Lock()
        self._requests: dict[tuple[str, str, str], int] = {}
        self._durations: dict[tuple[str, str], list[int]] = {}
        self._sums: dict[tuple[str, str], float] = {}
        #: The connections of each transport, and their handshakes since the start where the transport is gone.
        self._clients: list[tuple[weakref.ref[object], HttpClient]] = []
        self._ended: Counter[str] = Counter()

    def follow(self, transport: object, client: HttpClient) -> None:
        """Count the connections of `client`, which belong to `transport`."""
        # Whatever the metrics keep, the idle connections end with the transport.
        followed = weakref.ref(transport, lambda _: client.close())
        with self._lock:
            self._forget_ended()
            self._clients.append((followed, client))

    def _forget_ended(self) -> None:
        followed, self._clients = self._clients, []
        for transport, client in followed:
            if transport() is not None:
                self._clients.append((transport, client))
                continue
            counts = client.counts()
            self._ended.update({name: counts[name] for name in _HANDSHAKES})

    def _connections(self) -> Counter[str]:
        """Return the connections by state, and the handshakes."""
        with self._lock:
            self._forget_ended()
            total = self._ended.copy()
            for _, client in self._clients:
                total.update(client.counts())
            return total

    def observe(self, method: str, host: str, code: str, seconds: float) -> None:
        """Count one request; `code` is the status, or `<error>` without a response."""
        verb = method if method in _METHODS else "OTHER"
        with self._lock:
            request = (code, verb, host)
            self._requests[request] = self._requests.get(request, 0) + 1
            duration = (verb, host)
            counts = self._durations.setdefault(duration, [0] * (len(_BUCKETS) + 1))
            counts[bisect.bisect_left(_BUCKETS, seconds)] += 1
            self._sums[duration] = self._sums.get(duration, 0.0) + seconds

    def requests(self, code: str | None = None) -> int:
        """Return the number of requests so far, or of those with one outcome."""
        with self._lock:
            return sum(count for key, count in self._requests.items() if code is None or key[0] == code)

    def collect(self) -> Iterator[Metric]:
        """Return the current metrics; called by prometheus-client at each scrape."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        with self._lock:
            requests = dict(self._requests)
            durations = {key: (list(counts), self._sums[key]) for key, counts in self._durations.items()}
        counter = CounterMetricFamily(
            "rest_client_requests",
            "Number of HTTP requests, by status code, method and host.",
            labels=["code", "method", "host"],
        )
        for key, count in sorted(requests.items()):
            counter.add_metric(list(key), count)
        yield counter
        histogram = HistogramMetricFamily(
            "rest_client_request_duration_seconds",
            "Seconds until the server began its answer, by verb and host.",
            labels=["verb", "host"],
        )
        for duration, (counts, total) in sorted(durations.items()):
            buckets = list(zip((*map(str, _BUCKETS), "+Inf"), accumulate(counts), strict=True))
            histogram.add_metric(list(duration), buckets=buckets, sum_value=total)
        yield histogram
        connections = self._connections()
        gauge = GaugeMetricFamily(
            "ctrlhost_transport_connections",
            "Connections to the API server, by state.",
            labels=["state"],
        )
        for state in _STATES:
            gauge.add_metric([state], connections[state])
        yield gauge
        handshakes = CounterMetricFamily(
            "ctrlhost_transport_handshakes",
            "TLS handshakes, by whether they resumed a session.",
            labels=["resumed"],
        )
        for name, resumed in _HANDSHAKES.items():
            handshakes.add_metric([resumed], connections[name])
        yield handshakes


class ThreadMetrics:
    """The processor time of the threads of the core, which all clients and informers of the process share."""

    def collect(self) -> Iterator[Metric]:
        """Return the current metrics; called by prometheus-client at each scrape."""
        from prometheus_client.core import CounterMetricFamily

        counter = CounterMetricFamily(
            "ctrlhost_transport_busy_seconds",
            "Processor time of the I/O thread and of the decode threads.",
            labels=["thread"],
        )
        for thread, seconds in zip(("io", "decode"), transport_busy(), strict=True):
            counter.add_metric([thread], seconds)
        yield counter
