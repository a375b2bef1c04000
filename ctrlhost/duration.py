"""Durations in settings: `"30s"`, `"1m30s"`, `"250ms"` or a number of seconds."""

from __future__ import annotations

import math
import re
from typing import Self

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


class Duration(float):
    """A length of time in seconds, for settings of the host and of plugins.

    Takes a number of seconds, or a text of numbers with the units `ms`, `s`, `m`, `h` and `d`. Negative, endless
    and undefined durations, and texts without a unit, are ValueError.
    """

    def __new__(cls, value: float | str = 0.0) -> Self:
        """Read the duration; a `bool` is TypeError."""
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise TypeError(f"a duration is a text such as `30s` or a number of seconds, not {type(value).__name__}")
        seconds = _parse(value) if isinstance(value, str) else float(value)
        if not math.isfinite(seconds) or seconds < 0:
            raise ValueError(f"a duration is finite and not negative, not {value}")
        return super().__new__(cls, seconds)

    def __str__(self) -> str:
        """Write the duration as settings take it: `90.0` is `1m30s`."""
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
        """Show the duration as it would be written."""
        return f"Duration('{self}')"


def _parse(text: str) -> float:
    stripped = text.strip()
    if stripped == "0":
        return 0.0
    if not _WHOLE.fullmatch(stripped):
        raise ValueError(f"`{text}` is no duration; write a number with a unit, such as `30s`, `1m30s` or `250ms`")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(stripped))
