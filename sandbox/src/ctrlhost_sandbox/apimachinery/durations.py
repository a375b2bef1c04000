"""Durations as tables show them."""

from __future__ import annotations

from typing import Any

from ctrlhost_sandbox.apimachinery import clock, times

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400
#: Upper bound in seconds, the unit shown below it, and the smaller unit behind that.
_ROWS: tuple[tuple[float, int, str, int, str], ...] = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
    (float("inf"), _YEAR, "y", 0, ""),
)


def age(timestamp: Any) -> str:
    """Return the time since a timestamp, `<unknown>` for none."""
    if not isinstance(timestamp, str) or not timestamp:
        return "<unknown>"
    return duration(clock.time() - times.epoch(timestamp))


def duration(seconds: float) -> str:
    """Return a duration in its one or two largest units."""
    if seconds < -1:
        return "<invalid>"
    whole = max(int(seconds), 0)
    unit, name, small, small_name = next(row[1:] for row in _ROWS if whole < row[0])
    rest = whole % unit // small if small else 0
    return f"{whole // unit}{name}" + (f"{rest}{small_name}" if rest else "")
