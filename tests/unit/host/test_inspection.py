"""The queues that a host shows."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from ctrlhost.config.load import Configuration
from ctrlhost.config.settings import HostSettings
from ctrlhost.host.inspection import Inspection
from ctrlhost.host.state import HostState
from ctrlhost.workqueue import WorkQueue


def state_of(work_queue: Any) -> HostState:
    """Return the state of a host with one controller."""
    plugin: Any = SimpleNamespace(controllers=[SimpleNamespace(name="p/all", queue=work_queue)])
    return HostState(HostSettings(), Configuration.gather(environ={}), plugins=[plugin])


@pytest.mark.behaviour("findings/FQ18")
def test_the_page_of_queues_asks_for_the_numbers_and_the_first_hundred_keys() -> None:
    limits: list[Any] = []

    class Watched:
        """A queue that records what is asked of it; it cannot be asked for a whole snapshot."""

        def __init__(self, work_queue: WorkQueue) -> None:
            self.work_queue = work_queue

        def summary(self, limit: int) -> Any:
            limits.append(limit)
            return self.work_queue.summary(limit)

    work_queue = WorkQueue()
    work_queue.add_many(f"key-{number:03}" for number in range(250))
    for _ in range(110):
        work_queue.get()
    work_queue.add_after("later", 1e9)
    (page,) = Inspection(state_of(Watched(work_queue))).queues()
    assert limits == [100]
    assert page["controller"] == "p/all"
    assert page["counts"] == {"queued": 140, "processing": 110, "delayed": 1}
    assert [key["key"] for key in page["queued"]] == [f"key-{number}" for number in range(110, 210)]
    assert len(page["processing"]) == 100
    assert [key["key"] for key in page["delayed"]] == ["later"]
    json.dumps(page, allow_nan=False)
