"""Comparison of a desired object with the live one."""

from __future__ import annotations

from typing import Any

import pytest

from ctrlhost.client.kind_schemas import Schema
from ctrlhost.declarative.comparison import Leaf, differing, leaf_paths

QUANTITY = Schema(quantity=True)
#: A field of a built-in kind, a map of one, and a field of a custom kind.
BUILTIN, MAP, CUSTOM = Schema(omits_empty=True), Schema(values=Schema(), omits_empty=True), Schema()
ATOMIC, SET = Schema(items=Schema()), Schema(list_type="set", omits_empty=True)
NAMED = Schema(list_type="map", keys=("name",), items=Schema(omits_empty=True))
PORTS = Schema(list_type="map", keys=("port", "protocol"), items=Schema(defaults={"protocol": "TCP"}))


def compared(desired: Any, live: Any, schema: Schema) -> list[Leaf]:
    return differing({"field": desired}, {"field": live}, Schema(fields={"field": schema}))


@pytest.mark.parametrize(
    ("desired", "live", "schema"),
    [
        pytest.param(3, 3, CUSTOM, id="numbers"),
        pytest.param(1, 1.0, CUSTOM, id="int-float"),
        pytest.param("1000m", "1", QUANTITY, id="milli"),
        pytest.param("1000m", 1, QUANTITY, id="milli-number"),
        pytest.param("80", 80, QUANTITY, id="text-number"),
        pytest.param(80, "80", QUANTITY, id="number-text"),
        pytest.param("1Gi", "1024Mi", QUANTITY, id="binary"),
        pytest.param("1k", "1e3", QUANTITY, id="exponent"),
        pytest.param("0.1", "100m", QUANTITY, id="fraction"),
        pytest.param(0.1, "100m", QUANTITY, id="float-quantity"),
        pytest.param("1.5Gi", "1536Mi", QUANTITY, id="binary-fraction"),
        pytest.param("+5", "5", QUANTITY, id="sign"),
        pytest.param({}, None, MAP, id="empty-map-absent"),
        pytest.param([], None, BUILTIN, id="empty-list-absent"),
        pytest.param("", None, BUILTIN, id="empty-text-absent"),
        pytest.param(None, "defaulted", CUSTOM, id="null-is-not-named"),
        pytest.param({"a": {"b": None}}, None, Schema(fields={"a": BUILTIN}, omits_empty=True), id="only-nulls"),
        pytest.param({"a": ""}, {}, Schema(fields={"a": BUILTIN}, omits_empty=True), id="only-empty"),
        pytest.param({"a": 1}, {"a": 1, "b": 2}, CUSTOM, id="foreign-field"),
        pytest.param({}, {"a": 1}, CUSTOM, id="foreign-fields-of-an-empty-object"),
        pytest.param([{"name": "a", "v": 1}], [{"name": "b"}, {"name": "a", "v": 1, "d": 2}], NAMED, id="by-name"),
        pytest.param([], [{"name": "b"}], NAMED, id="foreign-items"),
        pytest.param([{"port": 1}, {"port": 2}], [{"port": 1, "protocol": "TCP"}, {"port": 2}], PORTS, id="defaulted"),
        pytest.param(["b"], ["a", "b"], SET, id="set"),
        pytest.param(["a", "b"], ["a", "b"], ATOMIC, id="texts"),
        pytest.param(
            [{"a": 1}], [{"a": 1, "b": 2}], Schema(items=Schema(defaults={"b": 2})), id="default-in-an-atomic-list"
        ),
    ],
)
def test_equal_values_do_not_differ(desired: Any, live: Any, schema: Schema) -> None:
    assert compared(desired, live, schema) == []
    assert compared({"inner": desired}, {"inner": live}, Schema(fields={"inner": schema})) == []


@pytest.mark.parametrize(
    ("desired", "live", "schema"),
    [
        pytest.param(3, 4, CUSTOM, id="numbers"),
        pytest.param(True, 1, CUSTOM, id="bool-number"),
        pytest.param(False, None, BUILTIN, id="false-absent"),
        pytest.param(0, None, BUILTIN, id="zero-absent"),
        pytest.param("true", True, CUSTOM, id="text-bool"),
        pytest.param("1000m", "1001m", QUANTITY, id="quantities"),
        pytest.param("1Ki", "1k", QUANTITY, id="binary-decimal"),
        pytest.param("1.2.3", "1.2", QUANTITY, id="no-quantity"),
        pytest.param("1" * 65, "1" * 64 + "1.0", QUANTITY, id="too-long-for-a-quantity"),
        pytest.param("1.10", "1.1", CUSTOM, id="texts-like-quantities"),
        pytest.param("80", 80, CUSTOM, id="text-number"),
        pytest.param("a", "A", CUSTOM, id="texts"),
        pytest.param("", "set", BUILTIN, id="empty-text"),
        pytest.param("", None, CUSTOM, id="empty-text-of-a-custom-kind"),
        pytest.param([], None, CUSTOM, id="empty-list-of-a-custom-kind"),
        pytest.param({}, None, BUILTIN, id="a-choice-by-an-empty-object"),
        pytest.param([], ["a"], ATOMIC, id="empty-list"),
        pytest.param(["a"], ["a", "b"], ATOMIC, id="longer"),
        pytest.param(["a"], None, ATOMIC, id="list-absent"),
        pytest.param("a", {"b": 1}, CUSTOM, id="text-map"),
        pytest.param([{"name": "a"}, {"name": "b"}], [{"name": "b"}, {"name": "a"}], NAMED, id="other-order"),
    ],
)
def test_other_values_differ(desired: Any, live: Any, schema: Schema) -> None:
    assert compared(desired, live, schema) == [Leaf(("field",), desired, live)]


