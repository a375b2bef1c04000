"""Functions of plugins on threads of their plugin: what hangs or raises there holds up nobody else."""

from __future__ import annotations

import itertools
import os
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ctrlhost.entries import DEADLINES, Entries
from ctrlhost.errors import Stale
from ctrlhost.informers import Owner
from ctrlhost.informers import caller as callers
from ctrlhost.informers.caller import Caller
from ctrlhost.request import Request
from ctrlhost.supervisor.deadlines import Deadlines
from ctrlhost.workqueue import WorkQueue
from tests.support.informer_rig import Rig, keys
from tests.support.stub_api_server import Computed, Failure, Frames, Json, event, pod, pod_list, serve
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour
CONFIGS = "/api/v1/configmaps"


class Hanging:
    """A function that hangs, after it has noted its argument, until the test lets it return."""

    def __init__(self, result: Callable[[Any], Any] = lambda obj: [Request(obj.name)]) -> None:
        self.result = result
        self.proceed, self.running = threading.Event(), threading.Event()
        self.seen: list[Any] = []

    def __call__(self, *objects: Any) -> Any:
        self.seen.append(tuple(None if obj is None else obj.resource_version for obj in objects))
        self.running.set()
        assert self.proceed.wait(60)
        return self.result(objects[-1])


class Plugin:
    """A caller whose deadlines are checked, as in a host."""

    def __init__(self, name: str, **deadlines: float) -> None:
        self.failures: list[str] = []
        self.entries = Entries(
            name, {**DEADLINES, **deadlines}, fail=self.failures.append, began=lambda: self._deadlines.notify()
        )
        self._deadlines = Deadlines(lambda: [self.entries])
        self._deadlines.start()
        self.caller = Caller(name, self.entries)

    def stop(self) -> None:
        self.caller.stop(0)
        self._deadlines.stop()


@pytest.fixture
def plugin() -> Iterator[Callable[..., Plugin]]:
    plugins: list[Plugin] = []

    def make(name: str, **deadlines: float) -> Plugin:
        plugins.append(Plugin(name, **deadlines))
        return plugins[-1]

    yield make
    for caller in plugins:
        caller.stop()


@pytest.fixture
def hanging() -> Iterator[Callable[..., Hanging]]:
    blocked: list[Hanging] = []

    def make(*arguments: Any) -> Hanging:
        blocked.append(Hanging(*arguments))
        return blocked[-1]

    yield make
    for caller in blocked:
        caller.proceed.set()


@pytest.fixture
def frames(rig: Rig) -> Frames:
    """Return the stream of an informer whose first list is empty."""
    frames = Frames()
    rig.serve([Json(pod_list(1))], [frames]).synced()
    return frames


def metric(rig: Rig, name: str, **labels: str) -> float:
    """Return the sum of the samples with these labels."""
    samples = [sample for family in rig.factory.metrics.collect() for sample in family.samples if sample.name == name]
    return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())


@behaviour("supervision/IN6")
def test_the_changes_during_a_map_that_hangs_become_one(rig, frames, plugin, hanging):
    bad, queue = plugin("bad"), WorkQueue()
    requests = hanging()
    rig.pods.enqueue_to(queue, requests, caller=bad.caller)
    frames.send_event(event("ADDED", pod("other", 2)))
    assert requests.running.wait(20)
    frames.send_event(event("ADDED", pod("a", 3)))
    rig.holds(other=2, a=3)
    requests.proceed.set()
    eventually(lambda: requests.seen == [("2",), ("3",)] and not rig.pods.pending)
    requests.proceed.clear()
    frames.send_event(event("MODIFIED", pod("other", 4)))
    eventually(lambda: len(requests.seen) == 3)
    for version in (5, 6, 7):
        frames.send_event(event("MODIFIED", pod("a", version)))
    rig.holds(other=4, a=7)
    requests.proceed.set()
    eventually(lambda: not rig.pods.pending)
    # Old and new state of the other pod, then the state of `a` that the map knows and the last one.
    assert requests.seen[2:] == [("2",), ("4",), ("3",), ("7",)]


