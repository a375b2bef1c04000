"""What is counted of webhooks, by path, with the names of controller-runtime where it has one."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

#: The upper bounds of the latency, in seconds.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
#: The last answers that quantiles are computed of.
_LAST = 1000


class WebhookCounts:
    """The counts of one webhook, or of the conversions of one kind. Only the thread of the listener changes them."""

    def __init__(self, plugin: str, path: str, timeout: float) -> None:
        """Start with zeros; the API server waits `timeout` seconds for an answer."""
        self.plugin = plugin
        self.path = path
        self.timeout = timeout
        #: Answers by status code; those that were refused with one that is not 200 are errors.
        self.requests: Counter[int] = Counter({200: 0, 500: 0})
        self.denied = 0
        self.in_flight = 0
        self.seconds = 0.0
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._last: deque[float] = deque(maxlen=_LAST)

    def answered(self, code: int, seconds: float, *, denied: bool) -> None:
        """Count an answer."""
        self.requests[code] += 1
        self.denied += denied
        self.seconds += seconds
        self._buckets[bisect_left(BUCKETS, seconds)] += 1
        self._last.append(seconds)

    @property
    def total(self) -> int:
        """The number of answers."""
        return sum(self.requests.copy().values())

    @property
    def errors(self) -> int:
        """The number of answers with which the failure policy decides."""
        return self.total - self.requests[200]

    def quantile(self, part: float) -> float | None:
        """Return a quantile of the last 1,000 answers, in seconds; None without any."""
        ordered = sorted(self._last.copy())
        return ordered[min(int(part * len(ordered)), len(ordered) - 1)] if ordered else None

    def buckets(self) -> list[tuple[str, float]]:
        """Return the cumulative histogram."""
        bounds = [*map(floatToGoString, BUCKETS), "+Inf"]
        return list(zip(bounds, map(float, accumulate(self._buckets)), strict=True))


class WebhookMetrics(Collector):
    """The counts of all webhooks of a host."""

    def __init__(self) -> None:
        """Start without webhooks."""
        self._counts: dict[str, WebhookCounts] = {}

    def of(self, plugin: str, path: str, timeout: float) -> WebhookCounts:
        """Return the counts of a webhook, which continue when its plugin is set up again."""
        counts = self._counts.setdefault(path, WebhookCounts(plugin, path, timeout))
        counts.plugin, counts.timeout = plugin, timeout
        return counts

    def all(self) -> list[WebhookCounts]:
        """Return the counts, by path."""
        return [self._counts[path] for path in sorted(self._counts.copy())]

    def collect(self) -> Iterator[Metric]:
        """Return the counts as metrics."""
        requests = CounterMetricFamily(
            "controller_runtime_webhook_requests", "Answers to the API server by HTTP status code",
            labels=("webhook", "code"),
        )  # fmt: skip
        latency = HistogramMetricFamily(
            "controller_runtime_webhook_latency_seconds", "Seconds until an answer to the API server",
            labels=("webhook",),
        )  # fmt: skip
        in_flight = GaugeMetricFamily(
            "controller_runtime_webhook_requests_in_flight", "Requests that are being answered", labels=("webhook",)
        )
        denied = CounterMetricFamily(
            "ctrlhost_webhook_denied", "Answers that denied what the API server asked about",
            labels=("plugin", "webhook"),
        )  # fmt: skip
        timeout = GaugeMetricFamily(
            "ctrlhost_webhook_timeout_seconds", "Seconds that the API server waits for an answer",
            labels=("plugin", "webhook"),
        )  # fmt: skip
        for counts in self.all():
            for code, number in sorted(counts.requests.copy().items()):
                requests.add_metric((counts.path, str(code)), number)
            latency.add_metric((counts.path,), counts.buckets(), counts.seconds)
            in_flight.add_metric((counts.path,), counts.in_flight)
            denied.add_metric((counts.plugin, counts.path), counts.denied)
            timeout.add_metric((counts.plugin, counts.path), counts.timeout)
        yield from (requests, latency, in_flight, denied, timeout)
