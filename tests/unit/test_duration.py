from __future__ import annotations

import math

import pytest

from ctrlhost import Duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("1m30s", 90),
        ("250ms", 0.25),
        ("1h", 3600),
        ("2d", 172800),
        ("0", 0),
        ("1.5s", 1.5),
        (".5s", 0.5),
        ("1.s", 1),
        ("2us", 2e-6),
        ("2µs", 2e-6),
        ("1ms1ns", 0.001000001),
        ("726h", 2_613_600),
        (7, 7),
        (0.5, 0.5),
    ],
)
def test_a_duration_is_parsed_into_seconds(text, seconds):
    assert Duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "30", "s", "-3s", "3x", "1s 2s", "1 s", "1h30", ".s", "1e3s", "1.2.3s", -1, math.nan, math.inf]
)
def test_an_invalid_duration_is_refused(text):
    with pytest.raises(ValueError, match="duration"):
        Duration(text)


@pytest.mark.parametrize("value", [True, None, [], b"3s"])
def test_other_types_are_refused(value):
    with pytest.raises(TypeError, match="duration"):
        Duration(value)


@pytest.mark.parametrize("text", ["30s", "1m30s", "250ms", "1h", "2d", "0s", "1d1h1m1s1ms", "0.5ms"])
def test_a_duration_is_formatted_as_it_is_parsed(text):
    assert str(Duration(text)) == text
    assert Duration(str(Duration(text))) == Duration(text)
