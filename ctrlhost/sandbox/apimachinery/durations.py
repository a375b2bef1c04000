"""Durations as tables show them."""

from __future__ import annotations

import time
from typing import Any

from ctrlhost.sandbox.apimachinery import times

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def age(timestamp: Any) -> str:
    """Give the time since a timestamp, `<unknown>` for none."""
    if not isinstance(timestamp, str) or not timestamp:
        return "<unknown>"
    return duration(time.time() - times.epoch(timestamp))


def duration(seconds: float) -> str:
    """Give a duration in its one or two largest units."""
    if seconds < -1:
        return "<invalid>"
    whole = max(int(seconds), 0)
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two(whole: int, unit: int, name: str, small: int, small_name: str) -> str:
    rest = whole % unit // small
    return f"{whole // unit}{name}" + (f"{rest}{small_name}" if rest else "")
