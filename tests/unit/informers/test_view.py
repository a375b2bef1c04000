from __future__ import annotations

import pytest

from ctrlhost import predicates
from ctrlhost.informers.namespace_informer import Scope
from ctrlhost.informers.narrowing import selection_within
from ctrlhost.informers.view import View
from ctrlhost.request import Request
from ctrlhost.workqueue import WorkQueue
from tests.support.informer_rig import PODS, keys, synced
from tests.support.stub_api_server import Failure, Frames, Json, event, pod, pod_list, serve
from tests.support.waiting import eventually


def of(namespace: str, name: str, version: int, **labels: str):
    body = pod(name, version, **labels)
    body["metadata"]["namespace"] = namespace
    return body


THREE = [Json(pod_list(3, of("one", "a", 1, app="x"), of("one", "b", 2), of("two", "a", 3, app="x")))]


def test_a_narrow_informer_shares_the_watch_of_a_wider_one(server, factory):
    frames = Frames()
    serve(server, PODS, THREE, [frames])
    factory.informer("v1", "Pod")
    narrow = factory.informer("v1", "Pod", namespaces=["one"], label_selector="app=x")
    named = factory.informer("v1", "Pod", field_selector="metadata.name=a,metadata.namespace=two")
    narrow.indexer.add_indexers({"app": lambda obj: [obj.labels.get("app", "")]})
    synced(factory)
    assert len(server.requests) == 2 or [request.path for request in server.requests] == [PODS]
    assert [obj.key for obj in narrow.lister.list()] == ["one/a"]
    assert [obj.key for obj in named.lister.list()] == ["two/a"]
    assert narrow.lister.get("a", "one").name == "a"
    assert narrow.lister.get("b", "one") is None
    assert narrow.lister.list("two") == []
    assert [pod.key for pod in narrow.lister.by_index("app", "x")] == ["one/a"]
    assert (narrow.indexer.list_keys(), len(narrow.indexer), narrow.status().objects) == (["one/a"], 1, 1)
    assert narrow.indexer.list_index_func_values("app") == ["x"]
    assert narrow.has_synced


def test_handlers_of_a_view_see_only_the_selected_objects(server, factory):
    frames = Frames()
    serve(server, PODS, THREE, [frames])
    factory.informer("v1", "Pod")
    narrow = factory.informer("v1", "Pod", label_selector="app=x")
    notifications: list[tuple[str, str]] = []
    narrow.add_handler(
        lambda obj, initial: notifications.append(("add", obj.key)),
        lambda old, new: notifications.append(("update", new.key)),
        lambda obj: notifications.append(("delete", obj.key)),
    )
    every, relabelled = WorkQueue(), WorkQueue()
    narrow.enqueue_to(every)
    narrow.enqueue_to(relabelled, predicates=[predicates.generation_changed])
    synced(factory)
    assert keys(every) == keys(relabelled) == [Request("a", "one"), Request("a", "two")]
    for frame in (of("one", "b", 4, app="x"), of("one", "a", 5), of("two", "a", 6, app="x"), of("two", "c", 7)):
        frames.send_event(event("MODIFIED", frame))
        version = frame["metadata"]["resourceVersion"]
        eventually(lambda version=version: narrow.last_resource_version == version)
    assert keys(every) == [Request("a", "one"), Request("a", "two"), Request("b", "one")]
    # An object that enters or leaves the selection has no old or new state; the built-in predicates pass it.
    assert keys(relabelled) == [Request("a", "one"), Request("b", "one")]
    eventually(lambda: len(notifications) == 5)
    assert sorted(notifications[:2]) == [("add", "one/a"), ("add", "two/a")]
    assert notifications[2:] == [("add", "one/b"), ("delete", "one/a"), ("update", "two/a")]


