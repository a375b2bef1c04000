"""The indexes of a store: lookups, index functions and their failures."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from ctrlhost.cache import (
    Indexer,
    Object,
    namespace_index,
)
from ctrlhost.informers.indexers import UnionIndexer
from tests.unit.core.indexed_things import by_users, by_value, names, thing

behaviour = pytest.mark.behaviour


@behaviour("informers/ST9")
def test_an_index_finds_the_objects_of_a_value() -> None:
    store = Indexer({"value": by_value})
    for name, value in (("a", "b"), ("c", "b"), ("e", "f"), ("g", "h")):
        store.add(thing(name, value=value))
    assert names(store.index("value", thing("x", value="b"))) == {"a", "c"}
    assert names(store.by_index("value", "f")) == {"e"}
    assert store.index_keys("value", "h") == ["g"]


@behaviour("informers/ST10")
def test_an_index_lists_its_values() -> None:
    store = Indexer({"label": 'metadata.labels["app"]'})
    for name, label in (("one", "bar"), ("two", "bar"), ("tre", "biz")):
        obj = thing(name)
        obj["metadata"]["labels"] = {"app": label}
        store.add(obj)
    assert sorted(store.list_index_func_values("label")) == ["bar", "biz"]


@pytest.mark.parametrize("indexer", [by_users, "users[*]"], ids=["callable", "path"])
@behaviour("informers/ST11")
@behaviour("informers/ST12")
def test_an_object_may_have_several_index_values(indexer: Any) -> None:
    store = Indexer({"users": indexer})

    def users(name: str, *all_users: str) -> dict[str, Any]:
        return thing(name, users=",".join(all_users) if callable(indexer) else list(all_users))

    def names_by(value: str) -> set[str]:
        return names(store.by_index("users", value))

    store.add(users("one", "ernie", "bert"))
    store.add(users("two", "bert", "oscar"))
    store.add(users("tre", "ernie", "elmo"))
    assert names_by("ernie") == {"one", "tre"}
    assert names_by("bert") == {"one", "two"}
    assert names_by("elmo") == {"tre"}
    assert names_by("oscar") == {"two"}
    assert names_by("elmo1") == set()
    assert names(store.index("users", users("any", "ernie", "bert"))) == {"one", "two", "tre"}
    store.delete(users("tre"))
    assert names_by("ernie") == {"one"}
    assert names_by("elmo") == set()
    store.update(users("two", "oscar"))
    assert names_by("bert") == {"one"}


@behaviour("informers/ST13")
@behaviour("informers/ST14")
def test_a_value_is_removed_with_its_last_key() -> None:
    store = Indexer({"value": by_value})
    store.add(thing("a", value="x"))
    store.add(thing("b", value="x"))
    store.delete(thing("a"))
    assert store.list_index_func_values("value") == ["x"]
    assert store.index_keys("value", "x") == ["b"]
    store.delete(thing("b"))
    assert store.list_index_func_values("value") == []


@behaviour("informers/ST15")
def test_an_index_follows_every_change_of_values() -> None:
    store = Indexer({"values": lambda obj: obj["values"].split(",")})
    steps: list[tuple[str, str | None, dict[str, set[str]]]] = [
        ("key1", "foo", {"foo": {"key1"}}),
        ("key2", "bar", {"foo": {"key1"}, "bar": {"key2"}}),
        ("key2", "foo,bar", {"foo": {"key1", "key2"}, "bar": {"key2"}}),
        ("key1", "foo,bar", {"foo": {"key1", "key2"}, "bar": {"key1", "key2"}}),
        ("key3", "foo,bar,baz", {"foo": {"key1", "key2", "key3"}, "bar": {"key1", "key2", "key3"}, "baz": {"key3"}}),
        ("key1", "foo", {"foo": {"key1", "key2", "key3"}, "bar": {"key2", "key3"}, "baz": {"key3"}}),
        ("key2", "bar", {"foo": {"key1", "key3"}, "bar": {"key2", "key3"}, "baz": {"key3"}}),
        ("key1", None, {"foo": {"key3"}, "bar": {"key2", "key3"}, "baz": {"key3"}}),
        ("key3", None, {"bar": {"key2"}}),
    ]
    for name, values, expected in steps:
        if values is None:
            store.delete(thing(name))
        else:
            store.update(thing(name, values=values))
        assert set(store.list_index_func_values("values")) == set(expected)
        for value in ("foo", "bar", "baz"):
            assert set(store.index_keys("values", value)) == expected.get(value, set())


@behaviour("informers/ST21")
def test_an_index_on_several_stores_is_added_to_each() -> None:
    """There is no typed store: a wrapper of a store returns the same `Object` and adds to its indexes."""
    raw = Indexer({"value": by_value})
    read = UnionIndexer([raw])
    for name, value in (("one", "a"), ("two", "b"), ("three", "a")):
        raw.add(thing(name, value=value, users=f"ernie,{name}"))
    for indexer in (raw, read):
        results = [indexer.index("value", thing("other", value="a")), indexer.by_index("value", "a")]
        assert [names(objects) for objects in results] == [{"one", "three"}] * 2
        assert all(isinstance(obj, Object) for objects in results for obj in objects)
    with pytest.raises(KeyError, match="users"):
        read.by_index("users", "ernie")
    with pytest.raises(KeyError, match="users"):
        read.index("users", thing("one", users="ernie"))
    read.add_indexers({"users": by_users})
    for indexer in (raw, read):
        assert names(indexer.by_index("users", "ernie")) == {"one", "two", "three"}
        assert names(indexer.index("users", thing("other", users="two"))) == {"two"}
    assert raw.indexers == ("value", "users")


@behaviour("informers/ST21")
@behaviour("informers/ST22")
def test_an_index_may_be_added_to_a_full_store() -> None:
    store = Indexer()
    for name, value in (("one", "a"), ("two", "b")):
        store.add(thing(name, "ns", value=value))
    store.add_indexers({"value": by_value, "path": "value"})
    assert names(store.by_index("value", "a")) == {"one"}
    assert names(store.by_index("path", "b")) == {"two"}
    assert sorted(store.list_index_func_values("value")) == sorted(store.list_index_func_values("path")) == ["a", "b"]
    store.update(thing("one", "ns", value="b"))
    assert names(store.by_index("value", "b")) == names(store.by_index("path", "b")) == {"one", "two"}
    assert store.indexers == ("namespace", "value", "path")


@behaviour("informers/ST21")
@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.by_index("nothing", "x"),
        lambda store: store.index_keys("nothing", "x"),
        lambda store: store.list_index_func_values("nothing"),
        lambda store: store.index("nothing", thing("a")),
    ],
)
def test_an_unknown_index_is_named(call: Callable[[Indexer], object]) -> None:
    with pytest.raises(KeyError, match="nothing"):
        call(Indexer())


def test_a_duplicate_index_name_is_refused_and_adds_nothing() -> None:
    store = Indexer()
    with pytest.raises(ValueError, match="indexer conflict"):
        store.add_indexers({"new": by_value, "namespace": namespace_index})
    assert store.indexers == ("namespace",)


def test_the_default_index_is_by_namespace() -> None:
    store = Indexer()
    store.replace([thing("a", "one"), thing("b", "two"), thing("c")])
    assert names(store.by_index("namespace", "one")) == {"a"}
    assert names(store.by_index("namespace", "")) == {"c"}
    assert store.by_index("namespace", "three") == []
    assert namespace_index(thing("a", "one")) == ["one"]
    custom = Indexer({"namespace": namespace_index})
    custom.add(thing("a", "one"))
    assert custom.index_keys("namespace", "one") == ["one/a"]


def test_a_failing_index_function_omits_the_object_from_that_index_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def failing_index(obj: Object) -> list[str]:
        return [obj["value"]]

    store = Indexer({"picky": failing_index, "namespace": namespace_index})
    store.add(thing("good", "ns", value="x"))
    store.add(thing("bad", "ns"))
    store.add(thing("worse", "ns", value=7))
    assert names(store.list()) == {"good", "bad", "worse"}
    assert names(store.by_index("picky", "x")) == {"good"}
    assert names(store.by_index("namespace", "ns")) == {"good", "bad", "worse"}
    assert store.index_errors == 2
    # Once for each kind of error.
    kinds = [record.exc_info[0] for record in caplog.records if "picky" in record.message and record.exc_info]
    assert kinds == [KeyError, TypeError]
    store.add(thing("worst", "ns"))
    assert (store.index_errors, len(caplog.records)) == (3, 2)
    store.update(thing("good", "ns"))
    assert store.by_index("picky", "x") == []


def test_a_bare_string_is_not_a_list_of_values(caplog: pytest.LogCaptureFixture) -> None:
    store = Indexer({"value": lambda obj: obj["value"]})
    store.add(thing("a", value="xyz"))
    assert store.list_index_func_values("value") == []
    assert store.index_errors == 1
    assert caplog.records[0].exc_info is not None
    assert caplog.records[0].exc_info[0] is TypeError


def test_an_index_function_may_return_none_and_duplicates() -> None:
    store = Indexer({"value": lambda obj: None if obj.name == "none" else ("x", "x", "y")})
    store.add(thing("none"))
    store.add(thing("a"))
    assert store.index_errors == 0
    assert sorted(store.list_index_func_values("value")) == ["x", "y"]
    assert store.index_keys("value", "x") == ["a"]


@pytest.mark.parametrize("bad", ["", "a..b", "a[", "a[x]", 'a["b', "a[0]b"])
def test_an_invalid_path_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="path"):
        Indexer({"bad": bad})


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("spec.rules[*].host", ["a.example", "b.example"]),
        ("spec.rules[0].host", ["a.example"]),
        ("spec.rules[7].host", []),
        ("spec.ports[*]", ["80", "443"]),
        ("spec.paused", ["true"]),
        ("spec.nothing", []),
        ("spec.rules", []),
        ("spec.selector.*", ["web", "front"]),
        ('metadata.labels["app.kubernetes.io/name"]', ["shop"]),
        ("metadata.name", ["x"]),
        ("$.metadata.name", ["x"]),
    ],
)
def test_a_path_yields_the_scalars_at_its_end(path: str, expected: list[str]) -> None:
    obj = thing(
        "x",
        spec={
            "rules": [{"host": "a.example"}, {"host": "b.example"}, {"host": None}, {}],
            "ports": [80, 443, 80],
            "paused": True,
            "nothing": None,
            "selector": {"app": "web", "tier": "front"},
        },
    )
    obj["metadata"]["labels"] = {"app.kubernetes.io/name": "shop"}
    store = Indexer({"path": path})
    store.add(obj)
    assert sorted(store.list_index_func_values("path")) == sorted(expected)


def test_readers_see_the_old_or_the_new_state() -> None:
    store = Indexer()
    states = [[thing(f"{state}{index}", state) for index in range(50)] for state in ("a", "b")]
    store.replace(states[0])
    stop = threading.Event()
    mixtures: list[set[str]] = []

    def read() -> None:
        while not stop.is_set():
            seen = {obj.namespace for obj in store.list()}
            if len(seen) != 1:
                mixtures.append(seen)

    reader = threading.Thread(target=read)
    reader.start()
    for turn in range(200):
        store.replace(states[turn % 2])
    stop.set()
    reader.join(10)
    assert mixtures == []


def test_an_index_added_during_writes_is_complete() -> None:
    store = Indexer()
    stop = threading.Event()

    def write(offset: int) -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            store.update(thing(f"k{offset}-{turn % 20}", value=str(turn % 3)))

    writers = [threading.Thread(target=write, args=(offset,)) for offset in range(2)]
    for writer in writers:
        writer.start()
    for number in range(20):
        store.add_indexers({f"value{number}": by_value})
    stop.set()
    for writer in writers:
        writer.join(10)
    expected: dict[str, set[str]] = {}
    for obj in store.list():
        expected.setdefault(obj["value"], set()).add(obj.key)
    for number in range(20):
        name = f"value{number}"
        assert {v: set(store.index_keys(name, v)) for v in store.list_index_func_values(name)} == expected
