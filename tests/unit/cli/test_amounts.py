"""Durations, sizes and counts in few characters."""

from __future__ import annotations

import pytest

from ctrlhost.cli.amounts import duration, percent, plural, rate, since, size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0, "0ms"),
        (0.0012, "1.2ms"),
        (0.2, "200ms"),
        (9.94, "10s"),
        (59.2, "59s"),
        (312, "5.2min"),
        (3605, "1.0h"),
        (273_600, "3.2d"),
        (40 * 86400, "40d"),
    ],
)
def test_durations_have_one_unit(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, "-"), (0, "0B"), (1000, "1000B"), (1500, "1.5KiB"), (1_992_294, "1.9MiB"), (109_051_904, "104MiB")],
)
def test_sizes_have_one_unit(count: int | None, text: str) -> None:
    assert size(count) == text


def test_other_amounts() -> None:
    assert (rate(None), rate(41.23), percent(None), percent(0.031)) == ("-", "41.2", "-", "3%")
    assert (plural(1, "key"), plural(1200, "key")) == ("1 key", "1,200 keys")
    assert since("2026-01-01T00:00:00.000Z", "2026-01-01T00:01:00.500Z") == 60.5