def test_a_view_keeps_its_wider_informer_alive_and_other_users_keep_it_running(server, factory):
    frames = Frames()
    serve(server, PODS, THREE, [frames])
    wide = factory.informer("v1", "Pod")
    narrow = factory.informer("v1", "Pod", namespaces=["one"])
    synced(factory)
    assert frames.opened.wait(10)
    wide.release()
    assert narrow.state in ("listing", "watching")
    narrow.release()
    assert frames.closed.wait(10)
    assert factory.informers() == []

    serve(server, PODS, THREE, [Frames()])
    wide = factory.informer("v1", "Pod")
    queue = WorkQueue()
    narrow = factory.informer("v1", "Pod", namespaces=["one"])
    narrow.enqueue_to(queue)
    narrow.release()
    synced(factory)
    assert wide.has_synced
    assert narrow.state == "stopped"
    assert len(queue) == 0


def test_a_declared_wider_informer_is_used_even_if_requested_later(server, factory):
    serve(server, PODS, THREE, [Frames()])
    factory.declare("v1", "Pod", reads=["spec"])
    factory.declare("v1", "Pod", namespaces=["one"], reads=["status"])
    narrow = factory.informer("v1", "Pod", namespaces=["one"], reads=["status"])
    wide = factory.informer("v1", "Pod", reads=["spec"])
    assert isinstance(narrow, View)
    assert narrow.wide is wide
    assert wide.scope.reads == ("spec", "status")
    synced(factory)
    assert {request.path for request in server.requests} == {PODS}


def test_a_wider_scope_that_was_declared_in_vain_is_not_watched(server, factory):
    for owner in ("gone", "stays"):
        factory.declare("v1", "Pod", reads=["spec"] if owner == "gone" else ["status"], owner=owner)
    factory.withdraw("gone")
    first = factory.informer("v1", "Pod", namespaces=["one"], reads="metadata")
    assert isinstance(first, View)
    assert first.wide.scope.reads == ("status",)
    first.release()
    factory.withdraw("stays")
    second = factory.informer("v1", "Pod", namespaces=["one"], reads="metadata")
    assert not isinstance(second, View)
    assert second.scope.reads == "metadata"
    assert factory.informers() == [second]


def test_a_view_within_a_view_has_no_objects_of_other_namespaces(server, factory):
    frames = Frames()
    serve(server, PODS, THREE, [frames])
    factory.informer("v1", "Pod", reads="metadata")
    outer = factory.informer("v1", "Pod", namespaces=["one"], reads="metadata")
    # Keeps more in the first informer, which comes after its view from now on.
    wide = factory.informer("v1", "Pod")
    inner = factory.informer("v1", "Pod", namespaces=["one"], label_selector="app=x", reads="metadata")
    seen: list[str] = []
    inner.add_handler(lambda obj, _initial: seen.append(obj.key))
    synced(factory)
    frames.send_event(event("ADDED", of("two", "d", 4, app="x")))
    frames.send_event(event("ADDED", of("one", "e", 5, app="x")))
    eventually(lambda: "one/e" in seen)
    assert seen == ["one/a", "one/e"]
    assert [view.wide for view in (outer, inner)] == [wide, wide]


def test_a_missing_permission_names_the_wider_informer_that_lacks_it(server, factory):
    denied = Failure(403, "Forbidden", 'pods is forbidden: User "x" cannot list resource "pods"')
    serve(server, PODS, [denied, *THREE], [Frames()])
    factory.informer("v1", "Pod")
    narrow = factory.informer("v1", "Pod", namespaces=["one"])
    factory.start()
    reason = eventually(lambda: narrow.reason)
    assert reason.startswith("no permission to list Pod (v1): pods is forbidden")
    assert reason.endswith(" (for Pod.v1)")
    narrow.wake()
    eventually(lambda: narrow.has_synced and narrow.reason == "")


