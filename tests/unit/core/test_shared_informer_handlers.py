"""Handlers of one informer: resyncs, sync state, and adding and removing them."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from ctrlhost.cache import (
    Closed,
    SharedInformer,
)
from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import WorkQueue
from tests.support.shared_informers import delivered, pod, queued, relist, watch

behaviour = pytest.mark.behaviour


@behaviour("informers/SI1")
@behaviour("informers/SI2")
@pytest.mark.parametrize("late", [False, True])
def test_each_handler_is_resynced_at_its_own_period(clock: ManualClock, late: bool) -> None:
    """SI2: no notification is taken in the first second."""
    informer = SharedInformer("pods", "v1", "Pod", clock=clock, resync=1)
    listeners = [informer.add_listener(resync=period) for period in (0, 2, 3)]
    relist(informer, pod("a", 1), pod("b", 2))

    def initial() -> None:
        for listener in listeners:
            assert sorted(delivered(listener)) == [("add", "a1", True), ("add", "b2", True)]

    if not late:
        initial()
    both = [("update", "a1", "a1"), ("update", "b2", "b2")]
    expected: dict[int, list[list[Any]]] = {1: [[], [], []], 2: [[], both, []], 3: [[], [], both]}
    for second, changes in expected.items():
        clock.advance(1)
        informer.resync()
        informer.process()
        if late and second == 1:
            initial()
        assert [sorted(delivered(listener)) for listener in listeners] == changes, second


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


@behaviour("informers/SI3")
@behaviour("findings/FT1")
def test_each_handler_keeps_its_own_period_when_a_later_one_shortens_the_check(clock: ManualClock) -> None:
    informer = SharedInformer("pods", "v1", "Pod", clock=clock, resync=12 * 3600)
    periods = (0, 60, 55, 5)
    listeners = [informer.add_listener(resync=period) for period in periods]
    relist(informer, pod("a", 1))
    for listener in listeners:
        delivered(listener)
    resyncs = [0] * len(listeners)
    for _ in range(660 // 5):
        clock.advance(informer.resync_check_period)
        informer.resync()
        informer.process()
        for number, listener in enumerate(listeners):
            resyncs[number] += len(delivered(listener))
    # The handler without a period gets none.
    assert resyncs == [0, 660 // 60, 660 // 55, 660 // 5]


@behaviour("informers/SI5")
def test_changes_in_a_watch_gap_reach_all_handlers_and_resyncs_only_some(clock: ManualClock) -> None:
    informer = SharedInformer("pods", "v1", "Pod", clock=clock, resync=1)
    without, resyncing = informer.add_listener(resync=0), informer.add_listener(resync=1)
    relist(informer, pod("pod1", 1), pod("pod2", 1))
    clock.advance(1)
    assert informer.resync()
    informer.process()
    delivered(without)
    delivered(resyncing)
    relist(informer, pod("pod1", 1), pod("pod2", 2), pod("pod3", 3), version=3)
    changed = [("add", "pod33", False), ("update", "pod21", "pod22")]
    assert sorted(delivered(without)) == changed
    assert sorted(delivered(resyncing)) == changed
    clock.advance(1)
    assert informer.resync()
    informer.process()
    assert delivered(without) == []
    assert {new for _, _, new in delivered(resyncing)} == {"pod11", "pod22", "pod33"}


@behaviour("informers/SI9")
@behaviour("informers/SI12")
def test_handlers_are_counted_and_may_be_removed_twice(informer: SharedInformer) -> None:
    first, second = informer.add_listener(), informer.enqueue_to(WorkQueue())
    counts = [informer.handler_count]
    for handle in (second, first, first, second):
        informer.remove_handler(handle)
        counts.append(informer.handler_count)
    assert counts == [2, 1, 0, 0, 0]
    with pytest.raises(TypeError, match="handle"):
        informer.remove_handler("nothing")  # type: ignore[arg-type]


@behaviour("informers/SI10")
def test_a_handle_of_another_informer_changes_nothing() -> None:
    first, second = (SharedInformer("pods", "v1", "Pod") for _ in range(2))
    listener = first.add_listener()
    handle = first.enqueue_to(WorkQueue())
    second.add_listener()
    second.remove_handler(listener)
    second.remove_handler(handle)
    assert (first.handler_count, second.handler_count) == (2, 1)
    relist(first, pod("a"))
    assert delivered(listener) == [("add", "a1", True)]


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
def test_handlers_are_added_and_removed_while_events_arrive() -> None:
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

    workers = [threading.Thread(target=churn) for _ in range(100)]
    for worker in workers:
        worker.start()
    # A hundred events per feed: each call waits until the hundred threads let it have the interpreter.
    for first in range(2, 10_002, 100):
        pods = (pod(f"p{version % 20}", version) for version in range(first, first + 100))
        informer.feed_watch(b"".join(json.dumps({"type": "MODIFIED", "object": obj}).encode() + b"\n" for obj in pods))
        informer.process()
    informer.stop()
    for worker in workers:
        worker.join(30)
    assert failures == []


@behaviour("informers/SI14")
@behaviour("informers/SI15")
@behaviour("informers/SI16")
def test_a_stopped_informer_refuses_handlers(informer: SharedInformer) -> None:
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
def test_a_removed_handler_is_no_longer_notified(informer: SharedInformer) -> None:
    listener, queue = informer.add_listener(), WorkQueue()
    handle = informer.enqueue_to(queue)
    relist(informer, pod("pod1"))
    assert delivered(listener) == [("add", "pod11", True)]
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
def test_a_late_handler_is_synced_after_the_existing_objects(informer: SharedInformer) -> None:
    early = informer.add_listener()
    relist(informer, pod("pod1"))
    assert delivered(early) == [("add", "pod11", True)]
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
    assert delivered(early) == delivered(late) == [("add", "pod22", False)]
    assert late.has_synced


def test_a_handler_is_not_synced_before_the_informer_is(informer: SharedInformer) -> None:
    listener = informer.add_listener()
    watch(informer, "ADDED", pod("x"), process=False)
    assert not listener.has_synced
    informer.begin_list()
    informer.feed_list(b'{"items":[')
    assert not informer.has_synced


@behaviour("informers/CT12")
def test_a_slow_handler_delays_neither_the_informer_nor_others(informer: SharedInformer) -> None:
    slow, fast = informer.add_listener(), informer.add_listener()
    relist(informer)
    watch(informer, "ADDED", pod("a"))
    assert slow.next(0)
    for version in range(2, 1002):
        watch(informer, "MODIFIED", pod("a", version))
    assert len(delivered(fast)) == 1001
    # One is for those that are being handled.
    assert slow.pending == 1000 + 1
    assert len(slow.next(0, max_items=10)) == 10
    assert slow.pending == 990 + 1
    slow.close()
    assert informer.handler_count == 1


def test_a_listener_waits_for_the_next_change(informer: SharedInformer) -> None:
    relist(informer)
    listener = informer.add_listener()
    received: list[Any] = []
    thread = threading.Thread(target=lambda: received.extend(listener.next(timeout=10)))
    thread.start()
    watch(informer, "ADDED", pod("a"))
    thread.join(10)
    assert [(kind, new.name) for kind, _, new, _ in received] == [("add", "a")]


class Finalized:
    """A limiter that calls its informer when it is freed."""

    def __init__(self, informer: SharedInformer, counts: list[int]) -> None:
        self.informer, self.counts = informer, counts

    def when(self, _: Any) -> float:
        return 0.0

    def forget(self, _: Any) -> None: ...

    def num_requeues(self, _: Any) -> int:
        return 0

    def __del__(self) -> None:
        self.counts.append(self.informer.handler_count)


@behaviour("findings/FQ9")
def test_the_end_of_a_handler_may_call_its_informer(informer: SharedInformer) -> None:
    counts: list[int] = []
    for _ in range(3):
        informer.remove_handler(informer.enqueue_to(WorkQueue(rate_limiter=Finalized(informer, counts))))
    informer.enqueue_to(WorkQueue(rate_limiter=Finalized(informer, counts)))
    informer.stop()
    assert counts == [0] * 4


def test_a_first_list_of_objects_that_are_known_already_syncs(informer: SharedInformer) -> None:
    informer.indexer.add(pod("a", 1))
    listener = informer.add_listener()
    relist(informer, pod("a", 1), pod("b", 1))
    assert informer.has_synced
    assert delivered(listener) == [("add", "a1", True), ("add", "b1", True)]
