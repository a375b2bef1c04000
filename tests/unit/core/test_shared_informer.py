"""The engine of one informer, `ctrlhost.cache.SharedInformer`: lists, watches, store and notifications."""

from __future__ import annotations

import itertools
import json
import random
import threading
from typing import Any

import pytest

from ctrlhost.cache import (
    DeletedFinalStateUnknown,
    Object,
    SharedInformer,
)
from ctrlhost.workqueue import WorkQueue
from tests.support.shared_informers import delivered, named, pod, queued, relist, watch

behaviour = pytest.mark.behaviour


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([], [("a", 1)], [("add", "a1", True)]),
        ([("a", 1), ("c", 3)], [], [("gone", "a1"), ("gone", "c3")]),
        (
            [("a", 1), ("b", 2), ("c", 3)],
            [("a", 11), ("b", 12), ("d", 4)],
            [("update", "a1", "a11"), ("update", "b2", "b12"), ("add", "d4", False), ("gone", "c3")],
        ),
    ],
)
@behaviour("informers/CT10")
def test_a_relist_notifies_the_differences(
    informer: SharedInformer, before: list[tuple[str, int]], after: list[tuple[str, int]], expected: list[Any]
) -> None:
    """Upstream notifies deletions first; with a delta FIFO the listed objects come in order and then the deletions,
    unordered. There is one mode, so atomic and other modes are not compared.

    The store contains a change before handlers are notified, as a mapping sees during each event.
    """
    during: list[tuple[str, str | None]] = []

    def look(obj: Object) -> list[tuple[str, str, str]]:
        held = informer.indexer.get(obj)
        during.append((named(obj), None if held is None else named(held)))
        return []

    listener = informer.add_listener()
    if before:
        relist(informer, *(pod(*item) for item in before))
        assert len(delivered(listener)) == len(before)
    looking = informer.enqueue_to(WorkQueue(), look)
    assert not looking.deliver()
    during.clear()
    relist(informer, *(pod(*item) for item in after), version=20)
    assert not looking.deliver()
    held = {name: f"{name}{version}" for name, version in after}
    assert {named(obj) for obj in informer.indexer.list()} == set(held.values())
    received = delivered(listener)
    deletions = sum(kind == "gone" for kind, *_ in expected)
    assert [
        *received[: len(received) - deletions],
        *sorted(received[len(received) - deletions :]),
    ] == expected
    assert [name for name, _ in during] == [name for _, *states in received for name in states if isinstance(name, str)]
    assert all(now == held.get(name[0]) for name, now in during)
    assert informer.indexer.resource_version == informer.last_resource_version == "20"


@behaviour("informers/CT11")
def test_a_relist_after_the_first_is_not_initial(informer: SharedInformer) -> None:
    listener = informer.add_listener()
    relist(informer, pod("pod1", 1))
    assert delivered(listener) == [("add", "pod11", True)]
    relist(informer, pod("pod1", 2), pod("pod2", 3), version=3)
    assert sorted(delivered(listener)) == [("add", "pod23", False), ("update", "pod11", "pod12")]


@behaviour("informers/CT2")
def test_handlers_may_delete_added_objects(informer: SharedInformer) -> None:
    listener = informer.add_listener()
    relist(informer, pod("a", 1), pod("b", 2), pod("c", 3))
    seen = set()
    for _, name, _ in delivered(listener):
        seen.add(name)
        watch(informer, "DELETED", pod(name[0], 10))
    assert sorted(delivered(listener)) == [("delete", "a10"), ("delete", "b10"), ("delete", "c10")]
    assert seen == {"a1", "b2", "c3"}
    assert len(informer.indexer) == 0


@behaviour("informers/CT3")
def test_only_real_transitions_are_notified(informer: SharedInformer) -> None:
    listener = informer.add_listener()
    relist(informer)
    for name in "abc":
        watch(informer, "ADDED", pod(name, 1), process=name != "b")
        watch(informer, "MODIFIED", pod(name, 2))
        watch(informer, "DELETED", pod(name, 3))
    received = delivered(listener)
    assert {event[1:] for event in received if event[0] == "update"} == {("a1", "a2"), ("b1", "b2"), ("c1", "c2")}
    assert [event for event in received if event[0] == "delete"] == [
        ("delete", "a3"),
        ("delete", "b3"),
        ("delete", "c3"),
    ]


