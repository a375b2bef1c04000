from __future__ import annotations

import pytest

import ctrlhost
from ctrlhost.request import Request
from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import WorkQueue
from tests.support.informer_rig import PODS, Rig, in_namespace, keys, synced
from tests.support.stub_api_server import (
    Answer,
    Computed,
    Failure,
    Frames,
    Json,
    ReceivedRequest,
    StubApiServer,
    bookmark,
    event,
    pod,
    pod_list,
    serve,
)
from tests.support.waiting import eventually


@pytest.mark.behaviour("informers/WT5")
def test_informers_have_unique_names_that_are_reused_after_they_stop(factory):
    same = [factory.informer("v1", "Pod", transform=lambda obj: obj) for _ in range(3)]
    assert [informer.key for informer in same] == [
        "Pod.v1 transformed",
        "Pod.v1 transformed #2",
        "Pod.v1 transformed #3",
    ]
    same[1].release()
    assert factory.informer("v1", "Pod", transform=lambda obj: obj).key == "Pod.v1 transformed #2"


def test_only_equal_requests_share_one_informer(factory):
    pods = factory.informer("v1", "Pod")
    assert factory.informer("v1", "Pod", label_selector="") is pods
    both = factory.informer("v1", "Pod", namespaces=["b", "a"])
    assert factory.informer("v1", "Pod", namespaces=("a", "b", "a")) is both
    others = [
        factory.informer("v1", "Pod", namespaces=["a"]),
        factory.informer("v1", "Pod", label_selector="a=b"),
        factory.informer("v1", "Pod", field_selector="spec.nodeName=n"),
        factory.informer("v1", "Pod", transform=lambda obj: obj),
        factory.informer("v1", "Node"),
    ]
    assert len({id(informer) for informer in [pods, *others]}) == 6
    assert len({informer.key for informer in [pods, *others]}) == 6
    with pytest.raises(TypeError, match="a sequence of names"):
        factory.informer("v1", "Pod", namespaces="default")


def test_the_last_release_stops_the_informer(server, factory):
    frames = Frames()
    serve(server, PODS, [Json(pod_list(1, pod("a", 1)))], [frames])
    first, second = factory.informer("v1", "Pod"), factory.informer("v1", "Pod")
    synced(factory)
    assert frames.opened.wait(10)
    eventually(lambda: first.state == "watching")
    first.release()
    assert first.state == "watching"
    assert second.users == 1
    second.release()
    assert frames.closed.wait(10)
    assert second.state == "stopped"
    second.release()
    fresh = factory.informer("v1", "Pod")
    assert fresh is not first
    serve(server, PODS, [Json(pod_list(1, pod("a", 1)))], [Frames()])
    synced(factory)
    assert [obj.name for obj in fresh.lister.list()] == ["a"]


def test_an_informer_keeps_the_fields_that_all_its_users_declared(factory):
    factory.declare("v1", "Pod", reads=["spec.nodeName"])
    factory.declare("v1", "Pod", reads="metadata")
    pods = factory.informer("v1", "Pod", reads=["status"])
    assert pods.scope.reads == ("spec.nodeName", "status")
    assert factory.informer("v1", "Pod", reads="metadata") is pods
    assert factory.informer("v1", "Pod", reads=["status"]) is pods
    # One that has started does not change any more.
    factory.start()
    whole = factory.informer("v1", "Pod")
    assert whole is not pods
    assert factory.informer("v1", "Pod", reads=["spec"]) is whole


def test_only_metadata_is_requested_and_kept_if_no_user_reads_more(server, factory):
    def answer(request: ReceivedRequest) -> Answer:
        if request.query.get("watch"):
            return Frames()
        metadata = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        media = "application/vnd.kubernetes.protobuf", "application/json"
        assert request.headers["accept"] == ",".join(
            (*(media_type + metadata for media_type in media), "application/json")
        )
        return Json(pod_list(1, pod("a", 1, app="x")))

    server.on("GET", PODS, Computed(answer))
    pods = factory.informer("v1", "Pod", reads="metadata")
    synced(factory)
    (obj,) = pods.lister.list(label_selector="app=x")
    assert obj.partial
    assert (obj.kind, obj.name) == ("Pod", "a")


def test_partial_metadata_objects_get_the_kind_they_represent(server, factory):
    meta = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "1"}}
    item = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": pod("a", 1)["metadata"]}
    later = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": pod("b", 2)["metadata"]}
    serve(server, PODS, [Json({**meta, "items": [item]})], [Frames({"type": "ADDED", "object": later})])
    pods = factory.informer("v1", "Pod", reads="metadata")
    synced(factory)
    eventually(lambda: len(pods.lister.list()) == 2)
    assert {(obj.api_version, obj.kind, obj.name) for obj in pods.lister.list()} == {
        ("v1", "Pod", "a"),
        ("v1", "Pod", "b"),
    }


