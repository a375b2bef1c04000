"""Handlers that are removed: from callbacks, from other threads, and again after a removal that raised."""

from __future__ import annotations

import _thread
import json
import threading

import pytest

from ctrlhost.informers.caller import Caller
from ctrlhost.informers.handle import Handle
from ctrlhost.request import Request
from ctrlhost.workqueue import WorkQueue
from tests.support.informer_rig import Rig, keys
from tests.support.stub_api_server import Frames, Json, event, pod, pod_list
from tests.support.waiting import eventually

pytestmark = pytest.mark.behaviour("findings/FQ9")


@pytest.fixture
def frames(rig: Rig) -> Frames:
    """Return the stream of an informer whose first list is empty."""
    frames = Frames()
    rig.serve([Json(pod_list(1))], [frames]).synced()
    return frames


class Target:
    """A handler of one kind that records what it hears, and does something at the pod `trigger`."""

    def __init__(self, rig: Rig, kind: str, at_trigger=lambda: None):
        self.heard: list[str] = []
        self.at_trigger = at_trigger
        self.queue = WorkQueue()
        self.handle = {
            "handler": lambda: rig.pods.add_handler(on_add=lambda obj, _: self.hear(obj)),
            "filter": lambda: rig.pods.add_handler(on_add=lambda obj, _: self.heard.append(obj.name), filter=self.hear),
            "map": lambda: rig.pods.enqueue_to(self.queue, self.requests),
            "predicate": lambda: rig.pods.enqueue_to(self.queue, predicates=[lambda _, obj: self.hear(obj)]),
            "native": lambda: rig.pods.enqueue_to(self.queue),
        }[kind]()

    def hear(self, obj) -> bool:
        self.heard.append(obj.name)
        if obj.name == "trigger":
            self.at_trigger()
        return True

    def requests(self, obj):
        self.hear(obj)
        return [Request(obj.name)]


def together(*pods: dict[str, object]) -> bytes:
    return b"".join(json.dumps(event("ADDED", pod)).encode() + b"\n" for pod in pods)


@pytest.mark.parametrize("removed", ["handler", "filter", "map", "predicate", "native"])
@pytest.mark.parametrize("remover", ["handler", "filter", "map", "predicate"])
def test_a_handler_removed_from_a_callback_of_another_one_hears_nothing_more(rig, frames, remover, removed):
    target = Target(rig, removed)
    after = []

    def remove():
        target.handle.remove()
        after.append((list(target.heard), len(target.queue)))

    other, witness = Target(rig, remover, remove), Target(rig, "handler")
    frames.send_event(event("ADDED", pod("trigger", 2)))
    eventually(lambda: after)
    for number in range(3, 20):
        frames.send_event(event("ADDED", pod(f"later-{number}", number)))
    eventually(lambda: "later-19" in witness.heard and "later-19" in other.heard)
    assert (list(target.heard), len(target.queue)) == after[0]
    assert not target.handle.active


@pytest.mark.parametrize("kind", ["handler", "filter", "map", "predicate"])
def test_a_handler_that_removes_itself_hears_nothing_after_this_call(rig, frames, kind):
    target = Target(rig, kind, lambda: target.handle.remove(wait=True))
    witness = Target(rig, "handler")
    # In one batch with others: not even the rest of the batch is delivered.
    frames.send_bytes(together(pod("before", 2), pod("trigger", 3), *(pod(f"later-{n}", n) for n in range(4, 20))))
    eventually(lambda: "later-19" in witness.heard)
    assert target.heard == (["before", "trigger"] if kind != "filter" else ["before", "before", "trigger"])
    assert keys(target.queue) == (
        [Request("before", "default")] if kind == "predicate" else [Request("before")] if kind == "map" else []
    )
    assert not target.handle.active


