"""The backlog of a handler that is slower than the changes."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.support.informer_rig import Rig
from tests.support.stub_api_server import Frames, Json, event, pod, pod_list
from tests.support.waiting import eventually

EVENTS = 5_000


@pytest.mark.parametrize("every_change", [False, True])
def test_the_backlog_of_a_blocked_handler_is_bounded_by_the_objects_unless_it_receives_every_change(
    rig: Rig, every_change: bool
) -> None:
    notified: list[Any] = []
    proceed = threading.Event()

    def on_update(old: Any, new: Any) -> None:
        proceed.wait(30)
        notified.append((old.name, old.resource_version, new.resource_version))

    deleted: list[str] = []
    rig.pods.add_handler(
        on_update=on_update, on_delete=lambda obj: deleted.append(obj.name), every_change=every_change, name="slow"
    )
    frames = [event("MODIFIED", pod(f"p{number % 3}", 10 + number)) for number in range(EVENTS)]
    frames.append(event("DELETED", pod("p0", 20 + EVENTS)))
    listed = pod_list(5, *(pod(f"p{number}", 2 + number) for number in range(3)))
    rig.serve([Json(listed)], [Frames(*frames)]).synced()
    eventually(lambda: rig.pods.last_resource_version == str(20 + EVENTS))
    waiting = rig.pods.pending
    proceed.set()
    eventually(lambda: deleted == ["p0"] and rig.pods.pending == 0)
    samples = {sample.name: sample.value for family in rig.factory.metrics.collect() for sample in family.samples}
    merged = samples["ctrlhost_informer_merged_notifications_total"]
    if every_change:
        assert merged == 0
        assert len(notified) == EVENTS
    else:
        # Plus the change in process.
        assert waiting <= 1024 + 1001
        assert merged > EVENTS - 3 * 1024
        assert len(notified) + merged + 1 == EVENTS + 1
    # No state is skipped: each update starts from the last state of its object.
    last: dict[str, str] = {}
    for name, old, new in notified:
        assert last.get(name, old) == old
        last[name] = new
    assert last["p1"] == str(max(10 + number for number in range(EVENTS) if number % 3 == 1))
    assert samples["ctrlhost_handler_calls_total"] == len(notified) + 3 + 1
