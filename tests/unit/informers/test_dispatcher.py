from __future__ import annotations

import gc
import json
import threading

import pytest

from ctrlhost import _core
from ctrlhost.client import Client
from ctrlhost.entries import Entries
from ctrlhost.errors import CtrlhostError
from ctrlhost.informers import InformerFactory, ReflectorOptions
from ctrlhost.informers.caller import CallbackThread
from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import WorkQueue
from tests.support.informer_rig import QUICK, Rig
from tests.support.recording_handler import TWO, RecordingHandler, names, step
from tests.support.stub_api_server import Failure, Frames, Json, bookmark, error_event, event, pod, pod_list, serve
from tests.support.waiting import eventually


def test_the_thread_of_a_caller_exists_while_it_has_sources():
    engine, heard, thread = _core.SharedInformer("pods", "v1", "Pod"), [], CallbackThread("of the test", Entries())
    for number, name in enumerate("abc"):
        source = engine.enqueue_to(WorkQueue(), lambda obj: heard.append(obj.name) or [])
        thread.add(source)
        engine.feed_watch(json.dumps(event("ADDED", pod(name, number + 1))).encode() + b"\n")
        engine.process()
        eventually(lambda name=name: heard[-1:] == [name] and not engine.pending)
        assert "of the test" in [thread.name for thread in threading.enumerate()]
        engine.remove_handler(source)
        eventually(lambda: "of the test" not in [thread.name for thread in threading.enumerate()])
    # The objects that were there come first.
    assert heard == ["a", "a", "b", "a", "b", "c"]


@pytest.mark.behaviour("informers/SI7")
def test_a_transform_and_an_error_handler_are_active_from_the_first_list(server):
    """Both are arguments of the request and cannot be set later, so there is no error for setting them too late.
    Only the request for the informer can race with the start.
    """
    errors = []
    heard = threading.Event()

    def on_error(key, error):
        errors.append((key, error))
        heard.set()

    def upper_label(obj):
        changed = obj.to_dict()
        changed["metadata"]["labels"] = {"name": obj.name.upper()}
        return changed

    options = ReflectorOptions(watch_list=False, backoff=QUICK)
    factory = InformerFactory(Client(server.url), options=options, on_error=on_error)
    serve(server, "/api/v1/pods", [Failure(500), *TWO], [Frames()])
    together = threading.Barrier(9)
    informers = []

    def request_informer() -> None:
        together.wait(10)
        informers.append(factory.informer("v1", "Pod", transform=upper_label))

    threads = [threading.Thread(target=request_informer) for _ in range(8)]
    for thread in threads:
        thread.start()
    together.wait(10)
    with factory:
        for thread in threads:
            thread.join(10)
        factory.start()
        assert factory.wait_for_sync(10)
        assert heard.wait(10)
        (pods,) = set(informers)
        assert len(informers) == 8
        assert sorted(obj.labels["name"] for obj in pods.lister.list()) == ["POD1", "POD2"]
        assert [(key, error.status) for key, error in errors] == [(pods.key, 500)]
        with pytest.raises(AttributeError):
            pods.parts[0].engine.transform = upper_label


@pytest.mark.behaviour("informers/SI4")
def test_handlers_may_be_added_while_the_informer_starts(rig):
    rig.serve(TWO)
    handlers = [RecordingHandler() for _ in range(20)]
    adders = [threading.Thread(target=heard.to, args=(rig.pods,)) for heard in handlers]
    for adder in adders:
        adder.start()
    rig.synced()
    for adder in adders:
        adder.join()
    eventually(lambda: all(names(heard) == ["pod1", "pod2"] for heard in handlers))


@pytest.mark.behaviour("informers/CT11")
def test_changes_during_a_gap_reach_every_handler(rig_with):
    clock = ManualClock()
    rig = rig_with(clock=clock, resync=10.0)
    without, with_resync = RecordingHandler(), RecordingHandler()
    without.to(rig.pods, resync=0.0)
    with_resync.to(rig.pods, resync=10.0)
    frames = Frames()
    rig.serve([*TWO, Json(pod_list(9, pod("pod1", 1), pod("pod2", 8), pod("pod3", 9)))], [frames, Frames()]).synced()
    eventually(lambda: len(without.events) == 2 and len(with_resync.events) == 2)
    step(clock, 10.001)
    eventually(lambda: len(with_resync.events) == 4)
    frames.send_event(error_event(410, "Expired"))
    eventually(lambda: rig.errors)
    eventually(lambda: clock.waiters() == 2)
    clock.advance(1)
    eventually(lambda: len(with_resync.events) == 6 and len(without.events) == 4)
    # Unchanged objects of the new list are not notified.
    assert sorted(without.events[2:]) == sorted(with_resync.events[4:]) == [("add", "pod3"), ("update", "pod2")]
    assert sorted(without.initial) == ["pod1", "pod2"]


