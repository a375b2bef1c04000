"""Differences between versions of an object, as text."""

from __future__ import annotations

from typing import Any

import pytest

from ctrlhost.client.differences import MAX_CHANGES, contents, differences


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ({"spec": {"a": [{"b": 1}]}}, {"spec": {"a": [{"b": 2}]}}, "spec.a[0].b: 1 -> 2"),
        ({"spec": {"a": [1, 2]}}, {"spec": {"a": [1]}}, "spec.a[1]: 2 -> (none)"),
        ({"spec": {}}, {"spec": {"x": {"y": "z"}}}, 'spec.x: (none) -> {"y": "z"}'),
        ({"a.b/c": {"d-e": 1}}, {"a.b/c": {"d-e": None}}, '["a.b/c"]["d-e"]: 1 -> null'),
        ({"a": {"b": 1}}, {"a": [1]}, 'a: {"b": 1} -> [1]'),
        ({"a": "x\n"}, {"a": "\x1b[31m"}, 'a: "x\\n" -> "\\u001b[31m"'),
        ({"a": {}}, {}, "a: {} -> (none)"),
        (
            {"metadata": {"resourceVersion": "1", "generation": 1, "managedFields": []}, "status": {"x": 1}},
            {"metadata": {"resourceVersion": "2", "generation": 2}, "status": {"x": 1}},
            "",
        ),
        (
            {"conditions": [{"status": "True", "lastTransitionTime": "a"}]},
            {"conditions": [{"status": "False", "lastTransitionTime": "b"}]},
            'conditions[0].status: "True" -> "False"',
        ),
        ({"conditions": [{"lastTransitionTime": "a"}]}, {"conditions": [{"lastTransitionTime": "b"}]}, ""),
    ],
)
def test_each_change_has_its_path(before: dict[str, Any], after: dict[str, Any], text: str) -> None:
    assert differences(before, after) == text


def test_a_new_object_is_shown_by_its_fields() -> None:
    new = {"kind": "A", "metadata": {"name": "n", "labels": {"l": "m"}}, "spec": {"list": [{"a": 1}], "empty": {}}}
    assert contents(new) == 'metadata.labels.l: "m"; spec.list[0].a: 1; spec.empty: {}'
    assert contents({"kind": "A", "metadata": {"name": "n"}}) == ""


def test_long_texts_are_cut() -> None:
    assert differences({"a": "x" * 1000}, {"a": "y"}) == f'a: "{"x" * 199}… -> "y"'
    many = {f"k{number}": number for number in range(MAX_CHANGES + 3)}
    assert differences({}, many).endswith("; and 3 more")
    assert differences({}, many).count("->") == MAX_CHANGES


def test_values_of_a_secret_are_masked_at_any_depth() -> None:
    before = {"type": "a", "metadata": {"annotations": {"x": "s3cr3t"}}}
    after = {"type": "b", "data": {"p": "s3cr3t"}, "stringData": {"q": "s3cr3t"}}
    assert differences(before, after, secret=True) == (
        'metadata.annotations.x: *** -> (none); type: "a" -> "b"; data.p: (none) -> ***; stringData.q: (none) -> ***'
    )
    assert "s3cr3t" not in contents({**before, **after}, secret=True)
