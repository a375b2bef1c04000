from __future__ import annotations

from tests.support.informer_rig import PODS
from tests.support.stub_api_server import Frames, Json, event, pod, pod_list, serve
from tests.support.waiting import eventually


def test_an_informer_mirrors_the_server_and_notifies_a_handler(server, factory):
    frames = Frames()
    serve(server, PODS, [Json(pod_list(5, pod("a", 1), pod("b", 2)))], [frames])
    pods = factory.informer("v1", "Pod")
    notifications = []
    handle = pods.add_handler(
        lambda obj, initial: notifications.append(("add", obj.name, initial)),
        lambda old, new: notifications.append(("update", old.resource_version, new.resource_version)),
        lambda obj: notifications.append(("delete", obj.name)),
    )
    factory.start()
    assert factory.wait_for_sync(10)
    eventually(lambda: handle.has_synced)
    frames.send_event(event("ADDED", pod("c", 6)))
    frames.send_event(event("MODIFIED", pod("a", 7)))
    frames.send_event(event("DELETED", pod("b", 8)))
    eventually(lambda: len(notifications) == 5)
    assert sorted(notifications[:2]) == [("add", "a", True), ("add", "b", True)]
    assert notifications[2:] == [("add", "c", False), ("update", "1", "7"), ("delete", "b")]
    assert sorted(pod.name for pod in pods.lister.list("default")) == ["a", "c"]
    assert pods.last_resource_version == "8"
    assert pods.state == "watching"
