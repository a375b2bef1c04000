"""Callbacks that read an informer while other threads change its handlers: nobody waits for a callback of another."""

from __future__ import annotations

import threading

import pytest

from ctrlhost.client import Client
from ctrlhost.informers import InformerFactory, ReflectorOptions
from ctrlhost.request import Request
from ctrlhost.workqueue import WorkQueue
from tests.support.informer_rig import PODS, Rig
from tests.support.stub_api_server import Frames, Json, event, pod, pod_list, serve
from tests.support.waiting import eventually

pytestmark = pytest.mark.behaviour("findings/FQ10")


def read(pods) -> tuple[int, str, list[str]]:
    return pods.pending, pods.status().state, [obj.name for obj in pods.lister.list()]


def test_a_handler_is_attached_while_a_map_runs_that_reads_the_informer(rig: Rig):
    frames, mapping, attached, states = Frames(), threading.Event(), threading.Event(), []

    def requests(obj):
        mapping.set()
        states.append(read(rig.pods))
        # Neither attaching nor removing waits for this call.
        assert attached.wait(20)
        states.append(read(rig.pods))
        return [Request(obj.name)]

    rig.serve([Json(pod_list(1))], [frames]).synced()
    eventually(lambda: rig.pods.state == "watching")
    queue, late, heard = WorkQueue(), WorkQueue(), []
    rig.pods.enqueue_to(queue, requests)
    native = rig.pods.enqueue_to(WorkQueue())
    frames.send_event(event("ADDED", pod("a", 2)))
    assert mapping.wait(20)
    rig.pods.add_handler(lambda obj, initial: heard.append((obj.name, initial)))
    rig.pods.enqueue_to(late, lambda obj: [Request(f"late-{obj.name}")])
    native.remove()
    assert rig.pods.parts[0].engine.handler_count == 3
    attached.set()
    eventually(lambda: len(queue) == 1)
    assert [(state, names) for _, state, names in states] == [("watching", ["a"])] * 2
    # Both found the object in the store, and neither gets it twice.
    assert late.get(timeout=10) == Request("late-a")
    frames.send_event(event("ADDED", pod("b", 3)))
    eventually(lambda: heard == [("a", True), ("b", False)])
    assert late.get(timeout=10) == Request("late-b")
    assert len(late) == 0


@pytest.mark.parametrize("kind", ["map", "predicate"])
def test_an_informer_is_read_and_stores_while_a_function_of_a_new_handler_runs(rig: Rig, kind: str):
    frames, replaying, proceed = Frames(), threading.Event(), threading.Event()
    rig.serve([Json(pod_list(2, pod("a", 1)))], [frames]).synced()
    eventually(lambda: rig.pods.state == "watching")

    def slow(*objects):
        replaying.set()
        assert proceed.wait(20)
        return [Request(objects[-1].name)]

    queue = WorkQueue()
    options = {"key": slow} if kind == "map" else {"predicates": [slow]}
    rig.pods.enqueue_to(queue, **options)
    assert replaying.wait(20)
    assert read(rig.pods)[1:] == ("watching", ["a"])
    frames.send_event(event("ADDED", pod("b", 3)))
    rig.holds(a=1, b=3)
    assert read(rig.pods)[1] == "watching"
    assert len(queue) == 0
    proceed.set()
    eventually(lambda: len(queue) == 2)


def test_callbacks_may_attach_remove_and_read(rig: Rig):
    frames, queue, late = Frames(), WorkQueue(), WorkQueue()
    rig.serve([Json(pod_list(1))], [frames]).synced()
    handles = []

    def requests(obj):
        if not handles:
            handles.append(rig.pods.enqueue_to(late, lambda obj: [Request(obj.name)]))
            handles.append(rig.pods.add_handler())
            handles[1].remove()
        return [Request(obj.name)]

    rig.pods.enqueue_to(queue, requests)
    frames.send_event(event("ADDED", pod("a", 2)))
    frames.send_event(event("ADDED", pod("b", 3)))
    eventually(lambda: len(queue) == 2 and len(late) == 2)
    assert rig.pods.parts[0].engine.handler_count == 2


def test_a_transform_and_an_index_function_read_the_informer(server):
    states = []
    factory = InformerFactory(Client(server.url), options=ReflectorOptions(watch_list=False))

    def transform(obj):
        states.append(read(pods)[1])
        return obj

    def index(obj):
        states.append(read(pods)[1])
        return [obj.name]

    pods = factory.informer("v1", "Pod", transform=transform)
    pods.indexer.add_indexers({"name": index})
    frames = Frames()
    serve(server, PODS, [Json(pod_list(1))], [frames])
    with factory:
        assert factory.wait_for_sync(10)
        eventually(lambda: pods.state == "watching")
        frames.send_event(event("ADDED", pod("a", 2)))
        eventually(lambda: pods.lister.by_index("name", "a"))
        assert states == ["watching", "watching"]


def test_namespaces_are_read_while_an_index_function_runs_that_reads_the_informer(server):
    """The union of several indexers has a lock of its own."""
    factory = InformerFactory(Client(server.url), options=ReflectorOptions(watch_list=False))
    pods = factory.informer("v1", "Pod", namespaces=["x", "y"])
    for namespace in "xy":
        body = pod(namespace, 1)
        body["metadata"]["namespace"] = namespace
        serve(server, f"/api/v1/namespaces/{namespace}/pods", [Json(pod_list(2, body))], [Frames()])
    name_lists = []

    def index(obj):
        reader = threading.Thread(target=lambda: name_lists.append(read(pods)[2]))
        reader.start()
        reader.join(20)
        pods.indexer.forget(None)
        return [obj.name]

    with factory:
        assert factory.wait_for_sync(10)
        pods.indexer.add_indexers({"name": index})
        assert len(pods.lister.by_index("name", "y")) == 1
        assert [sorted(names) for names in name_lists] == [["x", "y"]] * 2
