"""Durations: `"30s"`, `"1m30s"`, `"250ms"`, a number of seconds or a `timedelta`."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Self, TypeAlias

__all__ = ["Duration", "DurationLike", "in_seconds"]

#: A length of time: a number of seconds, a `timedelta`, or a text in Go's syntax such as `1h30m`.
DurationLike: TypeAlias = float | str | timedelta

# Exact: 100us is the float 0.0001, and 100 * 1e-6 is not.
# Both letters that look like this: the micro sign and the Greek letter.
_PARTS_OF_A_SECOND = {"ns": 1e9, "us": 1e6, "\u00b5s": 1e6, "\u03bcs": 1e6, "ms": 1e3}
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|[u\u00b5\u03bc]s|ms|s|m|h|d)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


def in_seconds(value: DurationLike) -> float:
    """Return a duration in seconds; a number is returned as it is, also a negative one.

    A text has the units `ns`, `us`, `ms`, `s`, `m`, `h` and `d`. Raises ValueError for any other text, also a negative
    one, and TypeError for a `bool` and other types.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        return _parse(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    raise TypeError(f"a duration must be a string such as `30s` or a number of seconds, got {type(value).__name__}")


class Duration(float):
    """A length of time in seconds, for settings of the host and of plugins.

    >>> Duration("1h30m")
    Duration('1h30m')
    >>> Duration("1h30m") / 60
    90.0

    Accepts a number of seconds, a `timedelta`, or a string in Go's syntax, with the units `ns`, `us`, `ms`, `s`, `m`,
    `h` and `d`. Raises ValueError for a negative, infinite or NaN duration, and for a string without a unit. Raises
    TypeError for a `bool` and other types.
    """

    def __new__(cls, value: DurationLike = 0.0) -> Self:
        """Parse the duration."""
        seconds = in_seconds(value)
        if not math.isfinite(seconds) or seconds < 0:
            raise ValueError(f"a duration must be finite and not negative, got {value}")
        return super().__new__(cls, seconds)

    def __str__(self) -> str:
        """Return the duration as settings accept it: `90.0` is `1m30s`."""
        left = round(float(self) * 1000)
        if left == 0:
            return f"{float(self) * 1000:g}ms" if self else "0s"
        parts = []
        for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)):
            count, left = divmod(left, size)
            if count:
                parts.append(f"{count}{unit}")
        return "".join(parts)

    def __repr__(self) -> str:
        """Return the expression that creates the duration."""
        return f"Duration('{self}')"


def _parse(text: str) -> float:
    stripped = text.strip()
    if stripped == "0":
        return 0.0
    if not _WHOLE.fullmatch(stripped):
        raise ValueError(
            f"invalid duration `{text}`: a text has units, such as `30s` or `1m30s`; a number is in seconds"
        )
    return sum(
        float(number) / _PARTS_OF_A_SECOND[unit] if unit in _PARTS_OF_A_SECOND else float(number) * _SECONDS[unit]
        for number, unit in _PART.findall(stripped)
    )
