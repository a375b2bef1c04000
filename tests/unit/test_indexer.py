"""The indexed store, through `ctrlhost.cache.Indexer`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from ctrlhost.cache import (
    DeletedFinalStateUnknown,
    Indexer,
    KeyFuncError,
    Object,
    TransactionError,
    namespace_index,
)
from ctrlhost.informers import selectors
from ctrlhost.informers.lister import Lister, UnionIndexer

behaviour = pytest.mark.behaviour


def thing(name: str, namespace: str = "", version: int | str = "", **fields: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if version != "":
        metadata["resourceVersion"] = str(version)
    return {"apiVersion": "v1", "kind": "Thing", "metadata": metadata, **fields}


def by_value(obj: Object) -> list[str]:
    return [obj["value"]]


def by_users(obj: Object) -> list[str]:
    return str(obj["users"]).split(",")


def names(objects: list[Object]) -> set[str]:
    assert len({obj.key for obj in objects}) == len(objects)
    return {obj.name for obj in objects}


@pytest.fixture(params=["plain", "transformed"])
def store(request: pytest.FixtureRequest) -> Indexer:
    """ST5: a store with a transform behaves as one without."""
    if request.param == "plain":
        return Indexer()
    return Indexer(transform=lambda obj: obj.to_dict() | {"transformed": True})


@behaviour("informers/ST1")
@behaviour("informers/ST5")
def test_what_was_added_is_found_by_object_and_by_key(store: Indexer) -> None:
    store.add(thing("foo", value="bar"))
    found = store.get(thing("foo"))
    assert found is not None
    assert found["value"] == "bar"
    assert store.get_by_key("foo") == found
    assert "foo" in store
    assert len(store) == 1


@behaviour("informers/ST5")
def test_a_transform_is_applied_to_what_is_stored() -> None:
    calls: list[str] = []

    def transform(obj: Object) -> dict[str, Any]:
        calls.append(obj.name)
        return obj.to_dict() | {"seen": True}

    store = Indexer(transform=transform)
    store.add(thing("a"))
    store.update(thing("b"))
    store.replace([thing("c")], "1")
    store.delete(thing("a"))
    assert calls == ["a", "b", "c"]
    assert [obj["seen"] for obj in store.list()] == [True]


@behaviour("informers/ST2")
@behaviour("informers/ST5")
def test_update_replaces_and_delete_removes(store: Indexer) -> None:
    store.add(thing("foo", value="bar"))
    store.update(thing("foo", value="baz"))
    found = store.get_by_key("foo")
    assert found is not None
    assert found["value"] == "baz"
    store.delete(thing("foo"))
    assert store.get_by_key("foo") is None
    assert store.get(thing("foo")) is None
    store.delete(thing("foo"))
    store.delete(DeletedFinalStateUnknown("foo"))
    assert store.list() == []


@behaviour("informers/ST3")
@behaviour("informers/ST5")
def test_list_gives_every_object_once(store: Indexer) -> None:
    for name in ("a", "c", "e"):
        store.add(thing(name, value=name.upper()))
    assert sorted(obj["value"] for obj in store.list()) == ["A", "C", "E"]
    assert sorted(store.list_keys()) == ["a", "c", "e"]


@behaviour("informers/ST4")
@behaviour("informers/ST5")
def test_replace_leaves_nothing_of_what_was_there(store: Indexer) -> None:
    store.add(thing("old", "ns"))
    store.replace([thing("foo"), thing("bar")], "1")
    assert names(store.list()) == {"foo", "bar"}
    assert store.list_index_func_values("namespace") == [""]


@behaviour("informers/ST6")
def test_the_cause_of_a_key_error_can_be_reached() -> None:
    class NoKeyError(Exception):
        pass

    def key_func(_obj: Object) -> str:
        try:
            raise NoKeyError
        except NoKeyError as inner:
            raise LookupError("wrapped") from inner

    store = Indexer(key_func=key_func)
    with pytest.raises(KeyFuncError) as caught:
        store.add(thing("a"))
    assert isinstance(caught.value.__cause__, LookupError)
    assert isinstance(caught.value.__cause__.__cause__, NoKeyError)
    with pytest.raises(KeyFuncError):
        store.replace([thing("a")], "5")
    assert len(store) == 0
    assert store.resource_version == ""


def failing_key(obj: Object) -> str:
    if obj.get("fail"):
        raise LookupError("no key")
    return obj.key


@pytest.mark.parametrize(
    ("fail", "successful"), [([False, False], None), ([True, True], ()), ([False, True, False, True], (0, 2))]
)
@behaviour("informers/ST7")
def test_a_transaction_applies_what_has_a_key_and_names_the_rest(
    fail: list[bool], successful: tuple[int, ...] | None
) -> None:
    store = Indexer(key_func=failing_key)
    operations = [("add", thing(f"t{index}", fail=bad)) for index, bad in enumerate(fail)]
    if successful is None:
        store.transaction(operations)
    else:
        with pytest.raises(TransactionError, match=rf"failed to execute \({sum(fail)}/{len(fail)}\)") as caught:
            store.transaction(operations)
        assert caught.value.successful == successful
        assert all(isinstance(error, KeyFuncError) for error in caught.value.errors)
    assert names(store.list()) == {f"t{index}" for index, bad in enumerate(fail) if not bad}


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
def test_an_object_may_stand_under_several_values(indexer: Any) -> None:
    store = Indexer({"users": indexer})

    def users(name: str, *all_users: str) -> dict[str, Any]:
        return thing(name, users=",".join(all_users) if callable(indexer) else list(all_users))

    def found(value: str) -> set[str]:
        return names(store.by_index("users", value))

    store.add(users("one", "ernie", "bert"))
    store.add(users("two", "bert", "oscar"))
    store.add(users("tre", "ernie", "elmo"))
    assert found("ernie") == {"one", "tre"}
    assert found("bert") == {"one", "two"}
    assert found("elmo") == {"tre"}
    assert found("oscar") == {"two"}
    assert found("elmo1") == set()
    assert names(store.index("users", users("any", "ernie", "bert"))) == {"one", "two", "tre"}
    store.delete(users("tre"))
    assert found("ernie") == {"one"}
    assert found("elmo") == set()
    store.update(users("two", "oscar"))
    assert found("bert") == {"one"}


@behaviour("informers/ST13")
@behaviour("informers/ST14")
def test_a_value_goes_with_its_last_key() -> None:
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


@behaviour("informers/ST16")
@behaviour("informers/ST17")
def test_the_store_has_the_version_of_the_last_write() -> None:
    store = Indexer()
    seen = [store.resource_version]
    store.add(thing("a", version=10))
    seen.append(store.resource_version)
    store.add(thing("b", version=10))
    seen.append(store.resource_version)
    store.add(thing("b", version=20))
    seen.append(store.resource_version)
    store.delete(thing("b", version=30))
    seen.append(store.resource_version)
    # An object without a version (upstream's test stores a plain string) leaves it as it is.
    store.add(thing("c"))
    seen.append(store.resource_version)
    store.add(thing("c", version=40))
    seen.append(store.resource_version)
    store.delete_by_key("c")
    seen.append(store.resource_version)
    store.transaction([("add", thing(str(version), version=version)) for version in (40, 30, 50)])
    seen.append(store.resource_version)
    assert seen == ["", "10", "10", "20", "30", "30", "40", "40", "50"]


@behaviour("informers/ST18")
def test_replace_and_bookmark_set_the_version() -> None:
    store = Indexer()
    store.replace([thing("a", version=40), thing("b", version=30)], "50")
    assert store.resource_version == "50"
    store.bookmark("60")
    assert store.resource_version == "60"


@behaviour("informers/ST24")
def test_a_transform_that_drops_the_version_leaves_that_of_the_list() -> None:
    """What a transform gives must have a name, so it is a mapping of another shape and not upstream's plain string."""

    def shape(obj: Object) -> dict[str, Any]:
        return {"metadata": {"name": obj.name}, "text": f"{obj.name} {obj['value']}"}

    store = Indexer(transform=shape)
    seen = []

    def note() -> None:
        seen.append((store.resource_version, [obj.to_dict()["text"] for obj in store.list()]))
        assert all("value" not in obj.to_dict() and obj.resource_version == "" for obj in store.list())

    store.replace([thing("a", version=1, value="x")], "1")
    note()
    for version, value in ((2, "y"), (3, "z")):
        store.update(thing("a", version=version, value=value))
        note()
    store.replace([thing("a", version=3, value="z")], "3")
    note()
    assert seen == [("1", ["a x"]), ("1", ["a y"]), ("1", ["a z"]), ("3", ["a z"])]


