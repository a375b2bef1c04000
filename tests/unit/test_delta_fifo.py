"""The delta FIFO, driven through `ctrlhost.cache.DeltaFIFO`."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from ctrlhost.cache import Closed, DeletedFinalStateUnknown, Delta, DeltaFIFO, Indexer, KeyFuncError, Object

behaviour = pytest.mark.behaviour


def thing(name: str, value: int) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": name, "resourceVersion": str(value)}, "v": value}


def things(*texts: str) -> list[dict[str, Any]]:
    return [thing(*split(text)) for text in texts]


def split(text: str) -> tuple[str, int]:
    name = text.rstrip("0123456789")
    return name, int(text[len(name) :])


def fifo_of(known: Iterable[str] | None = None, **options: Any) -> DeltaFIFO:
    """A FIFO that knows those objects, for example `["foo5", "bar6"]`; upstream's tables assume `Sync` for relists."""
    options.setdefault("emit_replaced", False)
    if known is None:
        return DeltaFIFO(**options)
    store = Indexer()
    store.replace(things(*known))
    return DeltaFIFO(store, **options)


def shown(deltas: list[Delta]) -> list[str]:
    """Deltas as `A foo5` (added), U, D, R, S, and `T foo5` for a tombstone with that last state."""
    texts = []
    for delta in deltas:
        if isinstance(delta.object, DeletedFinalStateUnknown):
            assert delta.type == "Deleted"
            last = delta.object.object
            assert last is not None
            assert last.key == delta.object.key
            texts.append(f"T {last.name}{last['v']}")
        else:
            texts.append(f"{delta.type[0]} {delta.object.name}{delta.object['v']}")
    return texts


def run(fifo: DeltaFIFO, script: str) -> None:
    """Steps such as `A foo10; U foo12; D foo15; L foo1,bar2; L; resync`."""
    for step in script.split(";"):
        what, _, rest = step.strip().partition(" ")
        match what:
            case "A":
                fifo.add(thing(*split(rest)))
            case "U":
                fifo.update(thing(*split(rest)))
            case "D":
                fifo.delete(thing(*split(rest)))
            case "L":
                fifo.replace(things(*[one for one in rest.split(",") if one]), "0")
            case "resync":
                fifo.resync()
            case _:
                pytest.fail(step)


def ignore(_deltas: list[Delta], _initial: bool) -> None:
    pass


def drain(fifo: DeltaFIFO) -> list[list[str]]:
    popped = []
    while len(fifo):
        popped.append(shown(fifo.pop(ignore, timeout=5)))
    return popped


