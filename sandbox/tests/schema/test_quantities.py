"""Arithmetic with quantities: the texts are those of Go's `resource.Quantity`."""

from __future__ import annotations

import pytest
from ctrlhost_sandbox.schema.normalize import is_whole
from ctrlhost_sandbox.schema.quantities import Quantity, add, largest, parsed, texts_of


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("1000m", "1"),
        ("0.1", "100m"),
        ("1500", "1500"),
        ("2000", "2k"),
        ("1.5k", "1500"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("0.5Mi", "512Ki"),
        ("0.5Ki", "512"),
        ("1e3", "1e3"),
        ("12e5", "1200e3"),
        ("-3", "-3"),
        ("1n", "1n"),
        ("100E", "100E"),
    ],
)
def test_a_quantity_has_a_canonical_text(text: str, canonical: str) -> None:
    assert str(Quantity.parse(text)) == canonical


@pytest.mark.parametrize(
    ("left", "right", "total"),
    [
        ("1Gi", "512Mi", "1536Mi"),
        ("0", "1Gi", "1Gi"),
        ("1Gi", "1G", "2073741824"),
        ("700m", "300m", "1"),
        ("1", "1Gi", "1073741825"),
        ("1e3", "1", "1001"),
    ],
)
def test_a_sum_keeps_the_form_of_its_first_part_that_is_not_zero(left: str, right: str, total: str) -> None:
    assert str(Quantity.parse(left) + Quantity.parse(right)) == total


def test_a_difference_may_be_zero() -> None:
    assert str(Quantity.parse("1Gi") - Quantity.parse("1024Mi")) == "0"
    assert str(Quantity.parse("1") - Quantity.parse("1500m")) == "-500m"


def test_lists_of_resources_are_added_and_compared_by_name() -> None:
    left, right = parsed({"cpu": "1", "memory": "1Gi"}), parsed({"cpu": "500m", "pods": "2"})
    assert texts_of(add(left, right)) == {"cpu": "1500m", "memory": "1Gi", "pods": "2"}
    assert texts_of(largest(left, right)) == {"cpu": "1", "memory": "1Gi", "pods": "2"}
    assert parsed(None) == {}


@pytest.mark.parametrize(
    ("text", "whole"),
    [("1000m", True), ("1m", False), ("1e99", True), ("9" * 60, True), ("0.1n", False)],
)
def test_integers_are_recognized_at_any_size(text: str, *, whole: bool) -> None:
    assert is_whole(text) is whole