@behaviour("supervision/IN7")
def test_an_object_that_is_made_again_during_a_map_that_hangs_is_two_changes(rig, frames, plugin, hanging):
    bad, uids = plugin("bad"), []
    wait = hanging(lambda _: [])

    def requests(obj: Any) -> Any:
        uids.append((obj.name, obj.uid))
        return wait(obj) if obj.name == "other" else []

    def changed(old: Any, new: Any) -> bool:
        changes.append((None if old is None else old.uid, None if new is None else new.uid))
        return True

    changes: list[tuple[str | None, str | None]] = []
    rig.pods.enqueue_to(WorkQueue(), requests, predicates=[changed], caller=bad.caller)
    frames.send_event(event("ADDED", identified("a", 2, "first")))
    eventually(lambda: uids == [("a", "first")])
    frames.send_event(event("ADDED", identified("other", 3, "other")))
    assert wait.running.wait(20)
    frames.send_event(event("DELETED", identified("a", 4, "first")))
    frames.send_event(event("ADDED", identified("short", 5, "short")))
    frames.send_event(event("ADDED", identified("a", 6, "second")))
    frames.send_event(event("DELETED", identified("short", 7, "short")))
    rig.holds(a=6, other=3)
    wait.proceed.set()
    eventually(lambda: not rig.pods.pending)
    # The deletion of the first one, then the addition of the second one; of the one that came and went the deletion.
    assert [change for change in changes[2:] if "short" not in change] == [("first", None), (None, "second")]
    assert [change for change in changes if "short" in change] == [("short", None)]
    assert sorted(uids[2:]) == [("a", "first"), ("a", "second"), ("short", "short")]


def identified(name: str, version: int, uid: str) -> dict[str, Any]:
    body = pod(name, version)
    body["metadata"]["uid"] = uid
    return body


@behaviour("supervision/IN8")
def test_the_buffer_of_a_map_that_hangs_is_bounded_by_the_objects(rig, plugin, hanging):
    bad, count, changes = plugin("bad"), 1_000, 20
    requests = hanging(lambda _: [])
    frames = Frames()
    rig.serve([Json(pod_list(1, *(pod(f"p{n}", 1) for n in range(count))))], [frames])
    rig.factory.start()
    eventually(lambda: rig.pods.has_synced)
    rig.pods.enqueue_to(WorkQueue(), requests, caller=bad.caller)
    assert requests.running.wait(20)
    version = 1
    for _ in range(changes):
        for number in range(count):
            version += 1
            frames.send_event(event("MODIFIED", pod(f"p{number}", version)))
    eventually(lambda: rig.pods.last_resource_version == str(version), 60)
    # One entry an object, which has the state that the map knows and the last one; and the call that hangs.
    assert rig.pods.pending <= count + 1
    merged = metric(rig, "ctrlhost_informer_merged_notifications_total")
    assert merged >= count * (changes - 1)
    # The counter keeps what a removed handler has merged.
    for handle in rig.pods._handles:
        handle.remove()
    assert metric(rig, "ctrlhost_informer_merged_notifications_total") == merged


@behaviour("supervision/IN9")
def test_a_buffer_beyond_its_limit_detaches_the_handler_and_fails_the_plugin(rig, frames, plugin, hanging, monkeypatch):
    bad, good, queue = plugin("bad"), plugin("good"), WorkQueue()
    rig.pods.enqueue_to(queue, lambda obj: [Request(obj.name)], caller=good.caller)
    monkeypatch.setattr(callers, "BUFFER_LIMIT", 100)
    monkeypatch.setattr(callers, "BUFFER_PER_OBJECT", 0)
    requests = hanging()
    rig.pods.enqueue_to(WorkQueue(), requests, caller=bad.caller, controller="bad/c")
    frames.send_event(event("ADDED", pod("p", 1)))
    assert requests.running.wait(20)
    for number in range(300):
        frames.send_event(event("ADDED", pod(f"p{number}", 2 + number)))
    eventually(lambda: bad.failures)
    eventually(lambda: len(queue) == 301)
    (failure,) = bad.failures
    assert failure.startswith("callback buffer of bad/c for Pod.v1 is full")
    assert not good.failures
    # Nothing waits for the handler any more, except that its call still runs.
    assert rig.pods.pending == 1
    # As after the restart: each object is requested again.
    monkeypatch.undo()
    again = WorkQueue()
    rig.pods.enqueue_to(again, lambda obj: [Request(obj.name)], caller=good.caller)
    eventually(lambda: len(again) == 301)