def test_without_a_schema_only_what_is_the_same_is_equal() -> None:
    desired = {"a": {"b": [{"name": "x", "v": "1"}]}, "null": None}
    assert differing(desired, {"a": {"b": [{"name": "x", "v": "1"}]}}, None) == []
    assert differing(desired, {"a": {"b": [{"name": "x", "v": "1", "d": 2}]}}, None) == [
        Leaf(("a", "b", 0, "d"), None, 2)
    ]
    assert differing(desired, {"a": {"b": [{"name": "x", "v": "1.0"}], "c": 1}}, None) == [
        Leaf(("a", "b", 0, "v"), "1", "1.0"),
        Leaf(("a", "c"), None, 1),
    ]


def test_items_without_keys_are_compared_in_order() -> None:
    assert compared(["a", "b", "c"], ["b", "a", "c"], ATOMIC) == [
        Leaf(("field", 0), "a", "b"),
        Leaf(("field", 1), "b", "a"),
    ]


def test_what_is_replaced_as_a_whole_has_no_other_fields() -> None:
    rule = Schema(fields={"from": Schema(list_type="map", keys=("name",))})
    assert compared(
        [{"from": [{"name": "a"}]}], [{"from": [{"name": "a", "x": {}}], "to": []}], Schema(items=rule)
    ) == [
        Leaf(("field", 0, "from", 0, "x"), None, {}),
        Leaf(("field", 0, "to"), None, []),
    ]
    selector = Schema(values=Schema(), atomic=True)
    assert compared({"a": "b"}, {"a": "b", "c": "d"}, selector) == [Leaf(("field", "c"), None, "d")]
    assert compared({}, {"c": "d"}, selector) == [Leaf(("field", "c"), None, "d")]


def test_a_map_keeps_empty_texts() -> None:
    assert compared({"a": ""}, {}, MAP) == [Leaf(("field", "a"), "", None)]
    assert compared({"a": ""}, None, MAP) == [Leaf(("field", "a"), "", None)]


def test_items_are_found_by_all_of_their_key() -> None:
    desired = [{"port": 53}, {"port": 53, "protocol": "UDP", "v": 1}]
    live = [{"port": 53, "protocol": "UDP", "v": 2}]
    assert compared(desired, live, PORTS) == [
        Leaf(("field", 0), {"port": 53}, None),
        Leaf(("field", 1, "v"), 1, 2),
    ]
    unknown = Schema(list_type="map", keys=("port", "protocol"), items=Schema())
    assert compared(desired, live, unknown) == [
        Leaf(("field", 0), {"port": 53}, None),
        Leaf(("field", 1, "v"), 1, 2),
    ]
    assert compared([{"port": 53}], [{"port": 53, "protocol": "TCP"}], unknown) == []


def test_a_live_item_whose_key_is_no_text_is_another_one() -> None:
    live = [{"name": {"a": 1}}, {"name": None}, "text", {"name": "a", "v": 1}]
    assert compared([{"name": "a", "v": 1}], live, NAMED) == []
    assert compared([{"name": "b"}], live, NAMED) == [Leaf(("field", 0), {"name": "b"}, None)]


def test_leaves_are_named_by_their_path() -> None:
    desired = {"spec": {"replicas": 2, "containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]}}
    live = {"spec": {"replicas": 2, "containers": [{"name": "b", "image": "z"}]}}
    schema = Schema(fields={"spec": Schema(fields={"containers": NAMED})})
    assert differing(desired, live, schema, ("here",)) == [
        Leaf(("here", "spec", "containers", 0), {"name": "a", "image": "x"}, None),
        Leaf(("here", "spec", "containers", 1, "image"), "y", "z"),
    ]


def test_a_map_that_is_a_text_in_the_live_object_is_one_leaf() -> None:
    assert compared({"b": 1}, "text", CUSTOM) == [Leaf(("field",), {"b": 1}, "text")]


def test_leaf_paths_name_each_leaf_once_with_empty_ones() -> None:
    assert list(leaf_paths({"a": {"b": 1, "c": [2, {}]}, "d": {}})) == [
        ("a", "b"),
        ("a", "c", 0),
        ("a", "c", 1),
        ("d",),
    ]
