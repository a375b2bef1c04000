"""What the ranges of this replica weigh, and when the map is to know."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctrlhost.coordination.balance import grain, reshaped
from ctrlhost.coordination.ownership import Phase, Span
from ctrlhost.coordination.shard_map import END

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost.clock import Clock
    from ctrlhost.coordination.caches import Caches
    from ctrlhost.coordination.ownership import Ownership
    from ctrlhost.coordination.shard_map import Incarnation, Line
    from ctrlhost.coordination.unbalanced import Unbalanced

#: Seconds between writes that only report weights, and the change of the sum, in parts of the mean, that is worth one.
REPORT_EVERY, REPORT_FROM = 60.0, 0.1


class Members(NamedTuple):
    """How many members live, and for how many the ranges are cut."""

    living: int
    sharing: int


class Weights:
    """The weights of one replica's ranges. For use by one thread."""

    def __init__(self, ownership: Ownership, caches: Caches, unbalanced: Unbalanced, clock: Clock) -> None:
        """Know of no write yet."""
        self._ownership, self._caches, self._unbalanced, self._clock = ownership, caches, unbalanced, clock
        #: When this member wrote its weights, and which of its ranges were open then.
        self._written_at, self._written = float("-inf"), frozenset[Span]()

    def _open(self) -> frozenset[Span]:
        return frozenset(span for span, phase in self._ownership.phases().items() if phase is Phase.OPEN)

    def weighed(self, me: Incarnation, lines: Mapping[str, Line], members: Members) -> Mapping[str, Line]:
        """Return the lines with the own open ranges weighed, cut and joined.

        A new map counts namespaces. So it does while a range waits for its first owner: there is one measure for all.
        """
        if any(entry.owner is None for line in lines.values() for entry in line):
            return lines
        held = {span: self._caches.contents(span) for span in self._open()}
        total = sum(weight for contents in held.values() for _, weight in contents)
        for name, line in lines.items():
            ends = [*(entry.start for entry in line[1:]), END]
            spans_of_line = [Span(name, entry.start, end) for entry, end in zip(line, ends, strict=True)]
            total += sum(entry.weight for entry, span in zip(line, spans_of_line, strict=True) if span not in held)
        self._unbalanced.weigh(held, total, members.sharing)
        limit = grain(total, members.sharing)
        return {
            name: reshaped(line, {me}, limit, lambda start, end, name=name: held.get(Span(name, start, end)))  # type: ignore[misc]
            for name, line in lines.items()
        }

    def worth_a_write(
        self, me: Incarnation, lines: Mapping[str, Line], weighed: Mapping[str, Line], members: Members
    ) -> bool:
        """Return whether the own ranges have other cuts, or other weights that count.

        Weights are written once a minute, those of ranges that have opened since at once.
        """
        if any(
            [entry.start for entry in line] != [entry.start for entry in weighed[name]] for name, line in lines.items()
        ):
            return True
        before, after = (
            sum(entry.weight for line in each.values() for entry in line if entry.owner == me)
            for each in (lines, weighed)
        )
        mean = sum(entry.weight for line in lines.values() for entry in line) / max(members.living, 1)
        due = not self._open() <= self._written or self._clock.now() >= self._written_at + REPORT_EVERY
        return due and abs(after - before) > REPORT_FROM * mean

    def comparable(self, me: Incarnation, lines: Mapping[str, Line], members: Members) -> bool:
        """Return whether the lines have what all ranges of this member weigh, so that it knows whether it has less."""
        if Phase.WARMING in self._ownership.phases().values():
            return False
        return not self.worth_a_write(me, lines, self.weighed(me, lines, members), members)

    def written(self) -> None:
        """Take note that the map has the weights of what is open now."""
        self._written_at, self._written = self._clock.now(), self._open()
