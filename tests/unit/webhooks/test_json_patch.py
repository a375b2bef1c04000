"""The smallest patch, and changes of a shown part."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctrlhost.webhooks.json_patch import changed, field_of, is_same, patch_of

LIST_MAP = {
    "properties": {
        "items": {
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"properties": {"name": {"type": "string"}}},
        }
    }
}

values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "~/"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b/c", "~", "items"]), inner),
    max_leaves=12,
)
items = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("abc")}, optional={"value": st.integers(0, 1)}),
    max_size=3,
)
objects = st.dictionaries(st.sampled_from(["a", "b/c", "~"]), values)
#: The machine may be slow.
slow_data = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def applied(document: Any, operations: list[dict[str, Any]]) -> Any:
    """Return a document after a JSON patch."""
    root = {"": copy.deepcopy(document)}
    for operation in operations:
        *path, last = ["", *operation["path"].split("/")[1:]]
        target: Any = root
        for name in path:
            name = name.replace("~1", "/").replace("~0", "~")
            target = target[int(name) if isinstance(target, list) else name]
        last = last.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list):
            if operation["op"] == "add":
                target.insert(len(target) if last == "-" else int(last), operation["value"])
                continue
            last = int(last)  # type: ignore[assignment]
        if operation["op"] == "remove":
            del target[last]
        else:
            assert operation["op"] == "add" or last in target or isinstance(target, list)
            target[last] = operation["value"]
    return root[""]


@slow_data
@given(objects, objects)
def test_a_patch_leads_to_the_object(before: dict[str, Any], after: dict[str, Any]) -> None:
    operations = list(patch_of(before, after))
    assert is_same(applied(before, operations), after)
    assert bool(operations) is not is_same(before, after)


@slow_data
@given(items, items)
def test_a_patch_of_a_list_map_leads_to_the_list(before: list[Any], after: list[Any]) -> None:
    operations = list(patch_of({"items": before}, {"items": after}, LIST_MAP))
    assert is_same(applied({"items": before}, operations), {"items": after})


@slow_data
@given(objects, objects)
def test_what_was_shown_as_a_whole_becomes_what_is_returned(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert is_same(changed(before, before, after), after)


@pytest.mark.parametrize(
    ("before", "after", "operations"),
    [
        ({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}, [{"op": "remove", "path": "/a/b"}]),
        ({}, {"a": {"b": []}}, [{"op": "add", "path": "/a", "value": {"b": []}}]),
        ({"a": [1, 2]}, {"a": [1, 2, 3]}, [{"op": "replace", "path": "/a", "value": [1, 2, 3]}]),
        (
            {"items": [{"name": "a"}, {"name": "b"}, {"name": "c", "value": 1}]},
            {"items": [{"name": "b", "value": 2}, {"name": "c"}, {"name": "d"}]},
            [
                {"op": "remove", "path": "/items/0"},
                {"op": "add", "path": "/items/0/value", "value": 2},
                {"op": "remove", "path": "/items/1/value"},
                {"op": "add", "path": "/items/-", "value": {"name": "d"}},
            ],
        ),
        (
            {"items": [{"name": "a"}, {"name": "b"}]},
            {"items": [{"name": "b"}, {"name": "a"}]},
            [{"op": "replace", "path": "/items", "value": [{"name": "b"}, {"name": "a"}]}],
        ),
    ],
)
def test_a_patch_is_the_smallest(before: Any, after: Any, operations: list[Any]) -> None:
    assert list(patch_of(before, after, LIST_MAP)) == operations


def test_a_change_of_a_shown_part_keeps_the_rest() -> None:
    whole = {"a": {"shown": 1, "rest": 2}, "items": [{"name": "x", "rest": 1}, {"name": "y", "rest": 2}]}
    before = {"a": {"shown": 1, "default": 0}, "items": [{"name": "x"}, {"name": "y"}]}
    after = {"a": {"default": 0, "new": 3}, "items": [{"name": "y", "value": 5}]}
    assert changed(whole, before, after) == {
        "a": {"rest": 2, "new": 3},
        "items": [{"name": "y", "rest": 2, "value": 5}],
    }
    # A set is shown in another order than it is written.
    assert changed({"a": ["y", "x"]}, {"a": ["x", "y"]}, {"a": ["x"]}) == {"a": ["x"]}
    # Items without a name keep their places.
    assert changed({"a": [{"x": 1, "rest": 2}]}, {"a": [{"x": 1}]}, {"a": [{"x": 3}]}) == {"a": [{"x": 3, "rest": 2}]}


@pytest.mark.parametrize(
    ("after", "rests"),
    [
        # Changed, and one more behind it, before it, or one less.
        ([{"x": "A", "n": 1}, {"x": "b", "n": 1}, {"x": "new", "n": 1}], [1, 2, None]),
        ([{"x": "new", "n": 2}, {"x": "A", "n": 1}, {"x": "b", "n": 1}], [None, 1, 2]),
        ([{"x": "A", "n": 1}], [1]),
        # The one before it was removed, so that it is new.
        ([{"x": "b", "n": 1}, {"x": "new", "n": 1}], [2, None]),
        ([{"x": "b", "n": 1}, {"x": "a", "n": 1}], [2, 1]),
        ([{"x": "A", "n": 1}, {"x": "B", "n": 1}], [1, 2]),
    ],
)
def test_items_without_a_name_keep_what_was_not_shown(after: list[Any], rests: list[Any]) -> None:
    before = [{"x": "a", "n": 1}, {"x": "b", "n": 1}]
    whole = [{**item, "rest": number} for number, item in enumerate(before, 1)]
    result = changed({"items": whole}, {"items": before}, {"items": after})["items"]
    assert [item.pop("rest", None) for item in result] == rests
    assert result == after


def test_the_field_of_an_operation_is_named_as_in_messages() -> None:
    fields = [field_of({"path": path}) for path in ("/spec/ports/0/name", "/spec/ports/-", "/a/b~1c~0", "")]
    assert fields == ["spec.ports[0].name", "spec.ports[-]", "a.b/c~", ""]