@behaviour("supervision/IN10")
def test_functions_that_raise_are_counted_and_logged_once_and_the_others_go_on(rig, frames, plugin, caplog):
    bad, mapped, passed = plugin("bad"), WorkQueue(), WorkQueue()

    def requests(obj: Any) -> list[Request]:
        if obj.name == "odd":
            raise ValueError("a map")
        return [Request(obj.name)]

    def passes(_old: Any, new: Any) -> bool:
        raise (KeyError if new.name == "odd" else ValueError)("a predicate")

    def values(obj: Any) -> list[str]:
        if obj.name == "odd":
            raise ValueError("an index")
        return [obj.name]

    rig.pods.enqueue_to(mapped, requests, caller=bad.caller)
    rig.pods.enqueue_to(passed, predicates=[passes], caller=bad.caller)
    rig.pods.add_indexers({"name": values}, caller=bad.caller)
    for number in range(500):
        frames.send_event(event("ADDED" if not number else "MODIFIED", pod("odd", 2 + 2 * number)))
        frames.send_event(event("ADDED" if not number else "MODIFIED", pod("even", 3 + 2 * number)))
    rig.holds(odd=1000, even=1001)
    eventually(lambda: not rig.pods.pending)
    assert keys(mapped) == [Request("even")]
    assert sorted(key.name for key in keys(passed)) == ["even", "odd"]
    assert [obj.name for obj in rig.pods.indexer.by_index("name", "even")] == ["even"]
    assert rig.pods.indexer.by_index("name", "odd") == []
    errors = {use: metric(rig, "ctrlhost_handler_errors_total", use=use) for use in ("map", "predicate", "index")}
    calls = {use: metric(rig, "ctrlhost_handler_calls_total", use=use) for use in ("map", "predicate", "index")}
    assert all(0 < errors[use] < calls[use] for use in ("map", "index"))
    assert errors["predicate"] == calls["predicate"] > 1
    # Once for each function and kind of error.
    logged = sorted(record.message.partition(" for ")[0] for record in caplog.records if record.exc_info)
    assert logged == [
        "a map function failed",
        "a predicate failed",
        "a predicate failed",
        "index name failed",
    ]
    # With the file and the line of the function.
    for record in caplog.records:
        if record.exc_info:
            assert traceback.extract_tb(record.exc_info[2])[-1].filename == __file__


@behaviour("supervision/IN11")
@pytest.mark.parametrize(
    "endless", [lambda: itertools.repeat(Request("same")), lambda: (Request(str(n % 9)) for n in itertools.count())]
)
def test_a_map_that_returns_an_endless_iterator_overruns_and_holds_up_only_its_plugin(
    rig, frames, plugin, endless, caplog
):
    bad, good, queue, other = plugin("bad", callback=0.05), plugin("good"), WorkQueue(), WorkQueue()
    handle = rig.pods.enqueue_to(queue, lambda _: endless(), caller=bad.caller)
    rig.pods.enqueue_to(other, lambda obj: [Request(obj.name)], caller=good.caller)
    frames.send_event(event("ADDED", pod("a", 2)))
    eventually(lambda: bad.entries.overdue()["map"] == 1)
    frames.send_event(event("ADDED", pod("b", 3)))
    eventually(lambda: len(other) == 2)
    # It has not returned after six deadlines.
    eventually(lambda: bad.failures)
    assert "map of default/a has not returned" in bad.failures[0]
    assert len(queue) == 0
    assert any("plugin bad: map of default/a runs for" in record.message for record in caplog.records)
    # The removal ends it.
    handle.remove(wait=True)
    eventually(lambda: not rig.pods.pending)
    assert len(queue) == 0


@behaviour("supervision/IN14")
def test_an_index_function_that_hangs_makes_only_its_own_index_stale(rig, frames, plugin, hanging):
    bad, good = plugin("bad"), plugin("good")
    rig.pods.add_indexers({"bad": hanging(lambda obj: [obj.name]), "path": "metadata.name"}, caller=bad.caller)
    rig.pods.add_indexers({"good": lambda obj: [obj.name]}, caller=good.caller)
    frames.send_event(event("ADDED", pod("a", 2)))
    rig.holds(a=2)
    with pytest.raises(Stale, match="index bad is behind its cache after 2 s"):
        rig.pods.lister.by_index("bad", "a")
    for name in ("path", "good"):
        assert [obj.name for obj in rig.pods.lister.by_index(name, "a")] == ["a"]


