"""Popping from the delta FIFO: blocking, failures, threads, and failing known objects."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ctrlhost.cache import Closed, DeletedFinalStateUnknown, Delta, DeltaFIFO, Indexer, KeyFuncError, Object
from tests.support.waiting import eventually
from tests.unit.core.delta_scripts import drain, fifo_of, ignore, run, texts_of, thing

behaviour = pytest.mark.behaviour


def blocked(thread: threading.Thread, function: Callable[[], None]) -> bool:
    """Return whether the thread sleeps in a call that `function` made."""
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None or frame.f_code is not function.__code__:
        return False
    return "\nState:\tS" in Path(f"/proc/self/task/{thread.native_id}/status").read_text()


@behaviour("informers/DF29")
@behaviour("informers/RF17")
def test_close_wakes_every_pop() -> None:
    fifo = fifo_of()
    outcomes: list[str] = []

    def pop() -> None:
        try:
            fifo.pop(ignore)
        except Closed:
            outcomes.append("closed")

    threads = [threading.Thread(target=pop) for _ in range(10)]
    for thread in threads:
        thread.start()
    eventually(lambda: all(blocked(thread, pop) for thread in threads))
    assert outcomes == []
    fifo.close()
    for thread in threads:
        thread.join(5)
    assert outcomes == ["closed"] * 10
    fifo.add(thing("late", 1))
    assert len(fifo) == 0


def test_it_is_not_synced_while_the_last_object_of_the_first_list_is_in_process() -> None:
    fifo = fifo_of()
    run(fifo, "L a1")
    seen = []
    fifo.pop(lambda _deltas, initial: seen.append((fifo.has_synced(), initial)))
    assert seen == [(False, True)]
    assert fifo.has_synced()


def test_an_exception_of_process_reaches_the_caller_and_the_key_is_not_requeued() -> None:
    fifo = fifo_of()
    run(fifo, "L a1")

    def fail(_deltas: list[Delta], _initial: bool) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        fifo.pop(fail)
    assert len(fifo) == 0
    assert fifo.has_synced()


def test_a_pop_that_times_out_raises_empty() -> None:
    fifo = fifo_of()
    with pytest.raises(queue.Empty):
        fifo.pop(ignore, timeout=0)
    with pytest.raises(ValueError, match="timeout"):
        fifo.pop(ignore, timeout=-1)


def test_the_queue_accepts_changes_while_deltas_are_processed() -> None:
    store = Indexer()
    fifo = DeltaFIFO(store)
    fifo.add(thing("a", 1))
    keys: list[list[str]] = []

    def process(deltas: list[Delta], _initial: bool) -> None:
        fifo.add(thing("b", 1))
        fifo.update(thing("a", 2))
        keys.append(fifo.list_keys())
        for delta in deltas:
            assert isinstance(delta.object, Object)
            store.add(delta.object)

    fifo.pop(process)
    assert keys == [["b", "a"]]
    assert drain(fifo) == [["A b1"], ["U a2"]]


def test_a_second_pop_waits_for_the_first() -> None:
    fifo = fifo_of()
    run(fifo, "A a1; A b1")
    inside, proceed = threading.Event(), threading.Event()
    order: list[str] = []

    def slow(_deltas: list[Delta], _initial: bool) -> None:
        inside.set()
        assert proceed.wait(10)
        order.append("first")

    first = threading.Thread(target=fifo.pop, args=(slow,))
    first.start()
    assert inside.wait(10)
    with pytest.raises(queue.Empty):
        fifo.pop(ignore, timeout=0)
    second = threading.Thread(target=fifo.pop, args=(lambda *_: order.append("second"),))
    second.start()
    proceed.set()
    first.join(10)
    second.join(10)
    assert order == ["first", "second"]


def test_pop_inside_process_is_refused_rather_than_blocked() -> None:
    fifo = fifo_of()
    run(fifo, "A a1; A b1")
    with pytest.raises(RuntimeError, match="inside its own callback"):
        fifo.pop(lambda *_: fifo.pop(ignore))
    assert fifo.list_keys() == ["b"]


@pytest.mark.parametrize("change", ["resync", "replace"])
def test_deltas_in_process_count_as_queued(change: str) -> None:
    """A concurrent resync must not restore the old state, nor a relist without the object forget it."""
    store = Indexer()
    store.add(thing("a", 1))
    fifo = DeltaFIFO(store)
    fifo.update(thing("a", 2))

    def process(_deltas: list[Delta], _initial: bool) -> None:
        if change == "resync":
            fifo.resync()
        else:
            fifo.replace([], "9")
        store.update(thing("a", 2))

    fifo.pop(process)
    assert drain(fifo) == ([] if change == "resync" else [["T a2"]])


def test_known_objects_may_be_any_object_with_the_two_methods() -> None:
    class Known:
        def list_keys(self) -> list[str]:
            return ["foo", "gone"]

        def get_by_key(self, key: str) -> dict[str, Any] | None:
            return thing("foo", 5) if key == "foo" else None

    fifo = DeltaFIFO(Known())
    fifo.replace([thing("bar", 1)], "1")
    popped: dict[str, Any] = {}
    while len(fifo):
        (delta,) = fifo.pop(ignore)
        popped[getattr(delta.object, "key", "")] = delta.object
    assert popped["foo"] == DeletedFinalStateUnknown("foo", thing("foo", 5))
    assert popped["gone"] == DeletedFinalStateUnknown("gone")
    assert popped["bar"] == thing("bar", 1)


def test_failing_known_objects_do_not_change_the_queue() -> None:
    class Broken:
        def list_keys(self) -> list[str]:
            raise ConnectionError

        def get_by_key(self, key: str) -> None:
            raise AssertionError(key)

    fifo = DeltaFIFO(Broken())
    fifo.add(thing("a", 1))
    with pytest.raises(ConnectionError):
        fifo.replace([thing("b", 1)], "1")
    with pytest.raises(ConnectionError):
        fifo.resync()
    assert drain(fifo) == [["A a1"]]


@pytest.mark.parametrize("call", [DeltaFIFO.add, DeltaFIFO.update, DeltaFIFO.delete])
def test_a_failing_key_function_changes_nothing(call: Callable[[DeltaFIFO, Any], None]) -> None:
    def key_func(_obj: Object) -> str:
        raise LookupError("no key")

    fifo = DeltaFIFO(key_func=key_func)
    with pytest.raises(KeyFuncError) as caught:
        call(fifo, thing("a", 1))
    assert isinstance(caught.value.__cause__, LookupError)
    assert len(fifo) == 0
    assert not fifo.has_synced()


def test_a_tombstone_may_be_deleted_again() -> None:
    fifo = fifo_of(["foo5"])
    fifo.delete(DeletedFinalStateUnknown("foo", thing("foo", 5)))
    fifo.delete(thing("foo", 7))
    fifo.delete(DeletedFinalStateUnknown("foo", thing("foo", 5)))
    assert drain(fifo) == [["D foo7"]]


def test_a_failing_transform_keeps_the_object_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def transform(_obj: Object) -> Object:
        raise LookupError("broken")

    fifo = DeltaFIFO(transform=transform)
    fifo.add(thing("a", 1))
    fifo.add(thing("b", 1))
    assert drain(fifo) == [["A a1"], ["A b1"]]
    assert fifo.transform_errors == 2
    assert len([record for record in caplog.records if "transform failed" in record.message]) == 1


@pytest.mark.behaviour("findings/FQ22")
@pytest.mark.parametrize(
    ("kind", "namespace", "named"),
    [("Thing", "", "Thing a"), ("Thing", "ns", "Thing ns/a"), ("", "", "a"), ("", "ns", "ns/a")],
)
def test_messages_about_an_object_have_one_space_between_words(
    caplog: pytest.LogCaptureFixture, kind: str, namespace: str, named: str
) -> None:
    def broken(_obj: Object) -> Any:
        raise LookupError("broken")

    metadata = {"name": "a", **({"namespace": namespace} if namespace else {})}
    obj = {"metadata": metadata, **({"kind": kind} if kind else {})}
    DeltaFIFO(transform=broken).add(obj)
    assert [record.message for record in caplog.records] == [f"the transform failed for {named}; caching the original"]
    with pytest.raises(KeyFuncError, match=f"^the key function failed for {named}$"):
        DeltaFIFO(key_func=broken).add(obj)
    assert repr(Object(obj)) == f"Object({named})"


def test_a_blocked_pop_is_woken_by_the_first_object() -> None:
    fifo = fifo_of()
    popped: list[list[str]] = []
    thread = threading.Thread(target=lambda: popped.append(texts_of(fifo.pop(ignore, timeout=10))))
    thread.start()
    fifo.add(thing("a", 1))
    thread.join(10)
    assert popped == [["A a1"]]


def test_many_threads_lose_nothing() -> None:
    store = Indexer()
    fifo = DeltaFIFO(store)
    stop = threading.Event()

    def process(deltas: list[Delta], _initial: bool) -> None:
        for delta in deltas:
            if delta.type == "Deleted":
                store.delete_by_key(delta.object.key)
            else:
                assert isinstance(delta.object, Object)
                store.add(delta.object)

    def consume() -> None:
        while not stop.is_set() or len(fifo):
            try:
                fifo.pop(process, timeout=0.02)
            except queue.Empty:
                continue

    def produce(offset: int) -> None:
        for value in range(300):
            fifo.update(thing(f"k{(value + offset) % 11}x", value))
            if value % 50 == offset:
                fifo.resync()

    consumers = [threading.Thread(target=consume) for _ in range(2)]
    producers = [threading.Thread(target=produce, args=(offset,)) for offset in range(2)]
    for thread in consumers + producers:
        thread.start()
    for thread in producers:
        thread.join(30)
    fifo.replace([thing(f"k{i}x", 1000 + i) for i in range(5)], "2000")
    stop.set()
    for thread in consumers:
        thread.join(30)
    assert {obj.name: obj["v"] for obj in store.list()} == {f"k{i}x": 1000 + i for i in range(5)}
