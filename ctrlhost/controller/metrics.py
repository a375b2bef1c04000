"""Metrics of reconciles, under the names of controller-runtime.

Each worker has its own counters, so that a run takes no lock; a scrape sums them.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING

from ctrlhost.controller.causes import Causes
from ctrlhost.controller.severity import Outcomes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prometheus_client.core import HistogramMetricFamily, Metric

#: Upper bounds of the duration histogram in seconds, as upstream.
BUCKETS: tuple[float, ...] = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0),
    *(15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0),
)
#: The causes of a controller that have a label of their own; the other ones share one.
LABELS, OTHER = 10, "other"
RESULTS = ("success", "error", "requeue", "requeue_after")


class WorkerCounts:
    """The counts of one worker, each of which only grows. Only its thread writes.

    A scrape on another thread may see a run counted in part.
    """

    __slots__ = (
        "active",
        "buckets",
        "errors",
        "panics",
        "requeue",
        "requeue_after",
        "seconds",
        "successes",
        "terminal",
        "timeouts",
    )

    def __init__(self) -> None:
        """Start at zero."""
        self.successes = self.errors = self.terminal = self.panics = self.timeouts = 0
        self.requeue = self.requeue_after = 0
        #: Runs in progress.
        self.active = 0
        self.seconds = 0.0
        self.buckets = [0] * (len(BUCKETS) + 1)

    def observe(self, seconds: float) -> None:
        """Count a run that took `seconds`."""
        self.seconds += seconds
        self.buckets[bisect_left(BUCKETS, seconds)] += 1

    @property
    def runs(self) -> int:
        """The runs that have ended."""
        return sum(self.buckets)


_SUMMED = tuple(name for name in WorkerCounts.__slots__ if name != "buckets")


class ControllerCounts:
    """The counts of one controller, over all its workers."""

    def __init__(self, name: str, workers: int) -> None:
        """Start without workers; `workers` is the configured number."""
        self.name = name
        self.workers = workers
        #: The keys in a hot loop now.
        self.hot_keys = 0
        #: Returns the seconds that the longest of the running reconciles has taken so far.
        self.longest: Callable[[], float] = float
        #: Returns whether workers are given keys: this replica leads, and nobody has paused the controller.
        self.working: Callable[[], bool] = bool
        #: Returns the keys by their last runs.
        self.outcomes: Callable[[], Outcomes] = Outcomes
        #: Why keys fail.
        self.causes = Causes(name)
        self._counts: list[WorkerCounts] = []

    def worker(self) -> WorkerCounts:
        """Return the counts of a new worker."""
        counts = WorkerCounts()
        self._counts.append(counts)
        return counts

    def total(self) -> WorkerCounts:
        """Return the sums over all workers."""
        total = WorkerCounts()
        for counts in tuple(self._counts):
            for field in _SUMMED:
                setattr(total, field, getattr(total, field) + getattr(counts, field))
            total.buckets = [count + other for count, other in zip(total.buckets, counts.buckets, strict=True)]
        return total


class ReconcileMetrics:
    """A prometheus-client collector for the reconciles of all controllers of one host."""

    def __init__(self) -> None:
        """Start without controllers."""
        self._lock = threading.Lock()
        self._controllers: dict[str, ControllerCounts] = {}

    def controller(self, name: str, workers: int) -> ControllerCounts:
        """Return the counts of a new controller; they replace those of a stopped one of the same name."""
        with self._lock:
            counts = self._controllers[name] = ControllerCounts(name, workers)
        return counts

    def remove(self, counts: ControllerCounts) -> None:
        """Remove the series of a controller, unless another one of its name has replaced it."""
        with self._lock:
            if self._controllers.get(counts.name) is counts:
                del self._controllers[counts.name]

    def collect(self) -> Iterator[Metric]:
        """Return the metric families; called by scrapes, from any thread."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        with self._lock:
            controllers = list(self._controllers.values())
        totals = [(controller.name, controller.workers, controller.total()) for controller in controllers]
        prefix, labels = "controller_runtime_", ("controller",)
        text = "Reconciles per controller and result"
        by_result = CounterMetricFamily(f"{prefix}reconcile", text, labels=(*labels, "result"))
        for name, _, total in totals:
            values = (total.successes, total.errors, total.requeue, total.requeue_after)
            for result, value in zip(RESULTS, values, strict=True):
                by_result.add_metric((name, result), value)
        yield by_result
        for metric, text, field in (
            ("reconcile_errors", "Reconciles that ended in an error", "errors"),
            ("terminal_reconcile_errors", "Reconciles that ended in an error that is not retried", "terminal"),
            ("reconcile_panics", "Reconciles that ended in a panic", "panics"),
            (
                "reconcile_timeouts",
                "Reconciles that took longer than their controller's `timeout` or `slow_after`",
                "timeouts",
            ),
        ):
            counter = CounterMetricFamily(prefix + metric, text, labels=labels)
            for name, _, total in totals:
                counter.add_metric((name,), getattr(total, field))
            yield counter
        yield self._durations(f"{prefix}reconcile_time_seconds", totals)
        limit = GaugeMetricFamily(f"{prefix}max_concurrent_reconciles", "Workers per controller", labels=labels)
        active = GaugeMetricFamily(f"{prefix}active_workers", "Workers that are reconciling", labels=labels)
        for name, workers, total in totals:
            limit.add_metric((name,), workers)
            active.add_metric((name,), total.active)
        yield limit
        yield active
        hot = GaugeMetricFamily(
            "ctrlhost_hot_keys", "Keys that only the host's own writes queue, repeatedly", labels=labels
        )
        for controller in controllers:
            hot.add_metric((controller.name,), controller.hot_keys)
        yield hot
        longest = GaugeMetricFamily(
            "ctrlhost_reconcile_longest_running_seconds",
            "How long the longest of the running reconciles has taken so far",
            labels=labels,
        )
        working = GaugeMetricFamily(
            "ctrlhost_controller_working",
            "1 while the controller's workers are given keys: its replica leads, and it is not paused",
            labels=labels,
        )
        for controller in controllers:
            longest.add_metric((controller.name,), controller.longest())
            working.add_metric((controller.name,), float(controller.working()))
        yield longest
        yield working
        yield from _failing(controllers)

    @staticmethod
    def _durations(metric: str, totals: list[tuple[str, int, WorkerCounts]]) -> HistogramMetricFamily:
        from prometheus_client.core import HistogramMetricFamily

        bounds = [str(bound) for bound in BUCKETS]
        family = HistogramMetricFamily(metric, "How long reconciles took", labels=("controller",))
        for name, _, total in totals:
            if not total.runs:
                continue
            sums = map(float, accumulate(total.buckets))
            buckets = list(zip((*bounds, "+Inf"), sums, strict=True))
            family.add_metric((name,), buckets, total.seconds)
        return family


