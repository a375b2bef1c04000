from __future__ import annotations

from ctrlhost import predicates
from ctrlhost.informers import Owner
from ctrlhost.request import Request
from ctrlhost.workqueue import WorkQueue
from tests.support.informer_rig import PODS, in_namespace, keys, synced
from tests.support.stub_api_server import (
    Frames,
    Json,
    event,
    pod,
    pod_list,
    serve,
)
from tests.support.waiting import eventually

OWNED = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u", "controller": True}


def test_objects_and_their_owners_reach_queues_without_python(server, factory):
    objects, owners, mapped = WorkQueue(), WorkQueue(), WorkQueue()
    owned = in_namespace("default", "a", 1, ownerReferences=[OWNED])
    serve(server, PODS, [Json(pod_list(1, owned, pod("b", 1)))], [Frames()])
    pods = factory.informer("v1", "Pod")
    handles = [
        pods.enqueue_to(objects),
        pods.enqueue_to(owners, Owner("apps/v1beta1", "ReplicaSet")),
        pods.enqueue_to(mapped, lambda obj: [Request(f"of-{obj.name}")]),
    ]
    synced(factory)
    assert all(handle.has_synced for handle in handles)
    assert keys(objects) == [Request("a", "default"), Request("b", "default")]
    assert keys(owners) == [Request("rs", "default")]
    assert keys(mapped) == [Request("of-a"), Request("of-b")]


def test_a_cluster_scoped_owner_is_recognized_by_its_kind(server, factory):
    node = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u", "controller": False}
    serve(server, PODS, [Json(pod_list(1, in_namespace("default", "a", 1, ownerReferences=[node])))], [Frames()])
    pods, controllers, owners = factory.informer("v1", "Pod"), WorkQueue(), WorkQueue()
    pods.enqueue_to(controllers, Owner("v1", "Node"))
    pods.enqueue_to(owners, Owner("v1", "Node", controller=False))
    synced(factory)
    assert keys(controllers) == []
    assert keys(owners) == [Request("n1")]


def test_predicates_decide_what_is_enqueued(server, factory):
    frames = Frames()
    serve(server, PODS, [Json(pod_list(1, in_namespace("default", "a", 1, generation=1)))], [frames])
    pods, by_generation, by_function = factory.informer("v1", "Pod"), WorkQueue(), WorkQueue()
    wanted = predicates.or_(predicates.generation_changed, predicates.and_(predicates.labels_changed))
    pods.enqueue_to(by_generation, predicates=[wanted])
    pods.enqueue_to(by_function, predicates=[lambda old, new: old is not None])
    synced(factory)
    assert keys(by_generation) == [Request("a", "default")]
    assert keys(by_function) == []
    frames.send_event(event("MODIFIED", in_namespace("default", "a", 2, generation=1)))
    eventually(lambda: pods.last_resource_version == "2")
    assert keys(by_generation) == []
    eventually(lambda: len(by_function) == 1)
    assert keys(by_function) == [Request("a", "default")]
    frames.send_event(event("MODIFIED", in_namespace("default", "a", 3, generation=2)))
    eventually(lambda: pods.last_resource_version == "3")
    assert keys(by_generation) == [Request("a", "default")]


def test_a_late_queue_gets_the_cached_objects_and_a_removed_one_gets_nothing(server, factory):
    frames = Frames()
    serve(server, PODS, [Json(pod_list(1, pod("a", 1)))], [frames])
    pods = factory.informer("v1", "Pod")
    synced(factory)
    queue = WorkQueue()
    handle = pods.enqueue_to(queue)
    assert keys(queue) == [Request("a", "default")]
    handle.remove()
    handle.remove()
    frames.send_event(event("ADDED", pod("b", 2)))
    eventually(lambda: pods.last_resource_version == "2")
    assert keys(queue) == []


def test_first_lists_are_enqueued_after_real_changes(server, factory):
    frames = Frames()
    serve(server, PODS, [Json(pod_list(1, pod("a", 1)))], [frames])
    pods, queue = factory.informer("v1", "Pod"), WorkQueue()
    pods.enqueue_to(queue)
    synced(factory)
    frames.send_event(event("ADDED", pod("b", 2)))
    eventually(lambda: len(queue) == 2)
    assert [queue.get_with_priority(timeout=0) for _ in range(2)] == [
        (Request("b", "default"), 0),
        (Request("a", "default"), -100),
    ]