@pytest.mark.parametrize(
    ("known", "script", "expected"),
    [
        pytest.param(["foo1"], "D foo1; L foo2", [["D foo1", "S foo2"]], marks=behaviour("informers/DF2")),
        pytest.param([], "A foo2; L", [["A foo2", "T foo2"]], marks=behaviour("informers/DF3")),
        pytest.param(None, "A foo2; L", [["A foo2", "T foo2"]], marks=behaviour("informers/DF3")),
        pytest.param([], "A foo2; D foo2; L", [["A foo2", "D foo2"]], marks=behaviour("informers/DF5")),
        pytest.param(
            [],
            "A foo2; L foo2; L foo2; L",
            [["A foo2", "S foo2", "S foo2", "T foo2"]],
            marks=behaviour("informers/DF6"),
        ),
        pytest.param([], "A foo2; L; L", [["A foo2", "T foo2"]], marks=behaviour("informers/DF7")),
        pytest.param(
            [],
            "A foo2; D foo2; A foo3; L",
            [["A foo2", "D foo2", "A foo3", "T foo3"]],
            marks=behaviour("informers/DF8"),
        ),
        pytest.param(
            None,
            "A foo10; U bar15; A qux17; D qux18; D baz20",
            [["A foo10"], ["U bar15"], ["A qux17", "D qux18"]],
            marks=behaviour("informers/DF11"),
        ),
        pytest.param(
            ["foo5", "bar6", "baz7"],
            "A foo10; U bar15; D baz20",
            [["A foo10"], ["U bar15"], ["D baz20"]],
            marks=behaviour("informers/DF12"),
        ),
        pytest.param(None, "A foo10; L foo15", [["A foo10", "S foo15"]], marks=behaviour("informers/DF13")),
        pytest.param(["foo5"], "D foo10; resync", [["D foo10"]], marks=behaviour("informers/DF14")),
        pytest.param(["foo5"], "resync", [["S foo5"]], marks=behaviour("informers/DF15")),
        pytest.param([], "A foo5; D foo6", [["A foo5", "D foo6"]], marks=behaviour("informers/DF16")),
        pytest.param(
            ["foo5", "bar6", "baz7"],
            "D baz10; L foo5",
            [["D baz10"], ["S foo5"], ["T bar6"]],
            marks=behaviour("informers/DF17"),
        ),
        pytest.param(
            ["foo5", "bar6", "baz7"],
            "A baz10; L foo5",
            [["A baz10", "T baz10"], ["S foo5"], ["T bar6"]],
            marks=behaviour("informers/DF18"),
        ),
        pytest.param(
            ["foo5", "bar6", "baz7"],
            "D bar6; A bar100; L foo5",
            [["D bar6", "A bar100", "T bar100"], ["S foo5"], ["T baz7"]],
            marks=behaviour("informers/DF19"),
        ),
        pytest.param(
            ["foo5", "bar6", "baz7"],
            "L bar100,foo5; L foo5",
            [["S bar100", "T bar100"], ["S foo5", "S foo5"], ["T baz7"]],
            marks=behaviour("informers/DF20"),
        ),
        pytest.param(None, "A baz10; L foo5", [["A baz10", "T baz10"], ["S foo5"]], marks=behaviour("informers/DF21")),
        pytest.param(["foo5"], "U foo6; resync", [["U foo6"]], marks=behaviour("informers/DF24")),
    ],
)
def test_what_is_popped_after_a_script(known: list[str] | None, script: str, expected: list[list[str]]) -> None:
    fifo = fifo_of(known)
    run(fifo, script)
    assert drain(fifo) == expected


@pytest.mark.parametrize(
    ("known", "script", "expected"),
    [
        pytest.param(None, "A foo2; L foo2; L", [["A foo2", "R foo2", "T foo2"]], marks=behaviour("informers/DF4")),
        pytest.param(
            ["foo5", "bar6", "baz7"],
            "D baz10; L foo6",
            [["D baz10"], ["R foo6"], ["T bar6"]],
            marks=behaviour("informers/DF22"),
        ),
        pytest.param(["foo5"], "L foo5", [["R foo5"]], marks=behaviour("informers/DF23")),
    ],
)
def test_relists_say_replaced_by_default(known: list[str] | None, script: str, expected: list[list[str]]) -> None:
    fifo = fifo_of(known, emit_replaced=True)
    run(fifo, script)
    assert drain(fifo) == expected


