"""Sizes in settings: `"100Mi"`, `"1.5G"` or a number of bytes."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Self

_UNITS: dict[str, int] = {
    "": 1,
    **{unit: 1000**power for power, unit in enumerate("kMGT", start=1)},
    **{f"{unit}i": 1024**power for power, unit in enumerate("KMGT", start=1)},
}
_TEXT = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[kMGT]|[KMGT]i|)B?")


class Size(int):
    """A number of bytes, for settings of the host.

    Accepts an integer, or a string in the syntax of Kubernetes' quantities: `k`, `M`, `G` and `T` are powers of 1000,
    `Ki`, `Mi`, `Gi` and `Ti` powers of 1024; a `B` may follow. Fractions of a byte are rounded up, as Kubernetes does.
    ValueError for a negative size, and for any other string, such as Kubernetes' `100m`, a tenth of a byte.
    """

    def __new__(cls, value: int | str = 0) -> Self:
        """Parse the size; TypeError for a `bool` and other types."""
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise TypeError(f"a size must be a string such as `100Mi` or a number of bytes, got {type(value).__name__}")
        size = _parse(value) if isinstance(value, str) else int(value)
        if size < 0:
            raise ValueError(f"a size must not be negative, got {value}")
        return super().__new__(cls, size)

    def __str__(self) -> str:
        """Return the size as settings accept it, with the largest unit that leaves no fraction."""
        unit = max((unit for unit, size in _UNITS.items() if int(self) % size == 0), key=_UNITS.__getitem__)
        return f"{int(self) // _UNITS[unit]}{unit}" if self else "0"

    def __repr__(self) -> str:
        """Return the expression that creates the size."""
        return f"Size('{self}')"


def _parse(text: str) -> int:
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"invalid size `{text}`: write a number of bytes, or with a unit, such as `100Mi` or `1.5G`")
    return math.ceil(Fraction(match["number"]) * _UNITS[match["unit"]])