def _failing(controllers: Sequence[ControllerCounts]) -> Iterator[Metric]:
    """Return the keys that fail, by cause, and how bad that is."""
    from prometheus_client.core import GaugeMetricFamily

    labels = ("controller",)
    keys = GaugeMetricFamily("ctrlhost_keys", "Keys with a recent outcome", labels=labels)
    failing = GaugeMetricFamily(
        "ctrlhost_failing_keys", "Keys whose last run failed, by cause", labels=(*labels, "cause")
    )
    oldest = GaugeMetricFamily(
        "ctrlhost_oldest_failure_seconds", "How long the first of the failing keys has failed", labels=labels
    )
    severities = GaugeMetricFamily(
        "ctrlhost_controller_severity", "1 while the controller is failing, or degraded", labels=(*labels, "severity")
    )
    for controller in controllers:
        outcomes = controller.outcomes()
        if outcomes.keys:
            keys.add_metric((controller.name,), outcomes.keys)
        for severity in ("failing", "degraded"):
            severities.add_metric((controller.name, severity), float(outcomes.severity == severity))
        if not outcomes.failing:
            continue
        oldest.add_metric((controller.name,), outcomes.seconds)
        for cause, count in _by_label(controller.causes, outcomes.failing):
            failing.add_metric((controller.name, cause), count)
    yield from (keys, failing, oldest, severities)


def _by_label(causes: Causes, failing: int) -> Iterator[tuple[str, int]]:
    """Return the failing keys by class and place, of which there are few."""
    counts: Counter[str] = Counter()
    for cause in causes.worst():
        counts[cause.title] += cause.keys
    for title, count in counts.most_common(LABELS):
        if count > 0:
            failing -= count
            yield title, count
    if failing > 0:
        yield OTHER, failing