@behaviour("supervision/IN14")
def test_an_index_has_caught_up_when_its_function_returns(rig, frames, plugin, hanging):
    bad, values = plugin("bad"), hanging(lambda obj: [obj.name])
    rig.pods.add_indexers({"name": values}, caller=bad.caller)
    frames.send_event(event("ADDED", pod("a", 2)))
    assert values.running.wait(20)
    # Changes while the function hangs: the index gets the last state.
    frames.send_event(event("DELETED", pod("a", 3)))
    frames.send_event(event("ADDED", pod("b", 4)))
    rig.holds(b=4)
    values.proceed.set()
    assert [obj.name for obj in rig.pods.indexer.by_index("name", "b")] == ["b"]
    assert rig.pods.indexer.by_index("name", "a") == []


@behaviour("supervision/IN13")
def test_an_object_is_in_its_index_for_whoever_hears_of_it(rig, frames, plugin):
    good, queue, missing = plugin("good"), WorkQueue(), []
    rig.pods.add_indexers({"version": lambda obj: [obj.resource_version]}, caller=good.caller)
    rig.pods.enqueue_to(queue)
    rounds = 10_000

    def look() -> None:
        for _ in range(rounds):
            key = queue.get(timeout=60)
            known = rig.pods.lister.get(key.name, key.namespace)
            pods = rig.pods.lister.by_index("version", known.resource_version)
            newer = rig.pods.lister.get(key.name, key.namespace)
            # The object may have changed once more, but it is never missing from the index.
            if not pods and newer.resource_version == known.resource_version:
                missing.append(known.resource_version)
            queue.done(key)
            frames.send_event(event("MODIFIED", pod("a", int(newer.resource_version) + 1)))

    frames.send_event(event("ADDED", pod("a", 2)))
    look()
    assert not missing


@behaviour("supervision/IN15")
def test_an_index_function_cannot_read_an_index_and_a_map_can(rig, frames, plugin):
    bad, queue = plugin("bad"), WorkQueue()
    raised: list[BaseException] = []

    def reading(obj: Any) -> list[str]:
        try:
            rig.pods.indexer.by_index("name", obj.name)
        except RuntimeError as error:
            raised.append(error)
            raise
        return []

    rig.pods.add_indexers({"name": lambda obj: [obj.name]}, caller=bad.caller)
    rig.pods.add_indexers({"reading": reading}, caller=bad.caller)
    rig.pods.enqueue_to(
        queue,
        lambda obj: [Request(match.name) for match in rig.pods.indexer.by_index("name", obj.name)],
        caller=bad.caller,
    )
    frames.send_event(event("ADDED", pod("a", 2)))
    assert queue.get(timeout=20) == Request("a")
    eventually(lambda: raised)
    assert "an index function cannot read the index name" in str(raised[0])
    eventually(lambda: metric(rig, "ctrlhost_handler_errors_total", use="index") == 1)
    assert rig.pods.indexer.by_index("reading", "a") == []


USES = ["map", "predicate", "handler", "filter", "index"]


def add(rig: Rig, use: str, function: Callable[..., Any], caller: Caller) -> Any:
    """Add a function to the informer."""
    if use == "index":
        return rig.pods.add_indexers({f"index of {caller.name}": function}, caller=caller)
    if use == "handler":
        return rig.pods.add_handler(on_add=lambda obj, _: function(obj), caller=caller)
    if use == "filter":
        return rig.pods.add_handler(filter=function, caller=caller)
    options = {"key": function} if use == "map" else {"predicates": [lambda _, new: function(new)]}
    return rig.pods.enqueue_to(WorkQueue(), caller=caller, **options)


@behaviour("supervision/IN1")
@pytest.mark.parametrize("use", USES)
def test_a_function_that_hangs_is_reported_and_holds_up_only_its_plugin(rig, frames, plugin, hanging, use, caplog):
    bad, good, function = plugin("bad", callback=0.05), plugin("good"), hanging(lambda _: [])
    queue, heard = WorkQueue(), []
    before = set(threading.enumerate())
    add(rig, use, function, bad.caller)
    rig.pods.enqueue_to(queue, lambda obj: [Request(obj.name)], caller=good.caller)
    rig.pods.add_handler(on_add=lambda obj, _: heard.append(obj.name), caller=good.caller)
    rig.pods.add_indexers({"name": lambda obj: [obj.name]}, caller=good.caller)
    frames.send_event(event("ADDED", pod("a", 2)))
    entry = "handler" if use == "filter" else use
    eventually(lambda: bad.entries.overdue()[entry] == 1)
    frames.send_event(event("ADDED", pod("b", 3)))
    eventually(lambda: len(queue) == 2 and heard == ["a", "b"])
    assert [obj.name for obj in rig.pods.indexer.by_index("name", "b")] == ["b"]
    assert rig.pods.status().objects == 2
    name = f"bad/{'indexes' if use == 'index' else 'callbacks'}"
    thread = next(thread for thread in set(threading.enumerate()) - before if thread.name == name)
    begin = f"plugin bad: {entry} of default/a runs for"
    (line,) = [record for record in caplog.records if record.message.startswith(begin)]
    assert any("__call__" in frame for frame in line.stack)
    eventually(lambda: bad.failures)
    assert f"{entry} of default/a has not returned after" in bad.failures[0]
    assert not good.failures
    # The plugin is stopped, and its thread ends when the call returns.
    bad.caller.stop(0)
    function.proceed.set()
    thread.join(20)
    assert not thread.is_alive()
    assert len(bad.failures) == 1