@behaviour("informers/CT7")
@behaviour("informers/CT8")
@behaviour("informers/SI25")
def test_a_tombstone_has_the_key_and_the_name_of_the_object() -> None:
    plain = Object(pod("a"))
    tombstone = DeletedFinalStateUnknown("ns/a", plain)
    assert (tombstone.key, tombstone.namespace, tombstone.name) == (plain.key, plain.namespace, plain.name)
    assert tombstone.object == plain
    without = DeletedFinalStateUnknown("ns/b")
    assert (without.key, without.namespace, without.name, without.object) == ("ns/b", "ns", "b", None)
    empty = DeletedFinalStateUnknown("")
    assert (empty.key, empty.namespace, empty.name, empty.object) == ("", "", "", None)
    assert tombstone == DeletedFinalStateUnknown("ns/a", pod("a"))
    assert tombstone != without


@behaviour("informers/ST23")
def test_the_store_has_the_version_of_each_event(informer: SharedInformer) -> None:
    relist(informer, pod("a", 3), version=5)
    assert informer.indexer.resource_version == "5"
    watch(informer, "MODIFIED", pod("a", 6))
    assert informer.indexer.resource_version == "6"
    watch(informer, "DELETED", pod("a", 8))
    assert informer.indexer.resource_version == "8"


@behaviour("informers/CT1")
def test_random_changes_with_resyncs_end_in_the_state_of_the_server() -> None:
    """Three writers make random changes. As on a server, a change gets its version and its place in the stream
    atomically; each writer then lets the informer process all pending changes.
    """
    informer = SharedInformer("pods", "v1", "Pod", resync=0.0001)
    listener = informer.add_listener()
    assert not informer.has_synced
    relist(informer)
    assert informer.has_synced
    server: dict[str, dict[str, Any]] = {}
    serving = threading.Lock()
    versions = itertools.count(2)
    finished: list[int] = []
    stop = threading.Event()

    def resync() -> None:
        while not stop.is_set():
            informer.resync()

    def write(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(100):
            name = f"p{rng.randrange(20)}"
            with serving:
                obj = pod(name, next(versions))
                if name in server and rng.random() < 0.4:
                    del server[name]
                    kind = "DELETED"
                else:
                    kind = "MODIFIED" if name in server else "ADDED"
                    server[name] = obj
                watch(informer, kind, obj, process=False)
            informer.process()
        finished.append(seed)

    other = threading.Thread(target=resync)
    writers = [threading.Thread(target=write, args=(seed,)) for seed in (5, 6, 7)]
    for thread in (other, *writers):
        thread.start()
    for writer in writers:
        writer.join(30)
    stop.set()
    other.join(10)
    assert sorted(finished) == [5, 6, 7]
    assert not any(thread.is_alive() for thread in (other, *writers))
    assert informer.has_synced
    informer.process()
    assert {obj.name: obj.to_dict() for obj in informer.indexer.list()} == server
    last: dict[str, Any] = {}
    while batch := listener.next(0):
        for kind, old, new, _ in batch:
            obj = old if kind == "delete" else new
            assert isinstance(obj, Object)
            last[obj.name] = None if kind == "delete" else obj.to_dict()
    assert {name: obj for name, obj in last.items() if obj is not None} == server


@behaviour("informers/ST22")
def test_an_index_may_be_added_while_the_informer_runs(informer: SharedInformer) -> None:
    relist(informer, pod("a", 1, labels={"x": "1"}), pod("b", 2, labels={"x": "2"}))
    informer.indexer.add_indexers({"x": "metadata.labels.x"})
    assert informer.indexer.index_keys("x", "1") == ["ns/a"]
    watch(informer, "MODIFIED", pod("a", 3, labels={"x": "2"}))
    assert sorted(informer.indexer.index_keys("x", "2")) == ["ns/a", "ns/b"]
    assert sorted(informer.indexer.list_index_func_values("namespace")) == ["ns"]


def test_an_unchanged_relist_notifies_no_handler_and_shares_memory(informer: SharedInformer) -> None:
    listener, queue = informer.add_listener(), WorkQueue()
    informer.enqueue_to(queue)
    relist(informer, pod("a"), pod("b"))
    delivered(listener)
    queued(queue)
    relist(informer, pod("a"), pod("b"), version=7)
    assert delivered(listener) == []
    assert len(queue) == 0
    assert informer.stats()["unchanged"] == 2
    assert informer.last_resource_version == "7"


def test_an_object_with_another_uid_is_notified_even_at_the_same_version(informer: SharedInformer) -> None:
    listener = informer.add_listener()
    relist(informer, pod("a", 1, uid="one"))
    delivered(listener)
    relist(informer, pod("a", 1, uid="two"))
    assert delivered(listener) == [("update", "a1", "a1")]


def test_an_aborted_list_changes_nothing(informer: SharedInformer) -> None:
    listener = informer.add_listener()
    relist(informer, pod("a"), version=4)
    delivered(listener)
    informer.begin_list()
    informer.feed_list(b'{"items":[{"metadata":{"name":"other"}},')
    assert informer.stats()["staged"] == 1
    informer.abort_list()
    assert informer.stats()["staged"] == 0
    informer.process()
    assert [obj.name for obj in informer.indexer.list()] == ["a"]
    assert delivered(listener) == []
    assert informer.last_resource_version == "4"


def test_a_list_of_several_pages_is_applied_as_one(informer: SharedInformer) -> None:
    listener = informer.add_listener()
    informer.begin_list()
    for number in range(3):
        items = [pod(f"p{number}{i}") for i in range(2)]
        more = {"continue": "x"} if number < 2 else {}
        informer.feed_list(json.dumps({"metadata": {"resourceVersion": "9", **more}, "items": items}).encode())
        assert informer.end_page().continue_ == ("x" if number < 2 else "")
        informer.process()
        assert delivered(listener) == []
    informer.replace("9")
    assert informer.process() == 6
    assert len(delivered(listener)) == 6


def test_a_streaming_list_is_staged_until_it_is_complete(informer: SharedInformer) -> None:
    listener = informer.add_listener()
    relist(informer, pod("gone", 1), pod("same", 1))
    delivered(listener)
    informer.begin_list()
    watch(informer, "ADDED", pod("new", 5), pod("same", 1), pod("left", 2))
    watch(informer, "MODIFIED", pod("new", 6))
    watch(informer, "DELETED", pod("left", 7))
    assert delivered(listener) == []
    assert informer.last_resource_version == "1"
    end = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "8", "annotations": {"k8s.io/initial-events-end": "true"}},
    }
    progress = informer.feed_watch(json.dumps({"type": "BOOKMARK", "object": end}).encode() + b"\n")
    assert progress.initial_events_end
    assert informer.last_resource_version == "1"
    informer.replace(progress.resource_version)
    informer.process()
    assert sorted(delivered(listener)) == [("add", "new6", False), ("gone", "gone1")]
    assert informer.last_resource_version == "8"
    watch(informer, "MODIFIED", pod("new", 9))
    assert delivered(listener) == [("update", "new6", "new9")]


