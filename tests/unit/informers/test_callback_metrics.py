from __future__ import annotations

import functools
import threading

import pytest

from ctrlhost.informers.callback_metrics import handler_name
from ctrlhost.testing import ManualClock
from tests.support.recording_handler import TWO, RecordingHandler, step
from tests.support.stub_api_server import Frames, Json, error_event, event, pod, pod_list
from tests.support.waiting import eventually


@pytest.mark.behaviour("informers/SI1")
@pytest.mark.behaviour("informers/SI2")
@pytest.mark.parametrize("late", [False, True])
def test_each_handler_is_resynced_at_its_own_period(rig_with, late):
    """SI2: an earlier handler blocks all deliveries for the first second."""
    clock = ManualClock()
    rig = rig_with(clock=clock, resync=1.0)
    entered, proceed = threading.Event(), threading.Event()
    if late:
        rig.pods.add_handler(lambda *_: (entered.set(), proceed.wait(10)), resync=0.0)
    never, every_2, every_3 = RecordingHandler(), RecordingHandler(), RecordingHandler()
    for heard, resync in ((never, 0.0), (every_2, 2.0), (every_3, 3.0)):
        heard.to(rig.pods, resync=resync)
    rig.serve(TWO).synced()
    if late:
        assert entered.wait(10)
        step(clock, 1.001)
        assert [heard.events for heard in (never, every_2, every_3)] == [[], [], []]
        proceed.set()
    eventually(lambda: all(len(heard.events) == 2 for heard in (never, every_2, every_3)))
    if not late:
        step(clock, 1.001)
    step(clock, 1.001)
    eventually(lambda: len(every_2.events) == 4)
    assert (len(never.events), len(every_3.events)) == (2, 2)
    step(clock, 1.001)
    eventually(lambda: len(every_3.events) == 4)
    assert (len(never.events), len(every_2.events)) == (2, 4)
    assert every_2.events[2:] == [("update", name) for _, name in every_2.events[2:]]


@pytest.mark.behaviour("informers/SI3")
def test_a_handler_with_a_shorter_period_shortens_that_of_the_informer(rig_with):
    rig = rig_with(resync=43_200.0)
    period = []
    for resync in (0.0, 60.0, 55.0, 5.0):
        rig.pods.add_handler(resync=resync)
        period.append(rig.pods.parts[0].resync_period)
    assert period == [43_200.0, 60.0, 55.0, 5.0]


@pytest.mark.behaviour("informers/SI20")
def test_a_failing_handler_is_logged_per_object_and_does_not_block_others(rig, caplog):
    # Unlike upstream: no pause after each, and the handler counts as synced, since no notification is repeated.
    def bad(obj, initial):
        raise RuntimeError(f"no {obj.name}")

    heard = RecordingHandler()
    failing, fine = rig.pods.add_handler(bad, name="plugin/bad"), heard.to(rig.pods)
    rig.serve([Json(pod_list(5, *(pod(f"p{n}", n) for n in range(1, 6))))]).synced()
    eventually(lambda: failing.has_synced and fine.has_synced)
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert sorted(said) == [f"handler plugin/bad failed on add of default/p{n}" for n in range(1, 6)]
    assert len(heard.events) == 5


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_a_handler_that_raises_a_base_exception_keeps_its_thread_running(rig, error):
    heard = RecordingHandler()

    def leave(obj, initial):
        raise error

    leaving, fine = rig.pods.add_handler(leave), heard.to(rig.pods)
    frames = Frames()
    rig.serve(TWO, [frames]).synced()
    eventually(lambda: leaving.has_synced and fine.has_synced)
    frames.send_event(event("ADDED", pod("pod3", 3)))
    eventually(lambda: len(heard.events) == 3)
    (metrics,) = leaving.callback_metrics
    eventually(lambda: metrics.counts.errors == 3)


@pytest.mark.behaviour("informers/SI21")
@pytest.mark.behaviour("informers/SI22")
def test_removing_a_handler_waits_for_its_callback_only_on_request(rig):
    entered, proceed, ended = threading.Event(), threading.Event(), threading.Event()

    def blocked(obj, initial):
        entered.set()
        proceed.wait()
        ended.set()

    handle = rig.pods.add_handler(blocked)
    rig.serve(TWO).synced()
    assert entered.wait(10)
    handle.remove()
    assert not ended.is_set()
    proceed.set()
    assert ended.wait(10)

    entered.clear()
    proceed.clear()
    ended.clear()
    handle = rig.pods.add_handler(blocked)
    assert entered.wait(10)
    threading.Timer(0.05, proceed.set).start()
    handle.remove(wait=True)
    assert ended.is_set()