@behaviour("supervision/IN3")
@pytest.mark.parametrize("use", USES)
def test_a_function_may_read_everything_of_its_informer(rig, frames, plugin, use):
    good, seen = plugin("good"), []

    def read(obj: Any) -> list[Any]:
        status = rig.pods.status()
        rig.pods.parts[0].engine.stats()
        names = [obj.name for obj in rig.pods.lister.list()]
        seen.append((rig.pods.pending >= 0, status.has_synced, rig.pods.has_synced, names))
        return []

    add(rig, use, read, good.caller)
    frames.send_event(event("ADDED", pod("a", 2)))
    eventually(lambda: seen)
    assert seen[0] == (True, True, True, ["a"])
    rig.holds(a=2)


@behaviour("supervision/IN4")
@pytest.mark.parametrize("use", USES)
def test_a_function_may_remove_itself_and_others_add_one_and_stop_the_informer(rig, frames, plugin, use):
    good, heard, added, done = plugin("good"), [], [], threading.Event()

    def change(_obj: Any) -> list[Any]:
        if done.is_set():
            return []
        for handle in handles:
            if handle is not None:
                handle.remove(wait=True)
        heard.clear()
        added.append(rig.pods.add_handler(on_add=lambda obj, _: heard.append(obj.name), caller=good.caller))
        added.append(rig.pods.enqueue_to(WorkQueue(), lambda _: [], caller=good.caller))
        added[1].remove(wait=True)
        done.set()
        rig.pods.stop(0.1)
        return []

    other = rig.pods.add_handler(on_add=lambda obj, _: heard.append(f"other {obj.name}"), caller=good.caller)
    handles = [other]
    handles.append(add(rig, use, change, good.caller))
    frames.send_event(event("ADDED", pod("a", 2)))
    assert done.wait(20)
    eventually(lambda: rig.pods.state == "stopped")
    assert not other.active
    frames.send_event(event("ADDED", pod("b", 3)))
    # What was removed hears nothing more, and the informer has ended.
    assert good.caller.stop(20)
    assert not [name for name in heard if name.startswith("other")]


@behaviour("supervision/IN5")
def test_namespaces_are_attached_while_maps_read_the_informer(server, factory, plugin):
    from tests.support.informer_rig import in_namespace
    from tests.support.stub_api_server import serve

    good, rounds = plugin("good"), 1_000
    for namespace in "xy":
        body = in_namespace(namespace, "a", 1)
        serve(server, f"/api/v1/namespaces/{namespace}/pods", [Json(pod_list(2, body))] * 3, [Frames()] * 3)
    pods = factory.informer("v1", "Pod", namespaces=["x", "y"])
    with factory:
        assert factory.wait_for_sync(20)
        read = 0

        def requests(_obj: Any) -> list[Request]:
            nonlocal read
            read += 1
            assert pods.pending >= 0
            return []

        def attach() -> None:
            for _ in range(rounds):
                pods.enqueue_to(WorkQueue(), requests, caller=good.caller).remove()

        threads = [threading.Thread(target=attach) for _ in range(2)]
        for thread in threads:
            thread.start()
        handle = pods.enqueue_to(WorkQueue(), requests, caller=good.caller)
        eventually(lambda: handle.has_synced)
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
        assert read >= 2


