"""Durations, sizes and rates as commands show them, in few characters; `-` for None."""

from __future__ import annotations

from datetime import datetime

_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_NONE = "-"


def duration(seconds: float | None) -> str:
    """Return seconds as `12ms`, `0.2s`, `48s`, `5m12s` or `3d4h`."""
    if seconds is None:
        return _NONE
    if 0 < seconds < 0.0995:
        return f"{seconds * 1000:.0f}ms" if seconds >= 0.0005 else "<1ms"
    if seconds < 9.95:
        return f"{seconds:.2g}s"
    left = round(seconds)
    parts: list[str] = []
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count}{unit}" if count else "")
    return "".join(parts[:2])


def size(count: int | None) -> str:
    """Return bytes as `512B`, `1.9MiB` or `104MiB`."""
    if count is None:
        return _NONE
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if amount < 1023.5:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.1f}{unit}" if amount < 9.95 and unit != "B" else f"{amount:.0f}{unit}"


def rate(per_second: float | None) -> str:
    """Return a rate with one digit after the point."""
    return _NONE if per_second is None else f"{per_second:.1f}"


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
