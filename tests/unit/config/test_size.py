from __future__ import annotations

import math

import pytest

from ctrlhost.config.size import Size


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("100", 100),
        ("100k", 100_000),
        ("100M", 100_000_000),
        ("100MB", 100_000_000),
        ("2G", 2_000_000_000),
        ("1T", 10**12),
        ("1Ki", 1024),
        ("100Mi", 100 << 20),
        ("100MiB", 100 << 20),
        ("1.5Gi", 3 << 29),
        ("2Ti", 2 << 40),
        ("0.1Ki", 103),
        (104_857_600, 100 << 20),
    ],
)
def test_a_size_is_parsed_into_bytes(text, number):
    assert Size(text) == number


@pytest.mark.parametrize("text", ["", "Mi", "100m", "1K", "1ki", "1 Mi", "1e9", "1.Mi", "-1", "1Mi2Ki", "1Bi", -1])
def test_an_invalid_size_is_refused(text):
    with pytest.raises(ValueError, match="size"):
        Size(text)


@pytest.mark.parametrize("value", [True, 1.5, math.nan, None, b"1Mi"])
def test_a_value_of_another_type_is_refused(value):
    with pytest.raises(TypeError, match="a size must be a string such as `100Mi`"):
        Size(value)


@pytest.mark.parametrize("text", ["0", "1", "1025", "16Mi", "100M", "1536Mi", "1Ti", "1k"])
def test_a_size_prints_as_settings_accept_it(text):
    assert str(Size(text)) == text
    assert f"{Size(text)}" == text
    assert Size(str(Size(text))) == Size(text)
    assert repr(Size(text)) == f"Size('{text}')"
