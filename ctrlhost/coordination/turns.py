"""Who acts on what several members see: the first by name at once, the others if it is still there later."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable

    from ctrlhost.clock import Clock

#: Seconds after which the others do what the first member by name should have done.
SECOND_TURN = (0.5, 1.5)


class Turns:
    """The needs that one member sees, each with the time from which it acts on it."""

    def __init__(self, clock: Clock) -> None:
        """See nothing that is needed."""
        self._clock = clock
        self._due: dict[Hashable, float] = {}

    def due(self, needs: Collection[Hashable], *, first: bool) -> set[Hashable]:
        """Return the needs that this member acts on now. `needs` are all that it sees."""
        now = self._clock.now()
        # One for all that is seen at once, so that it is done at once.
        later = now + random.uniform(*SECOND_TURN)  # noqa: S311 - spreads members only
        for need in needs:
            if first:
                self._due[need] = min(now, self._due.get(need, now))
            else:
                self._due.setdefault(need, later)
        self._due = {need: at for need, at in self._due.items() if need in needs}
        return {need for need, at in self._due.items() if at <= now}