def test_a_map_that_removes_itself_is_not_called_for_the_new_state_of_the_same_change(rig, frames):
    heard = []

    def requests(obj):
        heard.append(obj.resource_version)
        if heard[-1] == "2" and len(heard) > 1:
            handle.remove()
        return [Request(obj.name)]

    queue = WorkQueue()
    handle = rig.pods.enqueue_to(queue, requests)
    frames.send_event(event("ADDED", pod("a", 2)))
    eventually(lambda: heard)
    eventually(lambda: keys(queue))
    frames.send_event(event("MODIFIED", pod("a", 3)))
    eventually(lambda: not handle.active)
    rig.holds(a=3)
    assert heard == ["2", "2"]
    assert len(queue) == 0


def test_callbacks_of_two_plugins_that_remove_each_other_do_not_wait_for_each_other(rig, frames):
    meeting, handles, done = threading.Barrier(2, timeout=20), {}, []

    def remove(other):
        meeting.wait()
        handles[other].remove(wait=True)
        done.append(other)

    first, second = Caller("one"), Caller("two")
    handles["handler"] = rig.pods.add_handler(lambda *_: remove("map"), caller=first)
    handles["map"] = rig.pods.enqueue_to(WorkQueue(), lambda _: [] if done else remove("handler") or [], caller=second)
    frames.send_event(event("ADDED", pod("a", 2)))
    eventually(lambda: sorted(done) == ["handler", "map"])
    assert not any(handle.active for handle in handles.values())
    assert first.stop(20)
    assert second.stop(20)


def running_map(rig: Rig, frames: Frames) -> tuple[WorkQueue, Handle, threading.Event]:
    """Return a queue, the handle of a map whose call for pod `a` has begun, and the event that lets the call return."""
    running, proceed = threading.Event(), threading.Event()

    def requests(obj):
        running.set()
        assert proceed.wait(20)
        return [Request(obj.name)]

    queue = WorkQueue()
    handle = rig.pods.enqueue_to(queue, requests)
    frames.send_event(event("ADDED", pod("a", 2)))
    assert running.wait(20)
    return queue, handle, proceed


def test_a_removal_does_not_wait_for_the_running_map_which_queues_nothing_more(rig, frames):
    queue, handle, proceed = running_map(rig, frames)
    handle.remove()
    assert not handle.active
    proceed.set()
    eventually(lambda: not rig.pods.pending)
    assert len(queue) == 0


def test_a_removal_with_wait_returns_when_the_running_map_has(rig, frames):
    queue, handle, proceed = running_map(rig, frames)
    remover = threading.Thread(target=lambda: handle.remove(wait=True))
    remover.start()
    eventually(lambda: rig.pods.parts[0].engine.handler_count == 0)
    assert handle.active
    assert remover.is_alive()
    proceed.set()
    remover.join(20)
    assert not remover.is_alive()
    assert not handle.active
    # It returned a request after its removal.
    rig.holds(a=2)
    assert len(queue) == 0


def test_a_removal_with_wait_returns_when_the_running_callback_has(rig, frames):
    running, proceed, ended = threading.Event(), threading.Event(), []

    def on_add(obj, _initial):
        running.set()
        assert proceed.wait(20)
        ended.append(obj.name)

    handle = rig.pods.add_handler(on_add)
    frames.send_bytes(together(pod("a", 2), pod("b", 3)))
    assert running.wait(20)
    counts = []

    def remove():
        handle.remove(wait=True)
        counts.append(list(ended))

    remover = threading.Thread(target=remove)
    remover.start()
    eventually(lambda: rig.pods.parts[0].engine.handler_count == 0)
    assert not counts
    proceed.set()
    remover.join(20)
    assert counts == [["a"]]
    rig.holds(a=2, b=3)
    assert ended == ["a"]


def test_a_removal_that_was_interrupted_can_be_tried_again(rig, frames):
    queue, handle, proceed = running_map(rig, frames)

    def interrupt():
        eventually(lambda: rig.pods.parts[0].engine.handler_count == 0)
        _thread.interrupt_main()

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        handle.remove(wait=True)
    assert handle.active
    # It still waits for the call that the first attempt could not wait for.
    again = threading.Thread(target=lambda: handle.remove(wait=True))
    again.start()
    assert again.is_alive()
    proceed.set()
    again.join(20)
    assert not again.is_alive()
    assert not handle.active
    rig.holds(a=2)
    assert len(queue) == 0
