"""Durations, sizes and rates as commands show them, in few characters; `-` for None."""

from __future__ import annotations

from datetime import datetime

from ctrlhost.status import amounts

_NONE = "-"


def duration(seconds: float | None) -> str:
    """Return seconds as `12ms`, `48s`, `5.2min` or `3.2d`."""
    return _NONE if seconds is None else _compact(amounts.seconds(seconds))


def size(count: int | None) -> str:
    """Return bytes as `512B`, `1.9MiB` or `104MiB`."""
    return _NONE if count is None else _compact(amounts.size(count))


def rate(per_second: float | None) -> str:
    """Return a rate."""
    return _NONE if per_second is None else amounts.rate(per_second)


def _compact(text: str) -> str:
    return text.replace(" ", "")


def percent(share: float | None) -> str:
    """Return a share of 1 as `3%`."""
    return _NONE if share is None else f"{share * 100:.0f}%"


def plural(count: int, noun: str) -> str:
    """Return `1 key` or `2 keys`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def since(then: str, now: str) -> float:
    """Return the seconds between two times of RFC 3339."""
    return (datetime.fromisoformat(now) - datetime.fromisoformat(then)).total_seconds()


def clock_time(text: str) -> str:
    """Return the time of day in UTC of a time of RFC 3339, as `18:03:11`."""
    return text[11:19]
