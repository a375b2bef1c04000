"""The engine of one informer: `ctrlhost.cache.SharedInformer` with its handlers."""

from __future__ import annotations

import itertools
import json
import random
import threading
from collections.abc import Iterable
from typing import Any

import pytest

from ctrlhost import Request
from ctrlhost.cache import (
    Closed,
    DeletedFinalStateUnknown,
    Listener,
    Object,
    Owner,
    Predicate,
    SharedInformer,
)
from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import WorkQueue

behaviour = pytest.mark.behaviour


def pod(name: str, version: int = 1, *, uid: str = "", **metadata: Any) -> dict[str, Any]:
    spec = metadata.pop("spec", {"v": version})
    meta = {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}", "resourceVersion": str(version), **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def relist(informer: SharedInformer, *pods: dict[str, Any], version: int = 1) -> None:
    informer.begin_list()
    body = {"kind": "PodList", "metadata": {"resourceVersion": str(version)}, "items": list(pods)}
    informer.feed_list(json.dumps(body).encode())
    informer.replace(informer.end_page().resource_version)
    informer.process()


def watch(informer: SharedInformer, kind: str, *pods: dict[str, Any], process: bool = True) -> None:
    for obj in pods:
        informer.feed_watch(json.dumps({"type": kind, "object": obj}).encode() + b"\n")
    if process:
        informer.process()


def told(listener: Listener) -> list[tuple[Any, ...]]:
    """What was heard, as `("add", "a1", True)`, `("update", "a1", "a2")`, `("delete", "a2")`, `("gone", "a2")`."""
    heard: list[tuple[Any, ...]] = []
    while batch := listener.next(timeout=0):
        for kind, old, new, initial in batch:
            if kind == "add":
                heard.append(("add", named(new), initial))
            elif kind == "update":
                heard.append(("update", named(old), named(new)))
            elif isinstance(old, DeletedFinalStateUnknown):
                heard.append(("gone", named(old.object)))
            else:
                heard.append(("delete", named(old)))
    return heard


def named(obj: Any) -> str:
    assert isinstance(obj, Object)
    return f"{obj.name}{obj.resource_version}"


def queued(queue: WorkQueue) -> list[tuple[str, str, int]]:
    """What a queue holds, as name, namespace and priority, in the order in which it is handed out."""
    found = []
    while len(queue):
        request, priority = queue.get_with_priority(timeout=0)
        assert isinstance(request, Request)
        found.append((request.name, request.namespace, priority))
        queue.done(request)
    return found


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def informer(clock: ManualClock) -> SharedInformer:
    return SharedInformer("pods", "v1", "Pod", clock=clock)


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
def test_a_relist_tells_the_difference(
    informer: SharedInformer, before: list[tuple[str, int]], after: list[tuple[str, int]], expected: list[Any]
) -> None:
    """Upstream tells of deletions first; with a delta FIFO the list comes in its order and then what vanished, which
    has no order among itself. There is one mode, so nothing to compare as atomic and not.

    What a handler is told of stands in the store already, which a mapping sees in the middle of each event.
    """
    during: list[tuple[str, str | None]] = []

    def look(obj: Object) -> list[tuple[str, str, str]]:
        held = informer.indexer.get(obj)
        during.append((named(obj), None if held is None else named(held)))
        return []

    listener = informer.add_listener()
    if before:
        relist(informer, *(pod(*one) for one in before))
        assert len(told(listener)) == len(before)
    informer.enqueue_to(WorkQueue(), look)
    informer.process()
    during.clear()
    relist(informer, *(pod(*one) for one in after), version=20)
    held = {name: f"{name}{version}" for name, version in after}
    assert {named(obj) for obj in informer.indexer.list()} == set(held.values())
    heard = told(listener)
    vanished = sum(kind == "gone" for kind, *_ in expected)
    assert [*heard[: len(heard) - vanished], *sorted(heard[len(heard) - vanished :])] == expected
    assert [name for name, _ in during] == [name for _, *states in heard for name in states if isinstance(name, str)]
    assert all(now == held.get(name[0]) for name, now in during)
    assert informer.indexer.resource_version == informer.last_resource_version == "20"


