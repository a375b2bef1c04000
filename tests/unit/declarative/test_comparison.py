"""Comparison of a desired object with the live one."""

from __future__ import annotations

from typing import Any

import pytest

from ctrlhost.declarative.comparison import Leaf, differing, differing_texts, leaf_paths


@pytest.mark.parametrize(
    ("desired", "live"),
    [
        pytest.param(3, 3, id="numbers"),
        pytest.param(1, 1.0, id="int-float"),
        pytest.param("1000m", "1", id="milli"),
        pytest.param("1000m", 1, id="milli-number"),
        pytest.param("80", 80, id="text-number"),
        pytest.param(80, "80", id="number-text"),
        pytest.param("1Gi", "1024Mi", id="binary"),
        pytest.param("1k", "1e3", id="exponent"),
        pytest.param("0.1", "100m", id="fraction"),
        pytest.param(0.1, "100m", id="float-quantity"),
        pytest.param("1.5Gi", "1536Mi", id="binary-fraction"),
        pytest.param("+5", "5", id="sign"),
        pytest.param({}, None, id="empty-map-absent"),
        pytest.param([], None, id="empty-list-absent"),
        pytest.param("", None, id="empty-text-absent"),
        pytest.param(None, "defaulted", id="null-is-not-named"),
        pytest.param({"a": {"b": None}}, None, id="only-nulls"),
        pytest.param({"a": {"b": ""}}, {}, id="only-empty"),
        pytest.param({"a": 1}, {"a": 1, "b": 2}, id="foreign-field"),
        pytest.param([], {}, id="empty-list-empty-map"),
        pytest.param([{"name": "a", "v": 1}], [{"name": "b"}, {"name": "a", "v": 1, "d": 2}], id="by-name"),
        pytest.param([{"name": "a", "v": ""}], [{"name": "a"}], id="empty-by-name"),
        pytest.param([{"port": 1}, {"port": 2}], [{"port": 1, "protocol": "TCP"}, {"port": 2}], id="in-order"),
        pytest.param(["a", "b"], ["a", "b"], id="texts"),
        pytest.param(
            [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}],
            [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}],
            id="names-twice-in-order",
        ),
    ],
)
def test_equal_values_do_not_differ(desired: Any, live: Any) -> None:
    assert differing({"field": desired}, {"field": live}) == []
    assert differing({"outer": {"field": desired}}, {"outer": {"field": live}}) == []


@pytest.mark.parametrize(
    ("desired", "live"),
    [
        pytest.param(3, 4, id="numbers"),
        pytest.param(True, 1, id="bool-number"),
        pytest.param(False, None, id="false-absent"),
        pytest.param(0, None, id="zero-absent"),
        pytest.param("true", True, id="text-bool"),
        pytest.param("1000m", "1001m", id="quantities"),
        pytest.param("1Ki", "1k", id="binary-decimal"),
        pytest.param("1.2.3", "1.2", id="no-quantity"),
        pytest.param("1" * 65, "1" * 64 + "1.0", id="too-long-for-a-quantity"),
        pytest.param("a", "A", id="texts"),
        pytest.param("", "set", id="empty-text"),
        pytest.param({}, {"a": 1}, id="empty-map"),
        pytest.param([], ["a"], id="empty-list"),
        pytest.param(["a"], ["a", "b"], id="longer"),
        pytest.param(["a"], None, id="list-absent"),
        pytest.param("a", {"b": 1}, id="text-map"),
    ],
)
def test_other_values_differ(desired: Any, live: Any) -> None:
    assert differing({"field": desired}, {"field": live}) == [Leaf(("field",), desired, live)]


def test_items_without_names_are_compared_in_order() -> None:
    assert differing({"args": ["a", "b", "c"]}, {"args": ["b", "a", "c"]}) == [
        Leaf(("args", 0), "a", "b"),
        Leaf(("args", 1), "b", "a"),
    ]


def test_a_live_item_whose_name_is_no_text_is_another_one() -> None:
    live = [{"name": {"a": 1}}, {"name": None}, "text", {"name": "a", "v": 1}]
    assert differing({"items": [{"name": "a", "v": 1}]}, {"items": live}) == []
    assert differing({"items": [{"name": "b"}]}, {"items": live}) == [Leaf(("items", 0, "name"), "b", None)]


def test_leaves_are_named_by_their_path() -> None:
    desired = {"spec": {"replicas": 2, "containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]}}
    live = {"spec": {"replicas": 2, "containers": [{"name": "b", "image": "z"}]}}
    assert differing(desired, live, ("here",)) == [
        Leaf(("here", "spec", "containers", 0, "name"), "a", None),
        Leaf(("here", "spec", "containers", 0, "image"), "x", None),
        Leaf(("here", "spec", "containers", 1, "image"), "y", "z"),
    ]


def test_a_map_that_is_a_text_in_the_live_object_is_one_leaf() -> None:
    assert differing({"a": {"b": 1}}, {"a": "text"}) == [Leaf(("a",), {"b": 1}, "text")]


def test_texts_are_compared_as_they_are() -> None:
    desired = {"version": "1.10", "empty": "", "equal": "a", "null": None}
    live = {"version": "1.1", "equal": "a", "null": "b", "of-others": "c"}
    assert differing_texts(desired, live, ("labels",)) == [
        Leaf(("labels", "version"), "1.10", "1.1"),
        Leaf(("labels", "empty"), "", None),
    ]
    assert differing_texts({}, live, ()) == []
    assert differing_texts({"a": "b"}, None, ()) == [Leaf(("a",), "b", None)]
    # The server refuses it.
    assert differing_texts("a", live, ()) == []


def test_leaf_paths_name_each_leaf_once_with_empty_ones() -> None:
    assert list(leaf_paths({"a": {"b": 1, "c": [2, {}]}, "d": {}})) == [
        ("a", "b"),
        ("a", "c", 0),
        ("a", "c", 1),
        ("d",),
    ]
