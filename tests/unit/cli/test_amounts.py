"""Durations, sizes and counts in few characters."""

from __future__ import annotations

import pytest

from ctrlhost.cli.amounts import duration, percent, plural, rate, since, size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0, "0s"),
        (0.0001, "<1ms"),
        (0.012, "12ms"),
        (0.0994, "99ms"),
        (0.0999, "0.1s"),
        (0.2, "0.2s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (59.7, "1m"),
        (312, "5m12s"),
        (3605, "1h"),
        (273_600, "3d4h"),
        (40 * 86400, "40d"),
    ],
)
def test_durations_have_two_units_at_most(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, "-"), (0, "0B"), (1000, "1000B"), (1500, "1.5KiB"), (1_992_294, "1.9MiB"), (109_051_904, "104MiB")],
)
def test_sizes_have_two_digits_at_least(count: int | None, text: str) -> None:
    assert size(count) == text


def test_other_amounts() -> None:
    assert (rate(None), rate(41.23), percent(None), percent(0.031)) == ("-", "41.2", "-", "3%")
    assert (plural(1, "key"), plural(1200, "key")) == ("1 key", "1,200 keys")
    assert since("2026-01-01T00:00:00.000Z", "2026-01-01T00:01:00.500Z") == 60.5