@pytest.mark.behaviour("informers/SI22")
@pytest.mark.behaviour("findings/FT2")
@pytest.mark.parametrize("when", ["never started", "before the start", "after the start"])
def test_removing_a_handler_waits_whenever_it_was_added(rig, when):
    entered, proceed, ended = threading.Event(), threading.Event(), threading.Event()

    def blocked(obj, initial):
        entered.set()
        proceed.wait()
        ended.set()

    rig.serve(TWO)
    if when == "after the start":
        rig.synced()
    handle = rig.pods.add_handler(blocked)
    if when == "before the start":
        rig.synced()
    removal = threading.Thread(target=handle.remove, kwargs={"wait": True})
    if when != "never started":
        assert entered.wait(10)
        removal.start()
        eventually(lambda: rig.pods.parts[0].engine.handler_count == 0)
        assert removal.is_alive()
        proceed.set()
    else:
        removal.start()
    removal.join(10)
    assert not removal.is_alive()
    assert ended.is_set() is (when != "never started")
    assert rig.pods.parts[0].engine.handler_count == 0


@pytest.mark.behaviour("informers/SI22")
def test_a_handler_may_remove_itself(rig):
    heard: list[str] = []

    def once(obj, initial):
        heard.append(obj.name)
        handle.remove(wait=True)

    handle = rig.pods.add_handler(once)
    rig.serve(TWO).synced()
    eventually(lambda: heard)
    other = RecordingHandler()
    late = other.to(rig.pods)
    eventually(lambda: late.has_synced)
    assert len(heard) == 1


@pytest.mark.behaviour("informers/SI23")
def test_missing_callbacks_are_allowed(rig):
    initial: list[bool] = []
    rig.pods.add_handler()
    rig.pods.add_handler(lambda obj, is_initial: initial.append(is_initial))
    frames = Frames(event("MODIFIED", pod("pod1", 5)), event("DELETED", pod("pod2", 6)), event("ADDED", pod("pod3", 7)))
    rig.serve(TWO, [frames]).start()
    eventually(lambda: initial == [True, True, False])


@pytest.mark.behaviour("informers/SI24")
def test_a_filter_translates_changes_for_the_objects_that_pass(rig):
    heard: list[tuple[str, str]] = []
    rig.pods.add_handler(
        lambda obj, initial: heard.append(("add", obj.name, initial)),
        lambda old, new: heard.append(("update", old.resource_version, new.resource_version)),
        lambda obj: heard.append(("delete", obj.key)),
        filter=lambda obj: obj.labels.get("mine") == "yes",
    )
    frames = [
        event("ADDED", pod("other", 1)),
        event("MODIFIED", pod("other", 2)),
        event("ADDED", pod("a", 3, mine="yes")),
        event("MODIFIED", pod("a", 4, mine="yes")),
        event("MODIFIED", pod("a", 5)),
        event("MODIFIED", pod("a", 6, mine="yes")),
        event("DELETED", pod("other", 7)),
        error_event(410, "Expired"),
    ]
    stream = Frames()
    rig.serve([Json(pod_list(0)), Json(pod_list(9))], [stream, Frames()]).synced()
    for number, frame in enumerate(frames, 1):
        stream.send_event(frame)
        # One at a time, since changes of one object that arrive together are notified as one.
        eventually(lambda number=number: rig.status.events == min(number, 7))
    eventually(lambda: len(heard) == 5)
    assert heard == [
        ("add", "a", False),
        ("update", "3", "4"),
        ("delete", "default/a"),
        ("add", "a", False),
        ("delete", "default/a"),
    ]


@pytest.mark.behaviour("informers/SI27")
def test_every_handler_has_a_readable_name():
    class Callable:
        def __call__(self, *_):
            return None

        def method(self, *_):
            return None

    assert handler_name(test_every_handler_has_a_readable_name, None).endswith("test_every_handler_has_a_readable_name")
    assert handler_name(None, Callable().method).endswith("Callable.method")
    assert handler_name(Callable()).endswith("Callable")
    assert handler_name(functools.partial(len)).endswith("len")
    assert handler_name(None, None, None) == "an empty handler"
    assert handler_name(len) == "builtins.len"