@pytest.mark.parametrize(
    ("known", "script", "expected"),
    [
        pytest.param(["foo1"], "D foo1; L foo2", "D foo1, R foo2", marks=behaviour("informers/RF2")),
        pytest.param([], "A foo2; L", "A foo2, T foo2", marks=behaviour("informers/RF3")),
        pytest.param([], "A foo2; D foo2; L", "A foo2, D foo2", marks=behaviour("informers/RF3")),
        pytest.param(
            [], "A foo2; L foo2; L foo2; L", "A foo2, R foo2, R foo2, T foo2", marks=behaviour("informers/RF3")
        ),
        pytest.param([], "A foo2; L; L", "A foo2, T foo2", marks=behaviour("informers/RF3")),
        pytest.param(
            [], "A foo2; D foo2; A foo3; L", "A foo2, D foo2, A foo3, T foo3", marks=behaviour("informers/RF3")
        ),
        pytest.param([], "A foo10; U foo12; D foo15", "A foo10, U foo12, D foo15", marks=behaviour("informers/RF5")),
        pytest.param([], "A foo10; L foo15", "A foo10, R foo15", marks=behaviour("informers/RF8")),
        pytest.param(["foo5"], "D foo10; resync", "D foo10", marks=behaviour("informers/RF9")),
        pytest.param(["foo5"], "resync", "S foo5", marks=behaviour("informers/RF9")),
        pytest.param([], "A foo5; D foo6", "A foo5, D foo6", marks=behaviour("informers/RF9")),
        pytest.param(["foo5"], "U foo6; resync", "U foo6", marks=behaviour("informers/RF9")),
    ],
)
def test_the_changes_of_a_key_are_those_of_the_queue_in_order(known: list[str], script: str, expected: str) -> None:
    """Upstream's other queue hands out single deltas; of one key ours are the same, in one piece (decision 12)."""
    fifo = fifo_of(known, emit_replaced=True)
    run(fifo, script)
    assert ", ".join(text for popped in drain(fifo) for text in popped) == expected
    assert len(fifo) == 0


@behaviour("informers/DF1")
@behaviour("informers/RF1")
def test_the_values_of_each_producer_come_in_its_order() -> None:
    fifo = fifo_of()

    def produce(name: str) -> None:
        for value in range(1, 501):
            fifo.add(thing(f"{name}{value % 7}x", value))

    producers = [threading.Thread(target=produce, args=(name,)) for name in ("a", "b")]
    for producer in producers:
        producer.start()
    seen: dict[str, list[int]] = {}
    total = 0
    while total < 1000:
        for delta in fifo.pop(ignore, timeout=10):
            assert isinstance(delta.object, Object)
            seen.setdefault(delta.object.name, []).append(delta.object["v"])
            total += 1
    for producer in producers:
        producer.join()
    assert total == 1000
    assert all(values == sorted(values) for values in seen.values())


@behaviour("informers/DF9")
def test_a_key_that_changed_often_is_popped_once_with_its_newest_state() -> None:
    """The queue shows its keys; it has no list of objects (decision 12)."""
    fifo = fifo_of()
    run(fifo, "A foo10; U foo12; D foo15")
    assert fifo.list_keys() == ["foo"]
    assert drain(fifo) == [["A foo10", "U foo12", "D foo15"]]
    assert fifo.list_keys() == []


@behaviour("informers/DF10")
def test_every_object_is_transformed_once_and_tombstones_are_not_again() -> None:
    calls: list[str] = []

    def transform(obj: Object) -> dict[str, Any]:
        assert "seen" not in obj
        calls.append(f"{obj.name}{obj['v']}")
        return obj.to_dict() | {"seen": True}

    fifo = fifo_of([], transform=transform)
    run(fifo, "A foo10; A bar11; U foo12; D foo15; L; A bar16; L")
    assert fifo.list_keys() == ["foo", "bar"]
    foo = fifo.pop(ignore)
    bar = fifo.pop(ignore)
    assert shown(foo)[-1] == "D foo15"
    assert shown(bar)[-1] == "T bar16"
    assert calls == ["foo10", "bar11", "foo12", "foo15", "bar16"]
    for delta in foo + bar:
        obj = delta.object.object if isinstance(delta.object, DeletedFinalStateUnknown) else delta.object
        assert obj is not None
        assert obj["seen"] is True


@behaviour("informers/DF25")
@behaviour("informers/RF14")
def test_tombstones_of_the_first_list_belong_to_it() -> None:
    fifo = fifo_of(["foo5", "bar6", "baz7"])
    run(fifo, "L foo5")
    flags = []
    popped = []
    for _ in range(3):
        assert not fifo.has_synced()
        popped += shown(fifo.pop(lambda _deltas, initial: flags.append(initial)))
    assert popped[0] == "S foo5"
    assert sorted(popped[1:]) == ["T bar6", "T baz7"]
    assert flags == [True, True, True]
    assert fifo.has_synced()


