"""What no balance can change: a name that is too heavy, and what is left over while members are missing.

Each is logged once, until it is another or over.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ctrlhost.coordination.balance import ENOUGH, MOST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ctrlhost.clock import Clock
    from ctrlhost.coordination.balance import Contents
    from ctrlhost.coordination.ownership import Span

log = logging.getLogger("ctrlhost.shards")

#: Seconds for which a name is too heavy before the log names it: what others report of theirs may be a minute old.
LASTING = 120.0


class Unbalanced:
    """What one replica has said of it. One thread calls it; any thread reads `heaviest_share`."""

    def __init__(self, clock: Clock, describe: Callable[[str, int], str]) -> None:
        """Start with nothing. `describe` returns in words what in the caches has a hash on a line."""
        self._clock, self._describe = clock, describe
        #: The part of the heaviest name in the open ranges of this replica, as a multiple of a member's share.
        self.heaviest_share = 0.0
        #: The line and hash of the name that is too heavy, since when, and whether that was said.
        self._heavy: tuple[str, int] | None = None
        self._since, self._said = 0.0, False
        #: The number of members when it was said that some ranges have no owner.
        self._missing: int | None = None

    def weigh(self, held: Mapping[Span, Contents], total: float, members: int) -> None:
        """Find the heaviest name in the ranges of this replica, and name it if it is too heavy for any balance."""
        names = ((weight, span.line, place) for span, hashes in held.items() for place, weight in hashes)
        weight, line, place = max(names, default=(0, "", 0))
        self.heaviest_share = weight * members / total if total else 0.0
        if self.heaviest_share < (ENOUGH if self._said else MOST):
            self._heavy, self._said = None, False
        elif self._heavy != (line, place):
            self._heavy, self._since, self._said = (line, place), self._clock.now(), False
        if self._heavy is not None and not self._said and self._clock.now() >= self._since + LASTING:
            self._said = True
            log.warning(
                "shards: %s has %.2f times the share of a replica; it is never split, so its owner has most",
                self._describe(line, place),
                self.heaviest_share,
            )

    def left_over(self, ranges: int, weight: int, members: int, min_members: int) -> None:
        """Log how many ranges stay without an owner, and how many objects they have, since members are missing."""
        if not ranges:
            if self._missing is not None:
                log.info("shards: all ranges have owners")
            self._missing = None
        elif self._missing != members:
            self._missing = members
            log.warning(
                "shards: %d ranges with %d objects have no owner: %d of min_members = %d replicas run",
                ranges, weight, members, min_members,
            )  # fmt: skip
