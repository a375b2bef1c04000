"""What a transform of an informer can change, and what it cannot."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from ctrlhost.cache import DeletedFinalStateUnknown, Object, SharedInformer
from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import WorkQueue
from tests.support.shared_informers import named, pod, queued, relist, watch

behaviour = pytest.mark.behaviour


def without(*names: str) -> Callable[[dict[str, Any]], None]:
    def change(metadata: dict[str, Any]) -> None:
        for name in names:
            metadata.pop(name, None)

    return change


@behaviour("findings/FQ11")
@pytest.mark.parametrize(
    "change",
    [
        without("resourceVersion"),
        without("uid"),
        without("namespace"),
        without("resourceVersion", "uid", "namespace", "labels"),
        lambda metadata: metadata.update(resourceVersion="999"),
        lambda metadata: metadata.update(uid="other", resourceVersion=7),
        lambda metadata: metadata.update(namespace="other", name="other"),
    ],
)
def test_a_transform_changes_neither_position_nor_identity_nor_key(change: Callable[[dict[str, Any]], None]) -> None:
    calls: list[str] = []

    def transform(obj: Object) -> dict[str, Any]:
        calls.append(obj.resource_version)
        changed: dict[str, Any] = obj.to_dict()
        change(changed["metadata"])
        return changed | {"spec": {"transformed": True}}

    def held() -> list[tuple[str, str, str, str, str]]:
        objects = sorted(informer.indexer.list(), key=lambda obj: obj.key)
        assert all(obj["spec"] == {"transformed": True} for obj in objects)
        assert all(informer.indexer.get_by_key(obj.key) == obj for obj in objects)
        assert all(obj["metadata"]["resourceVersion"] == obj.resource_version for obj in objects)
        return [(obj.key, obj.namespace, obj.name, obj.uid, obj.resource_version) for obj in objects]

    informer = SharedInformer("pods", "v1", "Pod", transform=transform)
    queue = WorkQueue()
    informer.enqueue_to(queue)
    relist(informer, pod("a", 1), pod("b", 2), version=2)
    assert held() == [("ns/a", "ns", "a", "uid-a", "1"), ("ns/b", "ns", "b", "uid-b", "2")]
    assert {entry[:2] for entry in queued(queue)} == {("a", "ns"), ("b", "ns")}
    watch(informer, "MODIFIED", pod("a", 3))
    watch(informer, "ADDED", pod("c", 4, labels={"app": "c"}))
    assert [entry[0] for entry in queued(queue)] == ["a", "c"]
    assert informer.last_resource_version == "4"
    watch(informer, "DELETED", pod("b", 5))
    assert held() == [("ns/a", "ns", "a", "uid-a", "3"), ("ns/c", "ns", "c", "uid-c", "4")]
    # The watch is opened again from here.
    assert informer.feed_watch(b"").resource_version == "5"
    assert informer.last_resource_version == informer.indexer.resource_version == "5"
    # A list of the same states is recognized, so nothing is transformed or enqueued again but what is new.
    assert {entry[0] for entry in queued(queue)} == {"b"}
    calls.clear()
    relist(informer, pod("a", 3), pod("c", 6, labels={"app": "c"}), version=6)
    assert calls == ["6"]
    assert [entry[0] for entry in queued(queue)] == ["c"]


@behaviour("findings/FQ11")
def test_other_metadata_may_be_transformed() -> None:
    def transform(obj: Object) -> dict[str, Any]:
        changed: dict[str, Any] = obj.to_dict()
        changed["metadata"] = {"name": obj.name, "labels": {"of": obj.uid}}
        return changed

    informer = SharedInformer("pods", "v1", "Pod", transform=transform)
    relist(informer, pod("a", 1, annotations={"x": "y"}))
    (obj,) = informer.indexer.list()
    identity = {"name": "a", "namespace": "ns", "uid": "uid-a", "resourceVersion": "1"}
    assert obj["metadata"].to_dict() == identity | {"labels": {"of": "uid-a"}}
    assert dict(obj.labels) == {"of": "uid-a"}


@behaviour("informers/CT5")
@behaviour("informers/SI8")
def test_handlers_and_store_see_only_transformed_objects() -> None:
    def transform(obj: Object) -> dict[str, Any]:
        return obj.to_dict() | {"spec": {"transformed": True}}

    informer = SharedInformer("pods", "v1", "Pod", transform=transform)
    listener = informer.add_listener()

    def held() -> list[str]:
        objects = informer.indexer.list()
        assert all(obj["spec"] == {"transformed": True} for obj in objects)
        return sorted(named(obj) for obj in objects)

    # pod1 changes twice before the first notification.
    informer.begin_list()
    watch(informer, "ADDED", *(pod("pod1", version) for version in (1, 2, 3)), process=False)
    informer.replace("3")
    informer.process()
    stored = [held()]
    for kind, obj in (
        ("ADDED", pod("pod2", 4)),
        ("MODIFIED", pod("pod2", 5)),
        ("DELETED", pod("pod2", 6)),
        ("MODIFIED", pod("pod1", 7)),
    ):
        watch(informer, kind, obj)
        stored.append(held())
    relist(informer, version=8)
    stored.append(held())
    assert stored == [["pod13"], ["pod13", "pod24"], ["pod13", "pod25"], ["pod13"], ["pod17"], []]
    batch = listener.next(0)
    received = []
    for kind, old, new, _ in batch:
        states = [state.object if isinstance(state, DeletedFinalStateUnknown) else state for state in (old, new)]
        assert all(obj is None or obj["spec"] == {"transformed": True} for obj in states)
        received.append((kind, *(named(obj) for obj in states if obj is not None)))
    assert received == [
        ("add", "pod13"),
        ("add", "pod24"),
        ("update", "pod24", "pod25"),
        ("delete", "pod26"),
        ("update", "pod13", "pod17"),
        ("delete", "pod17"),
    ]


@behaviour("informers/CT6")
def test_nothing_is_transformed_twice() -> None:
    clock = ManualClock()

    def transform(obj: Object) -> dict[str, Any]:
        if obj.get("transformed"):
            raise AssertionError
        return obj.to_dict() | {"transformed": True}

    informer = SharedInformer("pods", "v1", "Pod", transform=transform, clock=clock, resync=1)
    listener = informer.add_listener()
    untransformed: list[Object] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            untransformed.extend(obj for obj in informer.indexer.list() if not obj.get("transformed"))

    reader = threading.Thread(target=read)
    reader.start()
    for turn in range(1, 30):
        relist(informer, *(pod(name, turn if name == "a" else 1) for name in "abc"), version=turn)
        clock.advance(1)
        assert informer.resync()
        informer.process()
    stop.set()
    reader.join(10)
    assert untransformed == []
    assert informer.stats()["transform_errors"] == 0
    assert all(new["transformed"] for kind, _, new, _ in listener.next(0) if kind != "delete" and new is not None)


def test_a_failing_transform_keeps_the_object_and_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    def transform(obj: Object) -> Object:
        raise LookupError(obj.name)

    informer = SharedInformer("pods", "v1", "Pod", transform=transform)
    relist(informer, pod("a"), pod("b"))
    assert {obj.name for obj in informer.indexer.list()} == {"a", "b"}
    assert informer.stats()["transform_errors"] == 2
    assert len(caplog.records) == 1