@behaviour("informers/CT11")
def test_a_relist_after_the_first_is_not_initial(informer: SharedInformer) -> None:
    listener = informer.add_listener()
    relist(informer, pod("pod1", 1))
    assert told(listener) == [("add", "pod11", True)]
    relist(informer, pod("pod1", 2), pod("pod2", 3), version=3)
    assert sorted(told(listener)) == [("add", "pod23", False), ("update", "pod11", "pod12")]


@behaviour("informers/CT2")
def test_handlers_may_delete_what_they_see_added(informer: SharedInformer) -> None:
    listener = informer.add_listener()
    relist(informer, pod("a", 1), pod("b", 2), pod("c", 3))
    seen = set()
    for _, name, _ in told(listener):
        seen.add(name)
        watch(informer, "DELETED", pod(name[0], 10))
    assert sorted(told(listener)) == [("delete", "a10"), ("delete", "b10"), ("delete", "c10")]
    assert seen == {"a1", "b2", "c3"}
    assert len(informer.indexer) == 0


@behaviour("informers/CT3")
def test_only_transitions_that_happened_are_told(informer: SharedInformer) -> None:
    listener = informer.add_listener()
    relist(informer)
    for name in "abc":
        watch(informer, "ADDED", pod(name, 1), process=name != "b")
        watch(informer, "MODIFIED", pod(name, 2))
        watch(informer, "DELETED", pod(name, 3))
    heard = told(listener)
    assert {one[1:] for one in heard if one[0] == "update"} == {("a1", "a2"), ("b1", "b2"), ("c1", "c2")}
    assert [one for one in heard if one[0] == "delete"] == [("delete", "a3"), ("delete", "b3"), ("delete", "c3")]


