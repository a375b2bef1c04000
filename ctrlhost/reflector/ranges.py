"""Ranges of a hash line, as pairs of start and end, and sets of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

END = 1 << 64
"""The end of a hash line."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """Hashes, as ranges in order that do not touch. Immutable."""

    pairs: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> Self:
        """Join ranges that overlap or touch; ValueError unless each has 0 <= start < end <= 2**64."""
        joined: list[tuple[int, int]] = []
        for start, end in sorted(pairs):
            if not 0 <= start < end <= END:
                raise ValueError(f"a range must have 0 <= start < end <= 2**64, got {(start, end)}")
            if joined and start <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(joined[-1][1], end)
            else:
                joined.append((start, end))
        return cls(tuple(joined))

    def __bool__(self) -> bool:
        """Return whether there is any hash."""
        return bool(self.pairs)

    def __contains__(self, place: int) -> bool:
        """Return whether a hash is in one of the ranges."""
        return any(start <= place < end for start, end in self.pairs)

    def __and__(self, other: Ranges) -> Ranges:
        """Return the hashes in both."""
        return Ranges(tuple(_common(self.pairs, other.pairs)))

    def __or__(self, other: Ranges) -> Ranges:
        """Return the hashes in either."""
        return Ranges.of((*self.pairs, *other.pairs))

    def __sub__(self, other: Ranges) -> Ranges:
        """Return the hashes that the other does not have."""
        bounds = [0, *(bound for pair in other.pairs for bound in pair), END]
        gaps = zip(bounds[::2], bounds[1::2], strict=True)
        return self & Ranges(tuple((start, end) for start, end in gaps if start < end))

    def cover(self, start: int, end: int) -> bool:
        """Return whether all of a range is in it."""
        return any(first <= start and end <= last for first, last in self.pairs)


ALL = Ranges(((0, END),))


def _common(pairs: tuple[tuple[int, int], ...], others: tuple[tuple[int, int], ...]) -> Iterator[tuple[int, int]]:
    """Return the common parts of two lists of ranges, in order."""
    place = 0
    for start, end in pairs:
        while place < len(others) and others[place][1] <= start:
            place += 1
        at = place
        while at < len(others) and others[at][0] < end:
            yield max(start, others[at][0]), min(end, others[at][1])
            at += 1