def test_invalid_arguments_are_refused(informer: SharedInformer) -> None:
    with pytest.raises(ValueError, match="reads"):
        SharedInformer("pods", "v1", "Pod", reads="spec")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="path"):
        SharedInformer("pods", "v1", "Pod", reads=[""])
    with pytest.raises(ValueError, match="resync"):
        informer.add_listener(resync=-1)
    with pytest.raises(ValueError, match="resync"):
        SharedInformer("pods", "v1", "Pod", resync=-1)


@behaviour("informers/RE9")
@behaviour("findings/FT1")
def test_events_behind_a_list_are_merged_with_it_until_they_are_processed() -> None:
    informer = SharedInformer("pods", "v1", "Pod")
    listener = informer.add_listener()
    informer.begin_list()
    informer.feed_list(json.dumps({"metadata": {"resourceVersion": "1"}, "items": [pod("foo", 1)]}).encode())
    informer.replace(informer.end_page().resource_version)
    watch(informer, "MODIFIED", pod("foo", 2), process=False)
    watch(informer, "ADDED", pod("bar", 3), pod("baz", 4), pod("qux", 5), pod("zoo", 6), process=False)
    informer.process()
    events = delivered(listener)
    foo = [event for event in events if "foo" in event[1]]
    # All changes of the first key come first, up to the newest.
    assert events[: len(foo)] == foo
    assert "foo2" in foo[-1]
    assert events[len(foo) :] == [("add", name, False) for name in ("bar3", "baz4", "qux5", "zoo6")]
