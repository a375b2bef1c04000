"""Queues of one informer: the requests produced by each change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from ctrlhost import Request
from ctrlhost._core import CallbackMetrics
from ctrlhost.cache import (
    Object,
    Owner,
    Predicate,
    SharedInformer,
)
from ctrlhost.workqueue import WorkQueue
from tests.support.shared_informers import deliver, pod, queued, relist, watch

behaviour = pytest.mark.behaviour


def test_a_late_queue_gets_the_cached_objects_at_low_priority(informer: SharedInformer) -> None:
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


def test_a_list_of_many_objects_is_queued_in_its_order_and_compared_with_the_next_one(informer: SharedInformer) -> None:
    queue = WorkQueue()
    informer.enqueue_to(queue)
    names = [f"pod-{number * 7919 % 10_007}" for number in range(10_007)]
    relist(informer, *map(pod, names))
    assert [name for name, *_ in queued(queue)] == names
    relist(informer, *(pod(name) for name in names[:6_000]), pod("new"))
    assert sorted(name for name, *_ in queued(queue)) == sorted([*names[6_000:], "new"])
    assert sorted(informer.indexer.list_keys()) == sorted(f"ns/{name}" for name in [*names[:6_000], "new"])


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


def test_a_change_of_owner_enqueues_the_old_owner_too(informer: SharedInformer) -> None:
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


def test_a_map_function_is_called_with_the_old_and_the_new_object(informer: SharedInformer) -> None:
    def by_label(obj: Object) -> Iterable[Request]:
        return [Request(obj.labels["to"], obj.namespace), Request("always")]

    queue = WorkQueue()
    added = informer.enqueue_to(queue, by_label)
    relist(informer)
    watch(informer, "ADDED", pod("p", 1, labels={"to": "x"}))
    # Nothing is called before the thread of the function delivers.
    assert queued(queue) == []
    assert not added.deliver()
    assert queued(queue) == [("x", "ns", 0), ("always", "", 0)]
    watch(informer, "MODIFIED", pod("p", 2, labels={"to": "y"}))
    added.deliver()
    assert queued(queue) == [("x", "ns", 0), ("always", "", 0), ("y", "ns", 0)]
    watch(informer, "DELETED", pod("p", 3, labels={"to": "y"}))
    added.deliver()
    assert queued(queue) == [("y", "ns", 0), ("always", "", 0)]


@behaviour("supervision/IN11")
@pytest.mark.parametrize(
    "result",
    [
        LookupError("broken"),
        SystemExit(0),
        GeneratorExit(),
        ["text"],
        [7],
        7,
        None,
        "",
        "abc",
        [("one", "", ""), (5, "", "")],
    ],
)
def test_a_failing_map_function_is_logged_once_and_others_continue(
    informer: SharedInformer, caplog: pytest.LogCaptureFixture, result: Any
) -> None:
    def broken(_obj: Object) -> Any:
        if isinstance(result, BaseException):
            raise result
        return result

    queue, of_broken, counts = WorkQueue(), WorkQueue(), CallbackMetrics(broken)
    added = informer.enqueue_to(of_broken, counts)
    informer.enqueue_to(queue)
    relist(informer, pod("a"), pod("b"))
    assert not added.deliver()
    assert (counts.calls, counts.errors, len(of_broken)) == (2, 2, 0)
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
def test_predicates_pass_the_changes_they_select(informer: SharedInformer, predicate: Any, passing: set[str]) -> None:
    base = {"generation": 1}
    queue = WorkQueue()
    for name in CHANGES:
        watch(informer, "ADDED", pod(name, 1, **base))
    added = informer.enqueue_to(queue, predicates=[predicate])
    deliver(added)
    queued(queue)
    for name, change in CHANGES.items():
        watch(informer, "MODIFIED", pod(name, 2, **{**base, **change}))
    deliver(added)
    assert {name for name, *_ in queued(queue)} == passing


def test_built_in_predicates_pass_adds_and_deletes_and_can_be_called() -> None:
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


def test_a_failing_predicate_passes_the_change(informer: SharedInformer, caplog: pytest.LogCaptureFixture) -> None:
    def broken(_old: Object | None, _new: Object | None) -> bool:
        raise LookupError

    queue = WorkQueue()
    added = informer.enqueue_to(queue, predicates=[broken])
    relist(informer, pod("a"), pod("b"))
    deliver(added)
    assert len(queued(queue)) == 2
    assert len(caplog.records) == 1
    with pytest.raises(TypeError, match="predicate"):
        informer.enqueue_to(queue, predicates=[7])  # type: ignore[list-item]


def test_a_foreign_queue_gets_requests_through_add_many(informer: SharedInformer) -> None:
    class Queue:
        def __init__(self) -> None:
            self.added: list[tuple[list[Request], int | None]] = []

        def add_many(self, keys: list[Request], *, priority: int | None = None) -> None:
            self.added.append((keys, priority))

    queue = Queue()
    added = informer.enqueue_to(queue)
    relist(informer, pod("a"))
    deliver(added)
    watch(informer, "MODIFIED", pod("a", 2))
    deliver(added)
    assert queue.added == [([Request("a", "ns")], -100), ([Request("a", "ns")], 0)]


def test_a_transform_may_not_process(caplog: pytest.LogCaptureFixture) -> None:
    """The call would wait for itself; everything else is available."""
    seen: list[Any] = []

    def reenter(obj: Object) -> Object:
        seen.append(informer.indexer.get_by_key(obj.key))
        seen.append(informer.stats()["handlers"])
        informer.process()
        return obj

    informer = SharedInformer("pods", "v1", "Pod", transform=reenter)
    queue = WorkQueue()
    informer.enqueue_to(queue)
    relist(informer, pod("a"))
    assert seen == [None, 1]
    assert len(queued(queue)) == 1
    assert "inside its own callback" in caplog.text
