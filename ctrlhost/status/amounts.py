"""Durations, sizes and rates as pages and commands show them: one unit, one digit after the point below ten."""

from __future__ import annotations

_DURATIONS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def seconds(value: float) -> str:
    """Return a duration, such as `80 ms`, `48 s`, `1.5 min` or `20 d`."""
    for size, unit in _DURATIONS:
        if value >= size:
            return f"{value / size:.{1 if value < 10 * size else 0}f} {unit}"
    if value >= 1:
        return f"{value:.0f} s"
    return f"{value * 1000:.{1 if 0 < value < 0.01 else 0}f} ms"


def size(value: float) -> str:
    """Return bytes, such as `512 B`, `1.9 MiB` or `104 MiB`."""
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.{1 if unit != 'B' and value < 100 else 0}f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def rate(value: float) -> str:
    """Return something per second."""
    return f"{value:,.{2 if 0 < value < 0.1 else 1}f}"