def test_several_namespaces_are_watched_separately_and_read_together(server, factory):
    frames = Frames()
    first, second = "/api/v1/namespaces/one/pods", "/api/v1/namespaces/two/pods"
    serve(server, first, [Json(pod_list(5, in_namespace("one", "a", 1)))], [frames])
    serve(server, second, [Json(pod_list(7, in_namespace("two", "a", 2), in_namespace("two", "b", 3)))], [Frames()])
    pods = factory.informer("v1", "Pod", namespaces=["one", "two"])
    pods.indexer.add_indexers({"node": lambda obj: [obj.get_path("spec", "nodeName")]})
    queue = WorkQueue()
    pods.enqueue_to(queue)
    found_keys = []
    handle = pods.add_handler(lambda obj, initial: found_keys.append(obj.key))
    synced(factory)
    eventually(lambda: handle.has_synced)
    assert sorted(found_keys) == ["one/a", "two/a", "two/b"]
    assert sorted(obj.key for obj in pods.lister.list()) == ["one/a", "two/a", "two/b"]
    assert [pod.key for pod in pods.lister.list("one")] == ["one/a"]
    assert pods.lister.get("b", "two").resource_version == "3"
    assert pods.lister.get("b", "one") is None
    assert sorted(pod.key for pod in pods.lister.by_index("node", "n1")) == ["one/a", "two/a", "two/b"]
    assert keys(queue) == [Request("a", "one"), Request("a", "two"), Request("b", "two")]
    assert pods.last_resource_version == "5"
    assert (len(pods.indexer), sorted(pods.indexer.list_keys())) == (3, ["one/a", "two/a", "two/b"])
    frames.send_event(event("DELETED", in_namespace("one", "a", 9)))
    eventually(lambda: len(pods.indexer) == 2)
    with pytest.raises(KeyError):
        pods.lister.by_index("nope", "x")


def test_an_empty_namespace_list_makes_an_empty_informer(server, factory):
    pods = factory.informer("v1", "Pod", namespaces=[])
    synced(factory)
    assert (pods.lister.list(), pods.state, pods.last_resource_version) == ([], "watching", "")
    assert server.requests == []


def test_selectors_are_sent_to_the_server_and_listers_apply_their_own(server, factory):
    serve(server, PODS, [Json(pod_list(1, pod("a", 1, app="x", tier="1"), pod("b", 1, app="x")))], [Frames()])
    pods = factory.informer("v1", "Pod", label_selector="app=x", field_selector="spec.nodeName=n1")
    synced(factory)
    assert server.requests[0].query["labelSelector"] == "app=x"
    assert server.requests[0].query["fieldSelector"] == "spec.nodeName=n1"
    assert [obj.name for obj in pods.lister.list(label_selector="tier in (1,2)")] == ["a"]
    assert [pod.name for pod in pods.lister.list("default", "!tier")] == ["b"]


def test_stopping_does_not_wait_for_a_server_that_hangs(server, factory):
    serve(server, PODS, [Json(pod_list(1))], [Frames()])
    factory.informer("v1", "Pod")
    synced(factory)
    factory.stop()
    assert factory.informers()[0].state == "stopped"


def test_a_factory_is_a_context_manager(server, client):
    frames = Frames(event("ADDED", pod("a", 1)), bookmark(1, initial_end=True))
    serve(server, PODS, [Failure(500)], [frames])
    factory = ctrlhost.InformerFactory(client)
    pods = factory.informer("v1", "Pod")
    with factory as entered:
        assert entered is factory
        assert factory.wait_for_sync(10)
        assert len(pods.lister.list()) == 1
    assert pods.state == "stopped"


def test_the_state_of_an_informer_is_readable(server):
    clock = ManualClock()
    rig = Rig(server, clock=clock)
    frames = Frames()
    rig.serve([Json(pod_list(5, pod("a", 1), pod("b", 2)))], [frames]).synced()
    try:
        frames.send_event(event("ADDED", pod("c", 6)))
        eventually(lambda: rig.status.events == 1)
        clock.advance(10)
        frames.send_event(bookmark(9))
        eventually(lambda: rig.status.bookmarks == 1)
        clock.advance(5)
        status = rig.pods.status()
        assert (status.state, status.reason, status.has_synced, status.users) == ("watching", "", True, 1)
        assert (status.objects, status.resource_version, status.relists, status.errors) == (3, "9", 0, 0)
        assert (status.last_list_age, status.last_event_age) == (15, 15)
        assert (status.last_bookmark_age, status.last_byte_age) == (5, 5)
        assert status.bytes > 100
    finally:
        rig.stop()


def test_the_metrics_use_upstream_names_where_they_exist(server):
    from prometheus_client import CollectorRegistry

    rig = Rig(server)
    rig.serve(
        [Failure(500, "InternalError"), Json(pod_list(5, pod("a", 1)))], [Frames(event("ADDED", pod("c", 6)))]
    ).start()
    rig.holds(a=1, c=6)
    registry = CollectorRegistry()
    registry.register(rig.factory.metrics)
    try:
        labels = {"name": "Pod.v1", "group": "", "version": "v1", "resource": "pods"}

        def value(name: str, **more: str) -> float | None:
            return registry.get_sample_value(name, {**labels, **more})

        eventually(lambda: value("ctrlhost_informer_state", state="watching") == 1)
        assert value("informer_queued_items") == 0
        assert value("informer_store_resource_version") == 6
        assert value("ctrlhost_informer_objects") == 2
        eventually(lambda: value("ctrlhost_informer_events_total") == 1)
        assert value("ctrlhost_informer_lists_total") == 1
        assert value("ctrlhost_informer_errors_total", error="ServerError") == 1
        assert value("ctrlhost_informer_state", state="waiting") == 0
    finally:
        rig.stop()


def test_a_server_that_is_down_at_the_start_is_found_later():
    away = StubApiServer().start()
    away.stop()
    rig = Rig(away)
    rig.start()
    eventually(lambda: len(rig.errors) >= 3)
    assert (rig.pods.state, "cannot connect" in rig.pods.reason) == ("listing", True)
    back = StubApiServer(port=away.port)
    serve(back, PODS, [Json(pod_list(1, pod("a", 1)))], [Frames()])
    with back:
        rig.holds(a=1)
        rig.stop()