@behaviour("informers/CT5")
@behaviour("informers/SI8")
def test_handlers_and_store_see_only_what_the_transform_gave() -> None:
    def transform(obj: Object) -> dict[str, Any]:
        return obj.to_dict() | {"spec": {"transformed": True}}

    informer = SharedInformer("pods", "v1", "Pod", transform=transform)
    listener = informer.add_listener()

    def held() -> list[str]:
        found = informer.indexer.list()
        assert all(obj["spec"] == {"transformed": True} for obj in found)
        return sorted(named(obj) for obj in found)

    # pod1 changes twice before there is anything to tell.
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
    heard = []
    for kind, old, new, _ in batch:
        states = [one.object if isinstance(one, DeletedFinalStateUnknown) else one for one in (old, new)]
        assert all(obj is None or obj["spec"] == {"transformed": True} for obj in states)
        heard.append((kind, *(named(obj) for obj in states if obj is not None)))
    assert heard == [
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


def test_a_transform_that_fails_keeps_the_object_and_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    def transform(obj: Object) -> Object:
        raise LookupError(obj.name)

    informer = SharedInformer("pods", "v1", "Pod", transform=transform)
    relist(informer, pod("a"), pod("b"))
    assert {obj.name for obj in informer.indexer.list()} == {"a", "b"}
    assert informer.stats()["transform_errors"] == 2
    assert len(caplog.records) == 1


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
    """Three writers change what they like; as with a server, a change has its version and its place in the stream
    at once, and each writer then has the informer take what there is.
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


@behaviour("informers/SI1")
@behaviour("informers/SI2")
@pytest.mark.parametrize("late", [False, True])
def test_each_handler_is_resynced_at_its_own_period(clock: ManualClock, late: bool) -> None:
    """SI2: nobody takes what the handlers are told in the first second."""
    informer = SharedInformer("pods", "v1", "Pod", clock=clock, resync=1)
    listeners = [informer.add_listener(resync=period) for period in (0, 2, 3)]
    relist(informer, pod("a", 1), pod("b", 2))

    def initial() -> None:
        for listener in listeners:
            assert sorted(told(listener)) == [("add", "a1", True), ("add", "b2", True)]

    if not late:
        initial()
    both = [("update", "a1", "a1"), ("update", "b2", "b2")]
    expected: dict[int, list[list[Any]]] = {1: [[], [], []], 2: [[], both, []], 3: [[], [], both]}
    for second, heard in expected.items():
        clock.advance(1)
        informer.resync()
        informer.process()
        if late and second == 1:
            initial()
        assert [sorted(told(listener)) for listener in listeners] == heard, second


@behaviour("informers/SI3")
def test_a_shorter_period_before_the_start_shortens_the_check(clock: ManualClock) -> None:
    informer = SharedInformer("pods", "v1", "Pod", clock=clock, resync=12 * 3600)
    periods = [informer.resync_check_period]
    for period in (0, 60, 55, 5):
        informer.add_listener(resync=period)
        periods.append(informer.resync_check_period)
    assert periods == [12 * 3600, 12 * 3600, 60, 55, 5]
    informer.begin_list()
    informer.add_listener(resync=1)
    assert informer.resync_check_period == 5


@behaviour("informers/SI5")
def test_a_gap_in_the_watch_is_told_to_all_and_the_rest_only_to_resyncing_handlers(clock: ManualClock) -> None:
    informer = SharedInformer("pods", "v1", "Pod", clock=clock, resync=1)
    without, resyncing = informer.add_listener(resync=0), informer.add_listener(resync=1)
    relist(informer, pod("pod1", 1), pod("pod2", 1))
    clock.advance(1)
    assert informer.resync()
    informer.process()
    told(without)
    told(resyncing)
    relist(informer, pod("pod1", 1), pod("pod2", 2), pod("pod3", 3), version=3)
    changed = [("add", "pod33", False), ("update", "pod21", "pod22")]
    assert sorted(told(without)) == changed
    assert sorted(told(resyncing)) == changed
    clock.advance(1)
    assert informer.resync()
    informer.process()
    assert told(without) == []
    assert {new for _, _, new in told(resyncing)} == {"pod11", "pod22", "pod33"}


@behaviour("informers/SI9")
@behaviour("informers/SI12")
def test_handlers_are_counted_and_may_be_removed_twice(informer: SharedInformer) -> None:
    one, two = informer.add_listener(), informer.enqueue_to(WorkQueue())
    counts = [informer.handler_count]
    for handle in (two, one, one, two):
        informer.remove_handler(handle)
        counts.append(informer.handler_count)
    assert counts == [2, 1, 0, 0, 0]
    with pytest.raises(TypeError, match="handle"):
        informer.remove_handler("nothing")  # type: ignore[arg-type]


@behaviour("informers/SI10")
def test_a_handle_of_another_informer_changes_nothing() -> None:
    one, two = (SharedInformer("pods", "v1", "Pod") for _ in range(2))
    listener = one.add_listener()
    handle = one.enqueue_to(WorkQueue())
    two.add_listener()
    two.remove_handler(listener)
    two.remove_handler(handle)
    assert (one.handler_count, two.handler_count) == (2, 1)
    relist(one, pod("a"))
    assert told(listener) == [("add", "a1", True)]


@behaviour("informers/SI11")
def test_a_queue_may_be_registered_twice(informer: SharedInformer) -> None:
    queue = WorkQueue()
    handles = [informer.enqueue_to(queue), informer.enqueue_to(queue)]
    assert len(set(handles)) == 2
    informer.remove_handler(handles[0])
    relist(informer, pod("a"))
    assert queued(queue) == [("a", "ns", -100)]


@behaviour("informers/SI4")
@behaviour("informers/SI13")
def test_handlers_come_and_go_while_events_flow() -> None:
    informer = SharedInformer("pods", "v1", "Pod")
    relist(informer, *(pod(f"p{i}") for i in range(20)))
    failures: list[BaseException] = []

    def churn() -> None:
        try:
            while True:
                listener = informer.add_listener()
                seen: dict[str, int] = {}
                batch = listener.next(timeout=5)
                for kind, _, new, initial in batch:
                    assert new is not None
                    if kind == "add":
                        assert initial
                        assert new.name not in seen
                    seen[new.name] = int(new.resource_version)
                assert len(seen) == 20
                informer.remove_handler(listener)
        except Closed as closed:
            if not informer.stopped:
                failures.append(closed)
        except BaseException as error:  # noqa: BLE001 - the test tells of it
            failures.append(error)

    workers = [threading.Thread(target=churn) for _ in range(8)]
    for worker in workers:
        worker.start()
    for version in range(2, 3000):
        watch(informer, "MODIFIED", pod(f"p{version % 20}", version))
    informer.stop()
    for worker in workers:
        worker.join(30)
    assert failures == []


@behaviour("informers/SI14")
@behaviour("informers/SI15")
@behaviour("informers/SI16")
def test_a_stopped_informer_takes_no_handler(informer: SharedInformer) -> None:
    listener = informer.add_listener()
    states = [(informer.started, informer.stopped)]
    relist(informer, pod("a"))
    states.append((informer.started, informer.stopped))
    informer.stop()
    states.append((informer.started, informer.stopped))
    assert states == [(False, False), (True, False), (True, True)]
    for add in (informer.add_listener, lambda: informer.enqueue_to(WorkQueue())):
        with pytest.raises(Closed, match=r"was not added to shared informer because it has stopped already$"):
            add()
    informer.remove_handler(listener)
    with pytest.raises(Closed):
        listener.next(timeout=5)
    informer.stop()


@behaviour("informers/SI17")
def test_a_removed_handler_hears_nothing_more(informer: SharedInformer) -> None:
    listener, queue = informer.add_listener(), WorkQueue()
    handle = informer.enqueue_to(queue)
    relist(informer, pod("pod1"))
    assert told(listener) == [("add", "pod11", True)]
    assert queued(queue) == [("pod1", "ns", -100)]
    informer.remove_handler(listener)
    informer.remove_handler(handle)
    watch(informer, "ADDED", pod("pod2", 2))
    assert listener.closed
    assert listener.pending == 0
    assert len(queue) == 0
    with pytest.raises(Closed):
        listener.next(timeout=0)


@behaviour("informers/SI18")
def test_a_late_handler_is_synced_once_it_handled_what_was_there(informer: SharedInformer) -> None:
    early = informer.add_listener()
    relist(informer, pod("pod1"))
    assert told(early) == [("add", "pod11", True)]
    assert early.has_synced
    late = informer.add_listener()
    assert not late.has_synced
    (notification,) = late.next(timeout=0)
    assert notification[0] == "add"
    assert notification[3]
    assert not late.has_synced
    late.done()
    assert late.has_synced
    watch(informer, "ADDED", pod("pod2", 2))
    assert told(early) == told(late) == [("add", "pod22", False)]
    assert late.has_synced


def test_a_handler_is_not_synced_before_the_informer_is(informer: SharedInformer) -> None:
    listener = informer.add_listener()
    watch(informer, "ADDED", pod("x"), process=False)
    assert not listener.has_synced
    informer.begin_list()
    informer.feed_list(b'{"items":[')
    assert not informer.has_synced


def test_a_late_queue_is_told_of_what_is_cached_with_low_priority(informer: SharedInformer) -> None:
    relist(informer, pod("a"), pod("b"))
    watch(informer, "ADDED", pod("c", 2))
    queue = WorkQueue()
    informer.enqueue_to(queue)
    assert sorted(queued(queue)) == [("a", "ns", -100), ("b", "ns", -100), ("c", "ns", -100)]


def test_real_changes_overtake_the_first_list_and_resyncs(informer: SharedInformer) -> None:
    queue = WorkQueue()
    informer.enqueue_to(queue, priority=5)
    relist(informer, pod("a"), pod("b"))
    watch(informer, "MODIFIED", pod("b", 2))
    assert queued(queue) == [("b", "ns", 5), ("a", "ns", -100)]
    assert informer.resync()
    informer.process()
    assert sorted(queued(queue)) == [("a", "ns", -100), ("b", "ns", -100)]
    watch(informer, "MODIFIED", pod("a", 1))
    assert queued(queue) == [("a", "ns", -100)]
    watch(informer, "DELETED", pod("a", 9))
    assert queued(queue) == [("a", "ns", 5)]


def test_an_unchanged_relist_tells_nobody_and_shares_memory(informer: SharedInformer) -> None:
    listener, queue = informer.add_listener(), WorkQueue()
    informer.enqueue_to(queue)
    relist(informer, pod("a"), pod("b"))
    told(listener)
    queued(queue)
    relist(informer, pod("a"), pod("b"), version=7)
    assert told(listener) == []
    assert len(queue) == 0
    assert informer.stats()["unchanged"] == 2
    assert informer.last_resource_version == "7"


def test_an_object_of_another_uid_is_told_even_at_the_same_version(informer: SharedInformer) -> None:
    listener = informer.add_listener()
    relist(informer, pod("a", 1, uid="one"))
    told(listener)
    relist(informer, pod("a", 1, uid="two"))
    assert told(listener) == [("update", "a1", "a1")]


def test_an_aborted_list_leaves_everything_as_it_was(informer: SharedInformer) -> None:
    listener = informer.add_listener()
    relist(informer, pod("a"), version=4)
    told(listener)
    informer.begin_list()
    informer.feed_list(b'{"items":[{"metadata":{"name":"other"}},')
    assert informer.stats()["staged"] == 1
    informer.abort_list()
    assert informer.stats()["staged"] == 0
    informer.process()
    assert [obj.name for obj in informer.indexer.list()] == ["a"]
    assert told(listener) == []
    assert informer.last_resource_version == "4"


def test_a_list_of_several_pages_is_taken_as_one(informer: SharedInformer) -> None:
    listener = informer.add_listener()
    informer.begin_list()
    for number in range(3):
        items = [pod(f"p{number}{i}") for i in range(2)]
        more = {"continue": "x"} if number < 2 else {}
        informer.feed_list(json.dumps({"metadata": {"resourceVersion": "9", **more}, "items": items}).encode())
        assert informer.end_page().continue_ == ("x" if number < 2 else "")
        informer.process()
        assert told(listener) == []
    informer.replace("9")
    assert informer.process() == 6
    assert len(told(listener)) == 6


def test_a_streaming_list_is_staged_until_it_is_complete(informer: SharedInformer) -> None:
    listener = informer.add_listener()
    relist(informer, pod("gone", 1), pod("same", 1))
    told(listener)
    informer.begin_list()
    watch(informer, "ADDED", pod("new", 5), pod("same", 1), pod("left", 2))
    watch(informer, "MODIFIED", pod("new", 6))
    watch(informer, "DELETED", pod("left", 7))
    assert told(listener) == []
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
    assert sorted(told(listener)) == [("add", "new6", False), ("gone", "gone1")]
    assert informer.last_resource_version == "8"
    watch(informer, "MODIFIED", pod("new", 9))
    assert told(listener) == [("update", "new6", "new9")]


def owned(name: str, version: int, *owners: dict[str, Any]) -> dict[str, Any]:
    return pod(name, version, ownerReferences=list(owners))


def owner(name: str, kind: str = "Deployment", api_version: str = "apps/v1", *, controller: bool = True) -> Any:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": controller}


@pytest.mark.parametrize(
    ("mapping", "references", "expected"),
    [
        (Owner("apps/v1", "Deployment"), [owner("d")], [("d", "ns")]),
        (Owner("apps/v1beta2", "Deployment"), [owner("d")], [("d", "ns")]),
        (Owner("apps/v1", "Deployment"), [owner("d", api_version="extensions/v1beta1")], []),
        (Owner("apps/v1", "Deployment"), [owner("d", api_version="v1")], []),
        (Owner("v1", "Node"), [owner("n", "Node", "v1")], [("n", "ns")]),
        (Owner("v1", "Node", cluster_scoped=True), [owner("n", "Node", "v1")], [("n", "")]),
        (Owner("apps/v1", "Deployment"), [owner("s", "StatefulSet")], []),
        (Owner("apps/v1", "Deployment"), [owner("d", controller=False)], []),
        (
            Owner("apps/v1", "Deployment", controller=False),
            [owner("d", controller=False), owner("e")],
            [("d", "ns"), ("e", "ns")],
        ),
        (Owner("apps/v1", "Deployment", controller=False), [owner("d"), owner("d")], [("d", "ns")]),
        (Owner("apps/v1", "Deployment"), [], []),
        (Owner("apps/v1", "Deployment"), [{"kind": "Deployment", "apiVersion": "apps/v1", "controller": True}], []),
    ],
)
def test_the_owner_is_found_by_group_and_kind(
    informer: SharedInformer, mapping: Owner, references: list[Any], expected: list[tuple[str, str]]
) -> None:
    queue = WorkQueue()
    informer.enqueue_to(queue, mapping)
    relist(informer)
    watch(informer, "ADDED", owned("p", 1, *references))
    assert queued(queue) == [(name, namespace, 0) for name, namespace in expected]


def test_a_change_of_owner_tells_the_old_one_too(informer: SharedInformer) -> None:
    queue = WorkQueue()
    informer.enqueue_to(queue, Owner("apps/v1", "Deployment"))
    relist(informer, owned("p", 1, owner("old")))
    queued(queue)
    watch(informer, "MODIFIED", owned("p", 2, owner("new")))
    assert queued(queue) == [("old", "ns", 0), ("new", "ns", 0)]
    watch(informer, "MODIFIED", owned("p", 3, owner("new")))
    assert queued(queue) == [("new", "ns", 0)]
    relist(informer)
    assert queued(queue) == [("new", "ns", 0)]


def test_a_map_function_is_asked_for_the_old_and_the_new_object(informer: SharedInformer) -> None:
    def by_label(obj: Object) -> Iterable[Request]:
        return [Request(obj.labels["to"], obj.namespace), Request("always")]

    queue = WorkQueue()
    informer.enqueue_to(queue, by_label)
    relist(informer)
    watch(informer, "ADDED", pod("p", 1, labels={"to": "x"}))
    assert queued(queue) == [("x", "ns", 0), ("always", "", 0)]
    watch(informer, "MODIFIED", pod("p", 2, labels={"to": "y"}))
    assert queued(queue) == [("x", "ns", 0), ("always", "", 0), ("y", "ns", 0)]
    watch(informer, "DELETED", pod("p", 3, labels={"to": "y"}))
    assert queued(queue) == [("y", "ns", 0), ("always", "", 0)]


@pytest.mark.parametrize("result", [LookupError("broken"), ["text"], [7], 7])
def test_a_map_function_that_fails_is_logged_once_and_the_others_go_on(
    informer: SharedInformer, caplog: pytest.LogCaptureFixture, result: Any
) -> None:
    def broken(_obj: Object) -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    queue = WorkQueue()
    informer.enqueue_to(WorkQueue(), broken)
    informer.enqueue_to(queue)
    relist(informer, pod("a"), pod("b"))
    assert {name for name, *_ in queued(queue)} == {"a", "b"}
    assert len(caplog.records) == 1
    assert "map function failed for Pod ns/" in caplog.records[0].message


@pytest.mark.parametrize("bad", ["owner", 7])
def test_an_unknown_mapping_is_refused(informer: SharedInformer, bad: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="mapping"):
        informer.enqueue_to(WorkQueue(), bad)


CHANGES = {
    "nothing": {},
    "generation": {"generation": 2},
    "labels": {"labels": {"a": "2"}},
    "annotations": {"annotations": {"a": "2"}},
}


@pytest.mark.parametrize(
    ("predicate", "passing"),
    [
        (Predicate.generation_changed(), {"generation"}),
        (Predicate.labels_changed(), {"labels"}),
        (Predicate.annotations_changed(), {"annotations"}),
        (Predicate.resource_version_changed(), set(CHANGES)),
        (Predicate.any_of(Predicate.generation_changed(), Predicate.labels_changed()), {"generation", "labels"}),
        (Predicate.generation_changed() | Predicate.labels_changed(), {"generation", "labels"}),
        (Predicate.generation_changed() & Predicate.labels_changed(), set()),
        (Predicate.all_of(), set(CHANGES)),
        (Predicate.any_of(), set()),
        (~Predicate.labels_changed(), {"nothing", "generation", "annotations"}),
        (Predicate.negate(lambda _old, new: "a" in new.labels), {"nothing", "generation", "annotations"}),
        (lambda old, new: old is None or new.generation > old.generation, {"generation"}),
    ],
)
def test_predicates_let_through_what_they_say(informer: SharedInformer, predicate: Any, passing: set[str]) -> None:
    base = {"generation": 1}
    queue = WorkQueue()
    for name in CHANGES:
        watch(informer, "ADDED", pod(name, 1, **base))
    informer.enqueue_to(queue, predicates=[predicate])
    queued(queue)
    for name, change in CHANGES.items():
        watch(informer, "MODIFIED", pod(name, 2, **{**base, **change}))
    assert {name for name, *_ in queued(queue)} == passing


def test_ready_made_predicates_pass_adds_and_deletes_and_can_be_called() -> None:
    old, new = Object(pod("a", 1)), Object(pod("a", 2))
    for predicate in (
        Predicate.generation_changed(),
        Predicate.labels_changed(),
        Predicate.annotations_changed(),
        Predicate.resource_version_changed(),
    ):
        assert predicate(None, new)
        assert predicate(old, None)
        assert not (~predicate)(None, new)
    assert Predicate.resource_version_changed()(old, new)
    assert not Predicate.resource_version_changed()(old, old)
    assert not Predicate.labels_changed()(old, new)
    empty = Object({"metadata": {"name": "a", "labels": {}}})
    assert not Predicate.labels_changed()(old, empty)
    turned = Object({"metadata": {"name": "a", "labels": {"x": "1", "y": "2"}}})
    same = Object({"metadata": {"name": "a", "labels": {"y": "2", "x": "1"}}})
    assert not Predicate.labels_changed()(turned, same)
    assert Predicate.labels_changed()(turned, empty)


def test_a_predicate_that_fails_lets_the_change_pass(
    informer: SharedInformer, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_old: Object | None, _new: Object | None) -> bool:
        raise LookupError

    queue = WorkQueue()
    informer.enqueue_to(queue, predicates=[broken])
    relist(informer, pod("a"), pod("b"))
    assert len(queued(queue)) == 2
    assert len(caplog.records) == 1
    with pytest.raises(TypeError, match="predicate"):
        informer.enqueue_to(queue, predicates=[7])  # type: ignore[list-item]


def test_a_queue_that_is_not_ours_gets_requests_through_add_many(informer: SharedInformer) -> None:
    class Queue:
        def __init__(self) -> None:
            self.added: list[tuple[list[Request], int | None]] = []

        def add_many(self, keys: list[Request], *, priority: int | None = None) -> None:
            self.added.append((keys, priority))

    queue = Queue()
    informer.enqueue_to(queue)
    relist(informer, pod("a"))
    watch(informer, "MODIFIED", pod("a", 2))
    assert queue.added == [([Request("a", "ns")], -100), ([Request("a", "ns")], 0)]


def test_a_function_that_comes_back_to_the_informer_that_called_it_is_refused(
    informer: SharedInformer, caplog: pytest.LogCaptureFixture
) -> None:
    """It would wait for itself; the index and what is cached may be read."""
    seen: list[Any] = []

    def come_back(_old: Object | None, new: Object | None) -> bool:
        assert new is not None
        seen.append(informer.indexer.get_by_key(new.key))
        informer.add_listener()
        return False

    queue = WorkQueue()
    informer.enqueue_to(queue, predicates=[come_back])
    relist(informer, pod("a"))
    assert seen == [pod("a")]
    assert len(queued(queue)) == 1
    assert "inside its own callback" in caplog.text
    assert informer.handler_count == 1


@behaviour("informers/CT12")
def test_a_slow_handler_delays_neither_the_informer_nor_others(informer: SharedInformer) -> None:
    slow, fast = informer.add_listener(), informer.add_listener()
    relist(informer)
    watch(informer, "ADDED", pod("a"))
    assert slow.next(0)
    for version in range(2, 1002):
        watch(informer, "MODIFIED", pod("a", version))
    assert len(told(fast)) == 1001
    assert slow.pending == 1000
    assert len(slow.next(0, max_items=10)) == 10
    assert slow.pending == 990
    slow.close()
    assert informer.handler_count == 1


def test_a_listener_waits_for_the_next_change(informer: SharedInformer) -> None:
    relist(informer)
    listener = informer.add_listener()
    heard: list[Any] = []
    thread = threading.Thread(target=lambda: heard.extend(listener.next(timeout=10)))
    thread.start()
    watch(informer, "ADDED", pod("a"))
    thread.join(10)
    assert [(kind, new.name) for kind, _, new, _ in heard] == [("add", "a")]


def test_bad_arguments_are_refused(informer: SharedInformer) -> None:
    with pytest.raises(ValueError, match="reads"):
        SharedInformer("pods", "v1", "Pod", reads="spec")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="path"):
        SharedInformer("pods", "v1", "Pod", reads=[""])
    with pytest.raises(ValueError, match="resync"):
        informer.add_listener(resync=-1)
    with pytest.raises(ValueError, match="resync"):
        SharedInformer("pods", "v1", "Pod", resync=-1)