@pytest.mark.behaviour("informers/SI8")
def test_handlers_see_transformed_objects(server):
    def upper_label(obj):
        changed = obj.to_dict()
        changed["metadata"]["labels"] = {"name": obj.name.upper()}
        return changed

    factory = InformerFactory(Client(server.url), options=ReflectorOptions(watch_list=False))
    pods = factory.informer("v1", "Pod", transform=upper_label)
    seen = []
    pods.add_handler(lambda obj, _: seen.append(obj.labels["name"]))
    serve(server, "/api/v1/pods", TWO, [Frames()])
    with factory:
        eventually(lambda: sorted(seen) == ["POD1", "POD2"])


@pytest.mark.behaviour("informers/SI9")
@pytest.mark.behaviour("informers/SI12")
def test_handlers_are_counted_and_may_be_removed_twice(rig):
    engine = rig.pods.parts[0].engine
    first, second = rig.pods.add_handler(), rig.pods.add_handler()
    assert engine.handler_count == 2
    second.remove()
    assert engine.handler_count == 1
    second.remove()
    first.remove()
    first.remove()
    assert engine.handler_count == 0


@pytest.mark.behaviour("informers/SI10")
def test_removing_a_handler_does_not_affect_other_informers(rig):
    other = rig.factory.informer("v1", "Node")
    mine, theirs = rig.pods.add_handler(), other.add_handler()
    rig.pods.parts[0].engine.remove_handler(10**9)
    theirs.remove()
    assert rig.pods.parts[0].engine.handler_count == 1
    assert other.parts[0].engine.handler_count == 0
    mine.remove()


@pytest.mark.behaviour("informers/SI11")
def test_a_handler_added_twice_is_notified_twice(rig):
    heard = RecordingHandler()
    first, _ = heard.to(rig.pods), heard.to(rig.pods)
    frames = Frames()
    rig.serve(TWO, [frames]).synced()
    eventually(lambda: names(heard) == ["pod1", "pod1", "pod2", "pod2"])
    first.remove()
    frames.send_event(event("ADDED", pod("pod3", 3)))
    eventually(lambda: names(heard).count("pod3") == 1)


@pytest.mark.behaviour("informers/SI13")
def test_handlers_are_added_and_removed_while_events_arrive(rig):
    frames = Frames()
    rig.serve(TWO, [frames]).synced()
    problems: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(20):
                rig.pods.add_handler(lambda *_: None).remove()
        except CtrlhostError as error:
            problems.append(error)

    workers = [threading.Thread(target=work) for _ in range(20)]
    for worker in workers:
        worker.start()
    for number in range(1_000):
        frames.send_event(event("MODIFIED", pod("pod1", 10 + number)))
    for worker in workers:
        worker.join()
    rig.holds(pod1=1009, pod2=2)
    rig.stop()
    assert not problems
    with pytest.raises(CtrlhostError, match="stopped already"):
        rig.pods.add_handler()


@pytest.mark.behaviour("informers/SI14")
def test_an_informer_reports_whether_it_runs(rig):
    engine = rig.pods.parts[0].engine
    assert (engine.started, engine.stopped, rig.pods.state) == (False, False, "listing")
    rig.serve(TWO).synced()
    eventually(lambda: rig.pods.state == "watching")
    rig.stop()
    assert (engine.started, engine.stopped, rig.pods.state) == (True, True, "stopped")


@pytest.mark.behaviour("informers/SI15")
@pytest.mark.behaviour("informers/SI16")
def test_a_stopped_informer_refuses_and_releases_handlers(rig):
    handle = rig.pods.add_handler()
    rig.serve(TWO).synced()
    rig.stop()
    with pytest.raises(CtrlhostError, match=r"was not added to shared informer because it has stopped already$"):
        rig.pods.add_handler()
    with pytest.raises(CtrlhostError, match="the factory was stopped"):
        rig.factory.informer("v1", "Node")
    handle.remove()


@pytest.mark.behaviour("informers/SI17")
def test_a_removed_handler_is_no_longer_notified(rig):
    removed, remaining = RecordingHandler(), RecordingHandler()
    handle, _ = removed.to(rig.pods), remaining.to(rig.pods)
    frames = Frames()
    rig.serve(TWO, [frames]).synced()
    eventually(lambda: len(removed.events) == 2)
    handle.remove(wait=True)
    frames.send_event(event("ADDED", pod("pod3", 3)))
    eventually(lambda: len(remaining.events) == 3)
    assert len(removed.events) == 2