@behaviour("supervision/IN12")
def test_a_handler_has_synced_when_its_map_was_called_for_the_whole_first_list(rig, plugin, hanging):
    bad, good = plugin("bad"), plugin("good")
    requests, queue = hanging(), WorkQueue()
    slow = rig.pods.enqueue_to(queue, requests, caller=bad.caller)
    quick = rig.pods.enqueue_to(WorkQueue(), lambda obj: [Request(obj.name)], caller=good.caller)
    native = rig.pods.enqueue_to(WorkQueue())
    rig.serve([Json(pod_list(2, *(pod(f"p{number}", 1) for number in range(100))))], [Frames()])
    rig.factory.start()
    eventually(lambda: quick.has_synced and native.has_synced and rig.pods.has_synced)
    assert not slow.has_synced
    assert not rig.factory.wait_for_sync(0)
    requests.proceed.set()
    eventually(lambda: slow.has_synced)
    assert len(queue) == 100
    assert rig.factory.wait_for_sync(20)


@behaviour("supervision/IN16")
def test_a_transform_that_hangs_fails_its_plugin_and_holds_up_nobody_else(rig, plugin, hanging):
    bad, good, transform = plugin("bad", callback=0.05), plugin("good"), hanging(lambda obj: obj)
    shared = rig.pods
    frames = [Frames(), Frames()]
    rig.serve([Json(pod_list(1))] * 3, list(frames))
    mine = rig.factory.informer("v1", "Pod", transform=transform, caller=bad.caller)
    # The same function of another plugin is another informer.
    other = rig.factory.informer("v1", "Pod", transform=transform, caller=good.caller)
    assert len({id(shared), id(mine), id(other)}) == 3
    assert rig.factory.informer("v1", "Pod", transform=transform, caller=bad.caller) is mine
    other.release()
    rig.synced()
    eventually(lambda: len(rig.watches) == 2)
    for stream in frames:
        stream.send_event(event("ADDED", pod("a", 2)))
    eventually(lambda: bad.failures)
    assert "transform of default/a has not returned after" in bad.failures[0]
    rig.holds(a=2)
    assert len(mine.lister.list()) == 0
    assert len(rig.watches) == 2
    assert not good.failures


@behaviour("supervision/IN19")
def test_a_factory_stops_within_its_timeout_although_a_handler_hangs(rig, frames, hanging):
    function = hanging()
    # A test before may have left a thread of this name.
    before = set(threading.enumerate())
    nodes = rig.factory.informer("v1", "Node")
    stream = Frames()
    rig.server.on(
        "GET", "/api/v1/nodes", Json({"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": []}), stream
    )
    rig.factory.start()
    eventually(lambda: nodes.has_synced)
    rig.pods.add_handler(on_add=lambda obj, _: function(obj))
    frames.send_event(event("ADDED", pod("a", 2)))
    assert function.running.wait(20)
    frames.send_event(event("ADDED", pod("b", 3)))
    rig.holds(a=2, b=3)
    assert nodes.has_synced
    stopped = threading.Event()

    def stop() -> None:
        rig.factory.stop(0.2)
        stopped.set()

    threading.Thread(target=stop, daemon=True).start()
    assert stopped.wait(20)
    assert rig.pods.state == nodes.state == "stopped"
    (thread,) = [thread for thread in set(threading.enumerate()) - before if thread.name == "informers/callbacks"]
    function.proceed.set()
    thread.join(20)
    assert function.seen == [("2",)]


@behaviour("supervision/IN20")
@pytest.mark.parametrize("use", ["map", "handler"])
def test_handlers_are_attached_and_detached_by_many_threads_during_events(rig, frames, plugin, use):
    good, stop, problems = plugin("good"), threading.Event(), []

    def attach() -> None:
        while not stop.is_set():
            removed, running = threading.Event(), threading.Event()

            def function(_obj: Any, removed: Any = removed, running: Any = running) -> list[Request]:
                running.set()
                if removed.is_set():
                    problems.append("called after the removal")
                return []

            handle = add(rig, use, function, good.caller)
            running.wait(0.01)
            handle.remove(wait=True)
            removed.set()

    threads = [threading.Thread(target=attach) for _ in range(8)]
    for thread in threads:
        thread.start()
    for number in range(2_000):
        frames.send_event(event("ADDED" if number < 5 else "MODIFIED", pod(f"p{number % 5}", 2 + number)))
    eventually(lambda: rig.pods.last_resource_version == str(2 + 1_999), 60)
    stop.set()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert not problems
    assert rig.pods.parts[0].engine.handler_count == 0
    eventually(lambda: not rig.pods.pending)


