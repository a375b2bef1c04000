"""The delta FIFO, driven through `ctrlhost.cache.DeltaFIFO`."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ctrlhost.cache import DeletedFinalStateUnknown, Object
from tests.unit.core.delta_scripts import drain, fifo_of, ignore, run, texts_of, thing

behaviour = pytest.mark.behaviour


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
def test_a_script_of_changes_pops_the_expected_deltas(
    known: list[str] | None, script: str, expected: list[list[str]]
) -> None:
    fifo = fifo_of(known)
    run(fifo, script)
    assert drain(fifo) == expected


@behaviour("informers/DF1")
@behaviour("informers/RF1")
def test_the_values_of_each_producer_keep_their_order() -> None:
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


@behaviour("informers/DF10")
def test_each_object_is_transformed_once_and_tombstones_are_not_transformed_again() -> None:
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
    assert texts_of(foo)[-1] == "D foo15"
    assert texts_of(bar)[-1] == "T bar16"
    assert calls == ["foo10", "bar11", "foo12", "foo15", "bar16"]
    for delta in foo + bar:
        obj = delta.object.object if isinstance(delta.object, DeletedFinalStateUnknown) else delta.object
        assert obj is not None
        assert obj["seen"] is True


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
