"""Prometheus metrics of the work queues: upstream's names, labels and buckets, so that dashboards keep working.

Nothing is updated in Python: the queues count under their own locks, and a scrape copies the numbers. A new metric
is a number of `rust/core/src/metrics.rs`, counted in `rust/core/src/queue`, and a line of `_FAMILIES` here.
"""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from prometheus_client import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from ctrlhost import _core

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["QueueCollector"]

# As Go prints them: the bounds come from repeated multiplication, and dashboards use them unrounded.
_BOUNDS = (
    "1e-08", "1e-07", "1e-06", "9.999999999999999e-06", "9.999999999999999e-05", "0.001",
    "0.01", "0.1", "1", "10", "100", "1000", "+Inf",
)  # fmt: skip

# Twice as fast as the constructor of a NamedTuple: with a hundred controllers a scrape creates thousands.
_new = partial(tuple.__new__, Sample)
_REST = (None,) * (len(Sample._fields) - 3)


def _sum(first: Any, other: Any) -> Any:
    if isinstance(first, dict):
        return first | {priority: first.get(priority, 0) + count for priority, count in other.items()}
    if isinstance(first, tuple):
        counts, total = other
        return ([a + b for a, b in zip(first[0], counts, strict=True)], first[1] + total)
    return first + other


class _Family(NamedTuple):
    name: str
    kind: str
    text: str
    #: Merges the values of two queues with one name.
    merge: Callable[[Any, Any], Any] = _sum

    def metric(self) -> Metric:
        return Metric(self.name, self.text, self.kind)


_FAMILIES = {
    "depth": _Family("workqueue_depth", "gauge", "Keys that need work, by priority"),
    "adds": _Family("workqueue_adds", "counter", "Keys queued, or added again while processed"),
    "queue_duration": _Family("workqueue_queue_duration_seconds", "histogram", "Seconds from queued to handed out"),
    "work_duration": _Family("workqueue_work_duration_seconds", "histogram", "Seconds from handed out to done"),
    "unfinished": _Family("workqueue_unfinished_work_seconds", "gauge", "Total seconds of unfinished work"),
    "longest_running": _Family(
        "workqueue_longest_running_processor_seconds", "gauge", "Seconds of the longest unfinished work", max
    ),
    "retries": _Family("workqueue_retries", "counter", "Delayed adds, also rate-limited ones"),
    "delayed": _Family("ctrlhost_workqueue_delayed_items", "gauge", "Delayed keys"),
    "oldest": _Family(
        "ctrlhost_workqueue_oldest_item_seconds", "gauge", "Age of the oldest queued key in seconds", max
    ),
    "standby": _Family(
        "ctrlhost_workqueue_standby_items",
        "gauge",
        "Queued keys of a controller that waits for another replica's Lease",
    ),
    "dropped": _Family("ctrlhost_workqueue_dropped", "counter", "Delayed keys dropped by a shutdown"),
    "spurious_done": _Family(
        "ctrlhost_workqueue_spurious_done", "counter", "Calls of done for a key that was not in progress"
    ),
}


class QueueCollector(Collector):
    """Collects the metrics of the process's live named queues.

    `wanted` selects queues by their rows of `_core.queue_metrics`, if several hosts share the process; None selects
    all. Queues of one name are merged, since a scrape may contain a series only once.
    """

    def __init__(
        self,
        wanted: Callable[[dict[str, Any]], bool] | None = None,
        stands_by: Callable[[dict[str, Any]], bool] = lambda _: False,
    ) -> None:
        """Collect from all named queues, or from those that are `wanted`.

        A queue whose controller `stands_by` has no depth and no age: nobody has to work on its keys here.
        """
        self._wanted = wanted
        self._stands_by = stands_by

    def describe(self) -> Iterable[Metric]:
        """Return the families without samples; reads no queue."""
        return [family.metric() for family in _FAMILIES.values()]

    def collect(self) -> Iterator[Metric]:
        """Copy the numbers of all queues; waits for each at most as long as one operation takes."""
        rows: dict[str, dict[str, Any]] = {}
        for row in _core.queue_metrics():
            name = row["name"]
            if self._wanted is None or self._wanted(row):
                row["standby"] = 0
                depth = row["depth"]
                if any(depth.values()) and self._stands_by(row):
                    row |= {"standby": sum(depth.values()), "depth": dict.fromkeys(depth, 0), "oldest": 0.0}
                known = rows.get(name)
                rows[name] = row if known is None else _merge(known, row)
        labelled = [({"name": name, "controller": name}, row) for name, row in rows.items()]
        for field, family in _FAMILIES.items():
            metric = family.metric()
            for labels, row in labelled:
                if metric.type != "histogram" or any(row[field][0]):
                    _add_samples(metric, labels, row[field])
            yield metric


def _merge(first: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return first | {field: family.merge(first[field], other[field]) for field, family in _FAMILIES.items()}


def _add_samples(metric: Metric, labels: dict[str, str], value: Any) -> None:
    name, samples = metric.name, metric.samples
    if metric.type == "histogram":
        counts, total = value
        sums = list(accumulate(counts))
        bucket = name + "_bucket"
        samples += [
            _new((bucket, {**labels, "le": bound}, count, *_REST)) for bound, count in zip(_BOUNDS, sums, strict=True)
        ]
        samples.append(_new((name + "_count", labels, sums[-1], *_REST)))
        samples.append(_new((name + "_sum", labels, total, *_REST)))
    elif isinstance(value, dict):
        samples += [_new((name, {**labels, "priority": priority}, count, *_REST)) for priority, count in value.items()]
    else:
        samples.append(_new((name + "_total" if metric.type == "counter" else name, labels, value, *_REST)))
