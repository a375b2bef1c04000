"""The metrics of a client, under client-go's names."""

from __future__ import annotations

import bisect
import math
import threading
import time
import weakref
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ctrlhost._core import transport_busy
from ctrlhost.kubeconfig.expiry import earliest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client.core import Metric

    from ctrlhost._core import HttpClient

_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
_STATES = ("connecting", "idle", "call", "stream")
_HANDSHAKES = {"full": "false", "resumed": "true"}


class Expiries(NamedTuple):
    """When credentials in use expire, in seconds since the epoch; None for those that are absent, or never expire."""

    token: float | None
    certificate: float | None
    #: Whether the certificate came from an exec plugin.
    by_program: bool


class _Expiring(Protocol):
    def expiries(self) -> Expiries: ...


class ClientMetrics:
    """Requests by outcome, the time until the response began, connections and credentials; a collector.

    All methods may be called from any thread.
    """

    def __init__(self) -> None:
        """Start at zero."""
        self._lock = threading.Lock()
        self._requests: dict[tuple[str, str, str], int] = {}
        self._durations: dict[tuple[str, str], list[int]] = {}
        self._sums: dict[tuple[str, str], float] = {}
        #: When the last answer came, in seconds of `time.monotonic`; None before the first.
        self.last_answer: float | None = None
        #: Called with method, path and outcome of each write, on the thread or in the task that made it.
        self.on_write: Callable[[str, str, str], None] | None = None
        #: Called after each answer 403.
        self.on_forbidden: Callable[[], None] | None = None
        self._retries: Counter[tuple[str, str, str]] = Counter()
        self._exec_calls: Counter[tuple[str, str]] = Counter()
        #: The connections of each transport, and their handshakes since the start where the transport is gone.
        self._clients: list[tuple[weakref.ref[_Expiring], HttpClient]] = []
        self._ended: Counter[str] = Counter()

    def follow(self, transport: _Expiring, client: HttpClient) -> None:
        """Count the connections of `client`, which belong to `transport`, and show when its credentials expire."""
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

    def observe(self, method: str, host: str, code: str, seconds: float, path: str = "") -> None:
        """Count one request; `code` is the status, or `<error>` without a response."""
        if code != "<error>":
            self.last_answer = time.monotonic()
        if method != "GET" and self.on_write is not None:
            self.on_write(method, path, code)
        if code == "403" and self.on_forbidden is not None:
            self.on_forbidden()
        verb = method if method in _METHODS else "OTHER"
        with self._lock:
            request = (code, verb, host)
            self._requests[request] = self._requests.get(request, 0) + 1
            duration = (verb, host)
            counts = self._durations.setdefault(duration, [0] * (len(_BUCKETS) + 1))
            counts[bisect.bisect_left(_BUCKETS, seconds)] += 1
            self._sums[duration] = self._sums.get(duration, 0.0) + seconds

    def observe_retry(self, method: str, host: str, code: str) -> None:
        """Count a request that is sent again after an answer with this status, `<error>` for none."""
        with self._lock:
            self._retries[code, method if method in _METHODS else "OTHER", host] += 1

    def observe_exec_call(self, code: int, status: str) -> None:
        """Count a run of an exec plugin by its exit code and client-go's word for the outcome."""
        with self._lock:
            self._exec_calls[str(code), status] += 1

    def _expiries(self) -> list[Expiries]:
        with self._lock:
            transports = [transport() for transport, _ in self._clients]
        return [transport.expiries() for transport in transports if transport is not None]

    def requests(self, code: str | None = None) -> int:
        """Return the number of requests so far, or of those with one outcome."""
        with self._lock:
            return sum(count for key, count in self._requests.items() if code is None or key[0] == code)

    def seconds(self) -> float:
        """Return the seconds that all requests so far took until their answers began."""
        with self._lock:
            return sum(self._sums.values())

    def collect(self) -> Iterator[Metric]:
        """Return the current metrics; called by prometheus-client at each scrape."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        with self._lock:
            requests, retries = dict(self._requests), dict(self._retries)
            durations = {key: (list(counts), self._sums[key]) for key, counts in self._durations.items()}
        counter = CounterMetricFamily(
            "rest_client_requests",
            "Number of HTTP requests, by status code, method and host.",
            labels=["code", "method", "host"],
        )
        for key, count in sorted(requests.items()):
            counter.add_metric(list(key), count)
        yield counter
        counter = CounterMetricFamily(
            "rest_client_request_retries",
            "Number of request retries, by status code, verb and host.",
            labels=["code", "verb", "host"],
        )
        for key, count in sorted(retries.items()):
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
        yield from self._about_credentials()

    def _about_credentials(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        with self._lock:
            exec_calls = dict(self._exec_calls)
        calls = CounterMetricFamily(
            "rest_client_exec_plugin_call",
            "Number of calls to an exec plugin, by exit code and outcome.",
            labels=["code", "call_status"],
        )
        for key, count in sorted(exec_calls.items()):
            calls.add_metric(list(key), count)
        yield calls
        expiries = self._expiries()
        ends = [expiry.certificate for expiry in expiries if expiry.by_program and expiry.certificate is not None]
        yield GaugeMetricFamily(
            "rest_client_exec_plugin_ttl_seconds",
            "Seconds until a client certificate of an exec plugin expires, negative afterwards; +Inf without one.",
            value=min(ends, default=math.inf) - time.time(),
        )
        expiry = GaugeMetricFamily(
            "ctrlhost_credential_expiry_timestamp_seconds",
            "When the token or the client certificate in use that expires first does, in seconds since the epoch.",
            labels=["source"],
        )
        for source in ("token", "certificate"):
            if (first := earliest(*(getattr(expiry, source) for expiry in expiries))) is not None:
                expiry.add_metric([source], first)
        yield expiry


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