@pytest.mark.behaviour("informers/SI18")
@pytest.mark.behaviour("informers/WT3")
def test_a_late_handler_is_synced_after_processing_the_existing_objects(rig):
    frames = Frames()
    early, late = RecordingHandler(), RecordingHandler()
    early.to(rig.pods)
    rig.serve(TWO, [frames]).synced()
    proceed = threading.Event()

    def slow(obj, initial):
        proceed.wait()
        late.on_add(obj, initial)

    handle = rig.pods.add_handler(slow)
    assert rig.pods.has_synced
    assert not handle.has_synced
    proceed.set()
    eventually(lambda: handle.has_synced)
    assert sorted(late.initial) == ["pod1", "pod2"]
    frames.send_event(event("ADDED", pod("pod3", 3)))
    eventually(lambda: len(early.events) == 3 and len(late.events) == 3)
    assert sorted(late.initial) == ["pod1", "pod2"]


@pytest.mark.behaviour("informers/WT3")
@pytest.mark.behaviour("findings/FT1")
@pytest.mark.parametrize("finished_first", [True, False])
def test_a_handler_is_synced_after_the_end_of_the_list_and_its_last_object_in_any_order(rig_with, finished_first):
    # Started first, with a hundred objects; then finished before or after the end of the list.
    rig = rig_with(watch_list=True)
    proceed, done = threading.Event(), []

    def slow(obj, initial):
        if not finished_first:
            proceed.wait()
        done.append(obj.name)

    handle = rig.pods.add_handler(slow)
    frames = Frames(*(event("ADDED", pod(f"p{number}", number)) for number in range(1, 101)))
    rig.serve([], [frames]).start()
    assert frames.opened.wait(10)
    assert not rig.pods.has_synced
    assert not handle.has_synced
    frames.send_event(bookmark(100, initial_end=True))
    eventually(lambda: rig.pods.has_synced)
    if not finished_first:
        assert not handle.has_synced
        proceed.set()
    eventually(lambda: handle.has_synced)
    assert sorted(done) == sorted(f"p{number}" for number in range(1, 101))


@pytest.mark.behaviour("informers/WT3")
def test_a_handler_without_objects_is_synced_with_the_informer(rig):
    handle = RecordingHandler().to(rig.pods)
    assert not handle.has_synced
    rig.serve([Json(pod_list(1))]).synced()
    eventually(lambda: handle.has_synced)


@pytest.mark.behaviour("informers/WT3")
def test_an_early_handler_is_synced_after_the_list_and_its_own_work(rig):
    proceed = threading.Event()
    seen: list[bool] = []

    def slow(obj, initial):
        proceed.wait()
        seen.append(handle.has_synced)

    handle = rig.pods.add_handler(slow)
    assert not handle.has_synced
    rig.serve(TWO).synced()
    assert not handle.has_synced
    proceed.set()
    eventually(lambda: handle.has_synced)
    # Not before the last one was processed.
    assert seen == [False, False]


@pytest.mark.behaviour("informers/SI19")
@pytest.mark.parametrize("when", ["before", "after", "never run"])
def test_no_thread_leaks(server, when):
    before = set(threading.enumerate())
    rig = Rig(server)
    rig.serve(TWO)
    if when == "before":
        rig.pods.add_handler()
    if when != "never run":
        rig.synced()
    rig.pods.add_handler()
    rig.stop()
    gc.collect()
    left = set(threading.enumerate()) - before
    assert [thread.name for thread in left if thread.name.startswith(("reflector", "informers"))] == []


@pytest.mark.behaviour("informers/SI28")
def test_a_factory_shares_informers_starts_only_new_ones_and_waits_at_shutdown(rig):
    assert rig.factory.informer("v1", "Pod") is rig.pods
    rig.serve(TWO).synced()
    assert len(rig.lists) == 1
    rig.server.on("GET", "/api/v1/nodes", Json({"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": []}))
    nodes = rig.factory.informer("v1", "Node")
    assert not nodes.has_synced
    rig.synced()
    assert nodes.has_synced
    assert len(rig.server.received(watch=False)) >= 2
    assert sum(request.path.endswith("/pods") for request in rig.lists) == 1
    rig.stop()
    rig.stop()
    assert all(part.reflector.join(0) for informer in (rig.pods, nodes) for part in informer.parts)
    rig.factory.start()
    assert rig.pods.state == "stopped"