@behaviour("informers/ST20")
@pytest.mark.parametrize(
    ("selector", "given", "looked_at"),
    [("app=matching", 10_000, 100_000), ("", 100_000, 0), ("app=none", 0, 100_000)],
)
def test_a_list_gives_what_its_selector_matches(
    many: Indexer, monkeypatch: pytest.MonkeyPatch, selector: str, given: int, looked_at: int
) -> None:
    """A list is given instead of callbacks, so its length is their number.

    Upstream's million for the last two is a size to measure, 100,000 count as well.
    """
    matches, looks = selectors.matches, []

    def counted(*args: Any) -> bool:
        looks.append(None)
        return matches(*args)

    monkeypatch.setattr(selectors, "matches", counted)
    found = Lister(many).list(label_selector=selector)
    assert (len(found), len(looks)) == (given, looked_at)
    assert len({obj.key for obj in found}) == given


@pytest.fixture(scope="module")
def many() -> Indexer:
    """Hold 100,000 objects, every tenth of which is labelled as matching."""
    store = Indexer()
    store.replace(
        {"metadata": {"name": f"t{number}", "labels": {"app": "other" if number % 10 else "matching"}}}
        for number in range(100_000)
    )
    return store


@behaviour("informers/ST21")
def test_what_reads_several_stores_indexes_each_of_them() -> None:
    """Nothing is typed apart from the raw store: a wrapper of it gives the same `Object`, and adds to its indexes."""
    raw = Indexer({"value": by_value})
    read = UnionIndexer([raw])
    for name, value in (("one", "a"), ("two", "b"), ("three", "a")):
        raw.add(thing(name, value=value, users=f"ernie,{name}"))
    for indexer in (raw, read):
        found = [indexer.index("value", thing("other", value="a")), indexer.by_index("value", "a")]
        assert [names(objects) for objects in found] == [{"one", "three"}] * 2
        assert all(isinstance(obj, Object) for objects in found for obj in objects)
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


