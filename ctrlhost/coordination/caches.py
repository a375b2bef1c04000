"""What the protocol of shards needs of the caches of its replica."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ctrlhost.coordination.ownership import Span


class Caches(Protocol):
    """What the sharded informers of a replica hold."""

    def hold(self, wanted: Collection[Span], *, spread: float = 0.0) -> None:
        """Hold these ranges, and no others; list what is new after a random part of `spread` seconds."""
        ...

    def holds(self, span: Span) -> bool:
        """Return whether every sharded source of every controller has listed the range."""
        ...

    def contents(self, span: Span) -> Sequence[tuple[int, int]]:
        """Return the hashes of a range in order, each with its number of objects."""
        ...

    def describe(self, line: str, place: int) -> str:
        """Return in words what has a hash on a line."""
        ...

    def echoed(self, span: Span) -> bool:
        """Return whether they show all that this replica wrote in the range."""
        ...