@behaviour("supervision/IN4")
def test_what_a_plugin_added_is_removed_when_its_caller_stops(rig, frames, plugin):
    good, other, queue = plugin("good"), plugin("other"), WorkQueue()
    rig.pods.add_indexers({"mine": lambda obj: [obj.name], "path": "metadata.name"}, caller=good.caller)
    rig.pods.enqueue_to(queue, lambda obj: [Request(obj.name)], caller=good.caller)
    rig.pods.enqueue_to(queue, caller=good.caller)
    kept = rig.pods.enqueue_to(WorkQueue(), lambda obj: [], caller=other.caller)
    assert good.caller.stop(20)
    assert rig.pods.parts[0].engine.handler_count == 1
    assert kept.active
    for name in ("mine", "path"):
        with pytest.raises(KeyError):
            rig.pods.indexer.by_index(name, "a")
    again = plugin("good")
    rig.pods.add_indexers({"mine": lambda obj: [obj.name], "path": "metadata.name"}, caller=again.caller)
    frames.send_event(event("ADDED", pod("a", 2)))
    rig.holds(a=2)
    assert len(rig.pods.indexer.by_index("mine", "a")) == len(rig.pods.indexer.by_index("path", "a")) == 1
    assert len(queue) == 0


@behaviour("supervision/IN10")
def test_the_last_kind_of_error_that_comes_from_the_core_does_not_end_the_thread(rig, frames, plugin, caplog):
    """pyo3 raises its panic again instead of handing it out as an error."""
    good, queue = plugin("good"), WorkQueue()
    panic = type("PanicException", (BaseException,), {"__str__": lambda _: 1 / 0})

    def requests(obj: Any) -> list[Request]:
        if obj.name == "panics":
            raise panic
        return [Request(obj.name)]

    rig.pods.enqueue_to(queue, requests, caller=good.caller)
    for number, name in enumerate(["panics", "a"]):
        frames.send_event(event("ADDED", pod(name, 2 + number)))
    assert queue.get(timeout=20) == Request("a")
    assert any("a map function failed" in record.getMessage() for record in caplog.records)


@behaviour("supervision/IN18")
@pytest.mark.parametrize("before", [404, 500])
def test_nothing_is_requested_for_an_owner_until_it_is_known_whether_it_has_a_namespace(rig, frames, before):
    known, queue = threading.Event(), WorkQueue()
    resources = [{"name": "zones", "kind": "Zone", "namespaced": False, "verbs": ["list"]}]
    listed = Json({"kind": "APIResourceList", "groupVersion": "owners.test/v1", "resources": resources})
    rig.server.on("GET", "/apis/owners.test/v1", Computed(lambda _: listed if known.is_set() else Failure(before)))

    def child(name: str, version: int, owner: str) -> dict[str, Any]:
        body = pod(name, version)
        reference = {"apiVersion": "owners.test/v1", "kind": "Zone", "name": owner, "uid": owner, "controller": True}
        body["metadata"]["ownerReferences"] = [reference]
        return body

    frames.send_event(event("ADDED", child("cached", 2, "one")))
    rig.holds(cached=2)
    rig.pods.enqueue_to(queue, Owner("owners.test/v1", "Zone"))
    removed = WorkQueue()
    rig.pods.enqueue_to(removed, Owner("owners.test/v1", "Zone")).remove()
    frames.send_event(event("ADDED", child("a", 3, "two")))
    frames.send_event(event("MODIFIED", child("cached", 4, "three")))
    frames.send_event(event("DELETED", child("a", 5, "two")))
    rig.holds(cached=4)
    assert len(queue) == 0
    known.set()
    eventually(lambda: len(queue) == 3)
    assert keys(queue) == [Request("one"), Request("three"), Request("two")]
    frames.send_event(event("ADDED", child("b", 6, "four")))
    assert queue.get(timeout=20) == Request("four")
    assert len(queue) == len(removed) == 0


@behaviour("supervision/IN2")
@pytest.mark.parametrize("use", ["map", "index"])
def test_others_are_called_while_a_function_computes(rig, frames, plugin, use):
    """The figure is in `benches/budget.toml`."""
    bad, good, queue, busy = plugin("bad"), plugin("good"), WorkQueue(), threading.Event()

    def compute(_obj: Any) -> list[Any]:
        while not busy.is_set():
            pass
        return []

    add(rig, use, compute, bad.caller)
    rig.pods.enqueue_to(queue, lambda obj: [Request(obj.name)], caller=good.caller)
    rig.pods.add_indexers({"name": lambda obj: [obj.name]}, caller=good.caller)
    for number in range(100):
        frames.send_event(event("ADDED", pod(f"p{number}", 2 + number)))
    eventually(lambda: len(queue) == 100)
    assert len(rig.pods.indexer.by_index("name", "p99")) == 1
    busy.set()


