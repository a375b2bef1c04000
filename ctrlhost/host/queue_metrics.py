"""What the work queues count, for Prometheus: upstream's names, labels and buckets, so that dashboards keep working.

Nothing is updated in Python: the queues count under their own locks, and a scrape copies the numbers.
"""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from prometheus_client import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from ctrlhost import _core

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["QueueCollector"]

# As Go prints them: the bounds come from repeated multiplication, and dashboards have them as they came out.
_BOUNDS = (
    "1e-08", "1e-07", "1e-06", "9.999999999999999e-06", "9.999999999999999e-05", "0.001",
    "0.01", "0.1", "1", "10", "100", "1000", "+Inf",
)  # fmt: skip

# A NamedTuple's own constructor costs twice as much, and a host with a hundred controllers makes thousands a scrape.
_new = partial(tuple.__new__, Sample)
_REST = (None,) * (len(Sample._fields) - 3)

_FAMILIES = {
    "workqueue_depth": ("gauge", "Keys that need work, by priority"),
    "workqueue_adds": ("counter", "Keys that came to need work"),
    "workqueue_queue_duration_seconds": ("histogram", "Seconds from needing work to being handed out"),
    "workqueue_work_duration_seconds": ("histogram", "Seconds from being handed out to being done"),
    "workqueue_unfinished_work_seconds": ("gauge", "Seconds of all work that is not done yet, summed"),
    "workqueue_longest_running_processor_seconds": ("gauge", "Seconds of the longest work that is not done yet"),
    "workqueue_retries": ("counter", "Delayed and rate-limited adds"),
    "ctrlhost_workqueue_delayed_items": ("gauge", "Keys that wait for their time"),
    "ctrlhost_workqueue_oldest_item_seconds": ("gauge", "Seconds that the oldest queued key has been queued"),
    "ctrlhost_workqueue_dropped": ("counter", "Delayed keys that a shutdown dropped"),
    "ctrlhost_workqueue_spurious_done": ("counter", "Calls of done for a key that nobody held"),
}


class QueueCollector(Collector):
    """Gives the metrics of the process's named queues; a queue that is gone has none.

    `wanted` picks queues by name, for a host that is not alone in its process; None takes them all. Queues of one name
    are added up, since a series may stand in a scrape only once.
    """

    def __init__(self, wanted: Callable[[str], bool] | None = None) -> None:
        """Collect from all named queues, or from those whose names are `wanted`."""
        self._wanted = wanted

    def describe(self) -> Iterable[Metric]:
        """Name the families without asking a queue."""
        return [Metric(name, text, kind) for name, (kind, text) in _FAMILIES.items()]

    def collect(self) -> Iterator[Metric]:
        """Copy the numbers of all queues; waits for none of them longer than for one operation."""
        families = {name: Metric(name, text, kind) for name, (kind, text) in _FAMILIES.items()}
        for row in _united(row for row in _core.queue_metrics() if self._wanted is None or self._wanted(row[0])):
            _add(families, row)
        return iter(families.values())


def _add(families: dict[str, Metric], row: Any) -> None:
    name, (adds, retries, spurious, dropped), (depth, beyond), queue, work, (unfinished, longest, oldest, delayed) = row
    labels = {"name": name, "controller": name}

    def put(family: str, value: float, suffix: str = "") -> None:
        families[family].samples.append(_new((family + suffix, labels, value, *_REST)))

    depths = [(str(priority), count) for priority, count in depth]
    if beyond is not None:
        depths.append(("exceeded_cardinality_limit", beyond))
    samples = families["workqueue_depth"].samples
    samples.extend(_new(("workqueue_depth", {**labels, "priority": label}, count, *_REST)) for label, count in depths)
    put("workqueue_adds", adds, "_total")
    put("workqueue_retries", retries, "_total")
    put("workqueue_unfinished_work_seconds", unfinished)
    put("workqueue_longest_running_processor_seconds", longest)
    put("ctrlhost_workqueue_delayed_items", delayed)
    put("ctrlhost_workqueue_oldest_item_seconds", oldest)
    put("ctrlhost_workqueue_dropped", dropped, "_total")
    put("ctrlhost_workqueue_spurious_done", spurious, "_total")
    for family, (counts, total) in (
        ("workqueue_queue_duration_seconds", queue),
        ("workqueue_work_duration_seconds", work),
    ):
        _add_histogram(families[family], labels, counts, total)


def _add_histogram(family: Metric, labels: dict[str, str], counts: Sequence[int], total: float) -> None:
    bucket = family.name + "_bucket"
    sums = list(accumulate(counts))
    family.samples += [
        _new((bucket, {**labels, "le": bound}, value, *_REST)) for bound, value in zip(_BOUNDS, sums, strict=True)
    ]
    family.samples.append(_new((family.name + "_count", labels, sums[-1], *_REST)))
    family.samples.append(_new((family.name + "_sum", labels, total, *_REST)))


def _united(rows: Iterable[Any]) -> Iterable[Any]:
    by_name: dict[str, Any] = {}
    for row in rows:
        known = by_name.get(row[0])
        by_name[row[0]] = row if known is None else _sum(known, row)
    return by_name.values()


def _sum(one: Any, other: Any) -> Any:
    name, counts, (depth, beyond), queue, work, (unfinished, longest, oldest, delayed) = one
    _, counts2, (depth2, beyond2), queue2, work2, (unfinished2, longest2, oldest2, delayed2) = other
    depths = dict(depth)
    for priority, count in depth2:
        depths[priority] = depths.get(priority, 0) + count
    return (
        name,
        _plus(counts, counts2),
        (list(depths.items()), beyond if beyond2 is None else beyond2 + (beyond or 0)),
        (_plus(queue[0], queue2[0]), queue[1] + queue2[1]),
        (_plus(work[0], work2[0]), work[1] + work2[1]),
        (unfinished + unfinished2, max(longest, longest2), max(oldest, oldest2), delayed + delayed2),
    )


def _plus(one: Sequence[int], other: Sequence[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]
