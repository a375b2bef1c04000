"""Merge patches between plain JSON values."""

from __future__ import annotations

import enum
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlhost.cache import Object
from ctrlhost.controller.merge_patch import equal, has_list, merge_patch, plain

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", 1.5])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


def applied(target: Any, patch: Any) -> Any:
    """Apply a merge patch as RFC 7386 defines it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = applied(result.get(name), value)
    return result


@given(OBJECTS, OBJECTS)
def test_the_patch_turns_one_object_into_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    before, after = plain(before), plain(after)
    patch = merge_patch(before, after)
    assert equal(applied(before, patch), after)
    assert bool(patch) != equal(before, after)


def test_only_what_differs_is_in_the_patch() -> None:
    before = {"a": {"b": 1, "c": 2}, "list": [1, 2], "same": [1]}
    after = {"a": {"b": 1, "d": 3}, "list": [1], "same": [1]}
    assert merge_patch(before, after) == {"a": {"c": None, "d": 3}, "list": [1]}


@pytest.mark.parametrize(
    ("value", "other", "same"),
    [(1, 1.0, True), (1, True, False), (0, False, False), ([1], [True], False), ({"a": 1}, {"a": 1.0}, True)],
)
def test_numbers_are_equal_by_value_and_differ_from_booleans(value: Any, other: Any, same: bool) -> None:
    assert equal(value, other) is same


@pytest.mark.parametrize(("value", "expected"), [([], True), ({"a": {"b": [1]}}, True), ({"a": {"b": 1}}, False)])
def test_lists_are_found_at_any_depth(value: Any, expected: bool) -> None:
    assert has_list(value) is expected


class Phase(enum.Enum):
    READY = "Ready"


class Node(msgspec.Struct):
    name: str
    port: int | None = None


def test_values_become_plain_json() -> None:
    obj = Object({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}, "spec": {"x": [1], "y": {"z": None}}})
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert plain([Phase.READY, Node("a"), obj["spec"], moment, {1, 2}, obj["spec"]["x"]]) == [
        "Ready",
        {"name": "a"},
        {"x": [1], "y": {}},
        "2026-01-02T03:04:05Z",
        [1, 2],
        [1],
    ]


def test_what_json_cannot_say_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="object cannot be written as JSON"):
        plain({"a": object()})
