"""The metrics of a queue."""

from __future__ import annotations

from typing import Any

from ctrlhost.host.queue_metrics import QueueCollector
from ctrlhost.workqueue import WorkQueue


def counted(work_queue: WorkQueue) -> dict[str, Any]:
    """Return depth by priority, adds and retries of a queue, as in a scrape."""
    depth: dict[int, int] = {}
    numbers: dict[str, Any] = {"depth": depth}
    for family in QueueCollector(lambda row: row["name"] == work_queue.name).collect():
        for sample in family.samples:
            if sample.name == "workqueue_depth":
                depth[int(sample.labels["priority"])] = int(sample.value)
            elif sample.name in {"workqueue_adds_total", "workqueue_retries_total"}:
                numbers[sample.name.split("_")[1]] = int(sample.value)
    return numbers


def run(work_queue: WorkQueue) -> list[tuple[Any, int]]:
    """Process all queued items."""
    taken = []
    while len(work_queue):
        taken.append(work_queue.get_with_priority())
        work_queue.done(taken[-1][0])
    return taken