def test_metrics_count_shared_objects_once(server, factory):
    from prometheus_client import CollectorRegistry

    serve(server, PODS, THREE, [Frames()])
    factory.informer("v1", "Pod")
    factory.informer("v1", "Pod", namespaces=["one"])
    synced(factory)
    registry = CollectorRegistry()
    registry.register(factory.metrics)
    samples = [
        sample
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "ctrlhost_informer_objects"
    ]
    assert [(sample.labels["name"], sample.value) for sample in samples] == [("Pod.v1", 3)]


ALL = Scope("v1", "Pod")


@pytest.mark.parametrize(
    ("wide", "narrow", "covered"),
    [
        (ALL, Scope("v1", "Pod", ("a",)), True),
        (Scope("v1", "Pod", ("a", "b")), Scope("v1", "Pod", ("a",)), True),
        (Scope("v1", "Pod", ("a",)), Scope("v1", "Pod", ("a", "b")), False),
        (Scope("v1", "Pod", ("a",)), ALL, False),
        (ALL, Scope("v1", "Node"), False),
        (ALL, Scope("v2", "Pod"), False),
        (ALL, Scope("v1", "Pod", None, "a=b"), True),
        (ALL, Scope("v1", "Pod", None, "a ~ b"), False),
        (Scope("v1", "Pod", None, "a=b"), Scope("v1", "Pod", ("x",), "a=b"), True),
        (Scope("v1", "Pod", None, "a=b"), Scope("v1", "Pod", ("x",), "a=c"), False),
        (Scope("v1", "Pod", None, "a=b"), ALL, False),
        (ALL, Scope("v1", "Pod", None, None, "metadata.name=x"), True),
        (ALL, Scope("v1", "Pod", None, None, "metadata.name==x,metadata.namespace=y"), True),
        (ALL, Scope("v1", "Pod", None, None, "metadata.name!=x"), False),
        (ALL, Scope("v1", "Pod", None, None, "spec.nodeName=n"), False),
        (Scope("v1", "Pod", None, None, "spec.nodeName=n"), Scope("v1", "Pod", ("a",), None, "spec.nodeName=n"), True),
        (Scope("v1", "Pod", None, None, None, None, len), ALL, False),
        (ALL, Scope("v1", "Pod", None, None, None, None, len), False),
    ],
)
def test_a_wide_selection_covers_a_narrow_one(wide, narrow, covered):
    assert (selection_within(wide, narrow) is not None) is covered


@pytest.mark.behaviour("operations/OP131")
def test_an_informer_that_has_not_started_keeps_more_for_another_user(server, factory):
    frames = Frames()
    specified = of("one", "a", 1, app="x") | {"spec": {"nodeName": "n"}, "status": {"phase": "Running"}}
    serve(server, PODS, [Json(pod_list(3, specified))], [frames])
    seen: list[str] = []
    wide = factory.informer("v1", "Pod", reads="metadata")
    wide.add_handler(lambda obj, _: seen.append(obj.get_path("spec", "nodeName")))
    narrow = factory.informer("v1", "Pod", namespaces=["one"], label_selector="app=x", reads=["spec.nodeName"])
    same = factory.informer("v1", "Pod", reads=["status"])
    assert isinstance(narrow, View)
    assert (narrow.wide, same, wide.scope.reads) == (wide, wide, ("spec.nodeName", "status"))
    assert wide.key == "Pod.v1 reads=spec.nodeName,status"
    synced(factory)
    assert {request.path for request in server.requests} == {PODS}
    # Whole objects come now, of which the parts that somebody reads are kept.
    assert all("PartialObjectMetadata" not in request.headers["accept"] for request in server.requests)
    (obj,) = narrow.lister.list()
    assert (obj.get_path("spec", "nodeName"), obj.get_path("status", "phase")) == ("n", "Running")
    eventually(lambda: seen == ["n"])
    # One that has started stays as it is.
    later = factory.informer("v1", "Pod", reads=["spec"])
    assert later is not wide
    assert later.beside == (wide.key,)
    for informer in (wide, narrow, same, later):
        informer.release()
    assert factory.informers() == []
