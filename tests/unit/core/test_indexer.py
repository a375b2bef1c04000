"""The indexed store, through `ctrlhost.cache.Indexer`."""

from __future__ import annotations

from typing import Any

import pytest

from ctrlhost.cache import (
    DeletedFinalStateUnknown,
    Indexer,
    KeyFuncError,
    Object,
    TransactionError,
)
from ctrlhost.informers.lister import Lister
from tests.unit.core.indexed_things import names, thing

behaviour = pytest.mark.behaviour


@pytest.fixture(params=["plain", "transformed"])
def store(request: pytest.FixtureRequest) -> Indexer:
    """ST5: a store with a transform behaves as one without."""
    if request.param == "plain":
        return Indexer()
    return Indexer(transform=lambda obj: obj.to_dict() | {"transformed": True})


@behaviour("informers/ST1")
@behaviour("informers/ST5")
def test_an_added_object_is_found_by_object_and_by_key(store: Indexer) -> None:
    store.add(thing("foo", value="bar"))
    obj = store.get(thing("foo"))
    assert obj is not None
    assert obj["value"] == "bar"
    assert store.get_by_key("foo") == obj
    assert "foo" in store
    assert len(store) == 1


@behaviour("informers/ST5")
def test_a_transform_is_applied_to_stored_objects() -> None:
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


@behaviour("findings/FQ11")
def test_a_transform_does_not_change_the_key() -> None:
    store = Indexer(transform=lambda obj: {"metadata": {"name": "other"}})
    store.add(thing("a", "ns"))
    assert store.list_keys() == ["ns/a"]
    store.delete(thing("a", "ns"))
    assert len(store) == 0


@behaviour("informers/ST2")
@behaviour("informers/ST5")
def test_update_replaces_and_delete_removes(store: Indexer) -> None:
    store.add(thing("foo", value="bar"))
    store.update(thing("foo", value="baz"))
    obj = store.get_by_key("foo")
    assert obj is not None
    assert obj["value"] == "baz"
    store.delete(thing("foo"))
    assert store.get_by_key("foo") is None
    assert store.get(thing("foo")) is None
    store.delete(thing("foo"))
    store.delete(DeletedFinalStateUnknown("foo"))
    assert store.list() == []


@behaviour("informers/ST3")
@behaviour("informers/ST5")
def test_list_returns_every_object_once(store: Indexer) -> None:
    for name in ("a", "c", "e"):
        store.add(thing(name, value=name.upper()))
    assert sorted(obj["value"] for obj in store.list()) == ["A", "C", "E"]
    assert sorted(store.list_keys()) == ["a", "c", "e"]


@behaviour("informers/ST4")
@behaviour("informers/ST5")
def test_replace_removes_all_previous_objects(store: Indexer) -> None:
    store.add(thing("old", "ns"))
    store.replace([thing("foo"), thing("bar")], "1")
    assert names(store.list()) == {"foo", "bar"}
    assert store.list_index_func_values("namespace") == [""]


@behaviour("informers/ST6")
def test_the_cause_of_a_key_error_is_kept() -> None:
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
def test_a_transaction_applies_objects_with_a_key_and_names_the_rest(
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
def test_a_transform_that_drops_the_version_keeps_that_of_the_list() -> None:
    """A transformed object needs a name, so it is a mapping of another shape and not upstream's plain string."""

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
@pytest.mark.parametrize(("selector", "count"), [("app=matching", 10_000), ("", 100_000), ("app=none", 0)])
def test_a_list_returns_the_objects_its_selector_matches(many: Indexer, selector: str, count: int) -> None:
    """Indexes return lists instead of calling back, so the length of a list is the number of upstream's calls.

    The last two use 100,000 objects instead of upstream's million.
    """
    objects = Lister(many).list(label_selector=selector)
    assert len(objects) == count
    assert len({obj.key for obj in objects}) == count


@pytest.fixture(scope="module")
def many() -> Indexer:
    """100,000 objects, every tenth with a matching label."""
    store = Indexer()
    store.replace(
        {"metadata": {"name": f"t{number}", "labels": {"app": "other" if number % 10 else "matching"}}}
        for number in range(100_000)
    )
    return store


def test_memory_usage_follows_the_content() -> None:
    store = Indexer()
    assert store.memory == 0
    store.add(thing("a", padding="x" * 1000))
    assert 1000 < store.memory < 2000
    store.delete(thing("a"))
    assert store.memory == 0
