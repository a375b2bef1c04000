"""The metrics of a client, under client-go's names."""

from __future__ import annotations

import bisect
import threading
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})


class ClientMetrics:
    """Requests by outcome, and the time until the response began; a collector for prometheus-client.

    All methods may be called from any thread.
    """

    def __init__(self) -> None:
        """Start at zero."""
        self._lock = threading.Lock()
        self._requests: dict[tuple[str, str, str], int] = {}
        self._durations: dict[tuple[str, str], list[int]] = {}
        self._sums: dict[tuple[str, str], float] = {}

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
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

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