@behaviour("informers/DF26")
def test_a_key_keeps_its_place_and_a_popped_one_goes_to_the_end() -> None:
    fifo = fifo_of()
    run(fifo, "A foo10; A bar1; A foo11; A foo13; A zab30")
    newest = [shown(fifo.pop(ignore))[-1]]
    run(fifo, "A foo14")
    newest += [shown(fifo.pop(ignore))[-1] for _ in range(3)]
    assert newest == ["A foo13", "A bar1", "A zab30", "A foo14"]


@pytest.mark.parametrize(
    ("script", "pops", "synced"),
    [
        ("", 0, False),
        ("A a1", 0, True),
        ("L", 0, True),
        ("L a1,b2", 0, False),
        ("L a1,b2", 1, False),
        ("L a1,b2", 2, True),
        ("L a1,a2", 1, True),
    ],
)
@behaviour("informers/DF28")
def test_it_is_synced_once_the_first_list_is_popped(script: str, pops: int, synced: bool) -> None:
    fifo = fifo_of()
    if script:
        run(fifo, script)
    for _ in range(pops):
        fifo.pop(ignore)
    assert fifo.has_synced() is synced


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
    fifo.close()
    for thread in threads:
        thread.join(5)
    assert outcomes == ["closed"] * 10
    fifo.add(thing("late", 1))
    assert len(fifo) == 0


def test_it_is_not_synced_while_the_last_object_of_the_first_list_is_processed() -> None:
    fifo = fifo_of()
    run(fifo, "L a1")
    seen = []
    fifo.pop(lambda _deltas, initial: seen.append((fifo.has_synced(), initial)))
    assert seen == [(False, True)]
    assert fifo.has_synced()


def test_what_process_raises_reaches_the_caller_and_the_key_is_not_queued_again() -> None:
    fifo = fifo_of()
    run(fifo, "L a1")

    def fail(_deltas: list[Delta], _initial: bool) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        fifo.pop(fail)
    assert len(fifo) == 0
    assert fifo.has_synced()


def test_a_pop_that_times_out_says_empty() -> None:
    fifo = fifo_of()
    with pytest.raises(queue.Empty):
        fifo.pop(ignore, timeout=0)
    with pytest.raises(ValueError, match="timeout"):
        fifo.pop(ignore, timeout=-1)


def test_the_queue_takes_changes_while_deltas_are_processed() -> None:
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
    inside, go_on = threading.Event(), threading.Event()
    order: list[str] = []

    def slow(_deltas: list[Delta], _initial: bool) -> None:
        inside.set()
        assert go_on.wait(10)
        order.append("first")

    first = threading.Thread(target=fifo.pop, args=(slow,))
    first.start()
    assert inside.wait(10)
    with pytest.raises(queue.Empty):
        fifo.pop(ignore, timeout=0)
    second = threading.Thread(target=fifo.pop, args=(lambda *_: order.append("second"),))
    second.start()
    go_on.set()
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
def test_what_is_being_processed_counts_as_queued(change: str) -> None:
    """A resync meanwhile must not bring back the old state, and a relist without it must not forget it."""
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


def test_known_objects_that_fail_leave_the_queue_as_it_was() -> None:
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
def test_a_key_function_that_fails_changes_nothing(call: Callable[[DeltaFIFO, Any], None]) -> None:
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


def test_a_transform_that_fails_keeps_the_object_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    def transform(_obj: Object) -> Object:
        raise LookupError("broken")

    fifo = DeltaFIFO(transform=transform)
    fifo.add(thing("a", 1))
    fifo.add(thing("b", 1))
    assert drain(fifo) == [["A a1"], ["A b1"]]
    assert fifo.transform_errors == 2
    assert len([record for record in caplog.records if "transform failed" in record.message]) == 1


def test_a_blocked_pop_is_woken_by_the_first_object() -> None:
    fifo = fifo_of()
    popped: list[list[str]] = []
    thread = threading.Thread(target=lambda: popped.append(shown(fifo.pop(ignore, timeout=10))))
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