def test_a_second_index_of_a_name_is_refused_and_nothing_is_added() -> None:
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


def test_an_index_function_that_fails_leaves_the_object_out_of_that_index_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def picky(obj: Object) -> list[str]:
        return [obj["value"]]

    store = Indexer({"picky": picky, "namespace": namespace_index})
    store.add(thing("good", "ns", value="x"))
    store.add(thing("bad", "ns"))
    store.add(thing("worse", "ns", value=7))
    assert names(store.list()) == {"good", "bad", "worse"}
    assert names(store.by_index("picky", "x")) == {"good"}
    assert names(store.by_index("namespace", "ns")) == {"good", "bad", "worse"}
    assert store.index_errors == 2
    assert len([record for record in caplog.records if "picky" in record.message]) == 1
    store.update(thing("good", "ns"))
    assert store.by_index("picky", "x") == []


def test_a_bare_string_is_no_list_of_values(caplog: pytest.LogCaptureFixture) -> None:
    store = Indexer({"value": lambda obj: obj["value"]})
    store.add(thing("a", value="xyz"))
    assert store.list_index_func_values("value") == []
    assert store.index_errors == 1
    assert caplog.records[0].exc_info is not None
    assert caplog.records[0].exc_info[0] is TypeError


def test_an_index_function_may_give_none_and_repeat_itself() -> None:
    store = Indexer({"value": lambda obj: None if obj.name == "none" else ("x", "x", "y")})
    store.add(thing("none"))
    store.add(thing("a"))
    assert store.index_errors == 0
    assert sorted(store.list_index_func_values("value")) == ["x", "y"]
    assert store.index_keys("value", "x") == ["a"]


@pytest.mark.parametrize("bad", ["", "a..b", "a[", "a[x]", 'a["b', "a[0]b"])
def test_what_is_no_path_is_refused(bad: str) -> None:
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
def test_a_path_gives_the_scalars_it_leads_to(path: str, expected: list[str]) -> None:
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


def test_readers_see_the_old_or_the_new_world() -> None:
    store = Indexer()
    worlds = [[thing(f"{world}{index}", world) for index in range(50)] for world in ("a", "b")]
    store.replace(worlds[0])
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
        store.replace(worlds[turn % 2])
    stop.set()
    reader.join(10)
    assert mixtures == []


def test_an_index_added_while_others_write_is_complete() -> None:
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


def test_memory_follows_the_content() -> None:
    store = Indexer()
    assert store.memory == 0
    store.add(thing("a", padding="x" * 1000))
    assert 1000 < store.memory < 2000
    store.delete(thing("a"))
    assert store.memory == 0