@behaviour("supervision/IN1")
def test_an_entry_of_a_stopped_caller_is_closed_when_its_call_returns(rig, frames, plugin, hanging):
    bad, requests = plugin("bad", callback=0.05), hanging()
    rig.pods.enqueue_to(WorkQueue(), requests, caller=bad.caller)
    rig.pods.add_indexers({"name": lambda obj: [obj.name]}, caller=bad.caller)
    frames.send_event(event("ADDED", pod("a", 2)))
    assert requests.running.wait(20)
    assert not bad.caller.stop(0.1)
    # The thread that hangs still counts.
    eventually(lambda: bad.entries.stuck() == 1)
    requests.proceed.set()
    eventually(lambda: not bad.entries.active)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_cannot_use_a_caller_of_its_parent(rig, frames, plugin):
    good = plugin("good")
    rig.pods.enqueue_to(WorkQueue(), lambda obj: [Request(obj.name)], caller=good.caller)
    child = os.fork()
    if not child:
        try:
            rig.pods.enqueue_to(WorkQueue(), lambda obj: [Request(obj.name)], caller=good.caller)
        except RuntimeError as error:
            os._exit(0 if "before fork" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@behaviour("supervision/IN10")
def test_keys_and_errors_with_broken_methods_do_no_harm(rig, frames, plugin, caplog):
    class Text(str):
        def __eq__(self, other: object) -> bool:
            raise ValueError("eq")

        def __hash__(self) -> int:
            raise ValueError("hash")

    class Broken(Exception):
        def __str__(self) -> str:
            raise ValueError("str")

        __repr__ = __str__

    def requests(obj: Any) -> list[Any]:
        if obj.name == "broken":
            raise Broken
        return [Request(Text(obj.name)), Request(Text(obj.name)), Request("plain")]

    good, queue = plugin("good"), WorkQueue()
    rig.pods.enqueue_to(queue, requests, caller=good.caller)
    frames.send_event(event("ADDED", pod("broken", 2)))
    frames.send_event(event("ADDED", pod("a", 3)))
    eventually(lambda: len(queue) == 2)
    assert keys(queue) == [Request("a"), Request("plain")]
    assert any(record.msg == "%s" and "a map function failed" in str(record.args) for record in caplog.records)


def test_a_handler_that_is_never_idle_delays_no_other_of_its_plugin(rig, frames, plugin):
    more = Frames()
    serve(rig.server, CONFIGS, [Json({**pod_list(1), "kind": "ConfigMapList"})], [more])
    good, versions, seen, ended = plugin("good"), itertools.count(3), threading.Event(), threading.Event()
    rounds: list[int] = []

    def busy(*_: Any) -> None:
        # Another change waits before this returns.
        if not ended.is_set():
            rounds.append(version := next(versions))
            frames.send_event(event("MODIFIED", pod("a", version)))
            eventually(lambda: rig.pods.pending > 1)

    rig.factory.informer("v1", "ConfigMap").add_handler(lambda *_: seen.set(), caller=good.caller)
    rig.synced()
    rig.pods.add_handler(busy, busy, caller=good.caller)
    frames.send_event(event("ADDED", pod("a", 2)))
    # By now the other handler had nothing to do.
    eventually(lambda: len(rounds) > 2)
    more.send_event(event("ADDED", {**pod("b", 2), "kind": "ConfigMap"}))
    try:
        assert seen.wait(20)
    finally:
        ended.set()


def test_what_is_added_for_a_plugin_that_has_ended_is_removed_at_once(rig, frames, plugin):
    late, queue = plugin("late"), WorkQueue()
    (part,) = rig.pods.parts
    before = part.engine.handler_count
    late.caller.stop(0)
    # A thread of the plugin that was abandoned still has the informer.
    handles = [
        rig.pods.add_handler(print, caller=late.caller),
        rig.pods.enqueue_to(queue, caller=late.caller),
        rig.pods.enqueue_to(queue, lambda obj: [Request(obj.name)], caller=late.caller),
    ]
    rig.pods.add_indexers({"name": lambda obj: [obj.name]}, caller=late.caller)
    assert not any(handle.active for handle in handles)
    assert part.engine.handler_count == before
    with pytest.raises(KeyError):
        rig.pods.indexer.by_index("name", "a")
    assert not late.entries.active
