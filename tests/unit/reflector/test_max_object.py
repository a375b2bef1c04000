"""Objects that are larger than the setting allows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import protobuf
from tests.support.stub_api_server import Body, Frames, Json, event, pod, pod_list, serve
from tests.support.waiting import eventually

LIMIT = 100_000
REFUSED = f"the object is larger than {LIMIT} bytes"


def large(name: str, version: int) -> dict[str, Any]:
    return {**pod(name, version), "spec": {"nodeName": "x" * LIMIT}}


@pytest.mark.behaviour("scale/SC112")
@pytest.mark.parametrize("answer", ["json", "protobuf"])
def test_a_list_with_an_object_that_is_too_large_is_refused_with_the_limit(rig_with, answer):
    rig = rig_with(max_object=LIMIT)
    lists = {
        "json": Json(pod_list(3, pod("a", 1), large("b", 2))),
        "protobuf": Body(
            protobuf.pod_list(3, protobuf.pod("a", 1), protobuf.pod("b", 2, (10, "x" * LIMIT))), 200, protobuf.MEDIA
        ),
    }
    rig.serve([lists[answer], Json(pod_list(4, pod("a", 1)))])
    serve(
        rig.server, "/api/v1/configmaps", [Json({**pod_list(5, pod("other", 4)), "kind": "ConfigMapList"})], [Frames()]
    )
    other = rig.factory.informer("v1", "ConfigMap")
    rig.start()
    eventually(lambda: rig.errors)
    assert REFUSED in str(rig.errors[0])
    eventually(lambda: other.has_synced)
    # Without it, it is accepted.
    rig.holds(a=1)


@pytest.mark.behaviour("scale/SC112")
def test_an_event_that_is_too_large_is_refused_and_the_events_before_it_count(rig_with):
    rig = rig_with(max_object=LIMIT)
    frames = Frames(event("ADDED", pod("a", 2)), event("ADDED", large("b", 3)))
    rig.serve([Json(pod_list(1))], [frames, Frames(event("ADDED", pod("c", 4)))]).start()
    eventually(lambda: rig.errors)
    assert REFUSED in str(rig.errors[0])
    rig.holds(a=2, c=4)
