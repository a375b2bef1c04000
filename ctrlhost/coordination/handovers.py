"""What has moved here: how many ranges this replica took from others, why, and how long each phase of a move took."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, get_args

from ctrlhost.coordination.balance import PATIENCE
from ctrlhost.coordination.ownership import Phase, Span, spans

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost.clock import Clock
    from ctrlhost.coordination.fleet import Fleet
    from ctrlhost.coordination.shard_map import Incarnation, ShardMap

#: Why a range moved: this replica had just joined, the former owner leaves or was dead, or had more than others.
Reason = Literal["join", "leave", "death", "balance"]
#: `warm`: from the wish for a range to its claim, with its list. `open`: from the map that names this replica to the
#: first run. `drain`: from the claim of another replica to the map that names it.
Step = Literal["warm", "open", "drain"]
#: Upper bounds of the times, in seconds.
BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Times:
    """How often something took how long. One thread adds; any thread reads."""

    def __init__(self) -> None:
        """Start at zero."""
        self.seconds = 0.0
        self._counts = [0] * (len(BUCKETS) + 1)

    def add(self, seconds: float) -> None:
        """Add one time."""
        self._counts[bisect_left(BUCKETS, seconds)] += 1
        self.seconds += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        """Return for each bound how many times were at most that."""
        return list(zip((*map(str, BUCKETS), "+Inf"), map(float, accumulate(self._counts)), strict=True))


class Handovers:
    """The moves of ranges that concern one replica. One thread calls `follow`; any thread reads the counts."""

    def __init__(self, clock: Clock, fleet: Fleet) -> None:
        """Start at zero. `fleet` knows why the owner of a range has lost it."""
        self._clock, self._fleet = clock, fleet
        #: Ranges that this replica took, by reason.
        self.moves: dict[Reason, int] = dict.fromkeys(get_args(Reason), 0)
        self.times: dict[Step, Times] = {step: Times() for step in get_args(Step)}
        #: What is in progress, and since when.
        self._since: dict[tuple[Step, Span], float] = {}
        self._map: ShardMap | None = None
        #: The incarnation of this replica, and since when it has been a member.
        self._me: tuple[Incarnation, float] | None = None

    def follow(
        self,
        me: Incarnation,
        shards: ShardMap,
        phases: Mapping[Span, Phase],
        wishes: Mapping[Span, Incarnation | None],
    ) -> None:
        """Compare the map and the ranges of this replica with those of the last call.

        `wishes` are who should own each range.
        """
        now = self._clock.now()
        if self._me is None or self._me[0] != me:
            self._me, self._since = (me, now), {}
        current: set[tuple[Step, Span]] = set()
        for span, place in spans(shards):
            entry, phase, former = shards.lines[span.line][place], phases.get(span), self._former(shards, span)
            if entry.owner != me:
                if wishes.get(span) == me and entry.claimant != me:
                    current.add(("warm", span))
                elif entry.claimant == me:
                    self._done("warm", span)
                if former == me:
                    # Without runs it may be given in the step that closes it.
                    self._since.setdefault(("drain", span), now)
                    self._done("drain", span)
                continue
            if former is not None and former != me:
                self.moves[self._reason(former)] += 1
                self._since.setdefault(("open", span), now)
            if phase is Phase.WARMING:
                current.add(("open", span))
            elif phase is Phase.OPEN:
                self._done("open", span)
            elif phase is Phase.CLOSING:
                current.add(("drain", span))
        for step, span in [each for each in self._since if each not in current and each[0] == "open"]:
            # One that was cut or joined as soon as it was open.
            if any(phase is Phase.OPEN and part.covers(span.line, span.start) for part, phase in phases.items()):
                self._done(step, span)
        self._since = {each: self._since.get(each, now) for each in current}
        self._map = shards

    def died(self, shards: ShardMap, span: Span) -> bool:
        """Return whether the owner of a range in the last map is dead; one that leaves is not."""
        former = self._former(shards, span)
        return former is not None and self._fleet.over(former) and not self._fleet.leaves(former)

    def _done(self, step: Step, span: Span) -> None:
        """Add the time of a step that has ended."""
        if (since := self._since.pop((step, span), None)) is not None:
            self.times[step].add(self._clock.now() - since)

    def _former(self, shards: ShardMap, span: Span) -> Incarnation | None:
        """Return who owned the start of a range in the last map; None if nobody did, or that was another map."""
        line = self._map.lines.get(span.line) if self._map is not None and self._map.id == shards.id else None
        return line[bisect_right(line, span.start, key=lambda entry: entry.start) - 1].owner if line else None

    def _reason(self, former: Incarnation) -> Reason:
        if self._fleet.leaves(former):
            return "leave"
        if self._fleet.over(former):
            return "death"
        recent = self._me is not None and self._clock.now() < self._me[1] + PATIENCE
        return "join" if recent else "balance"
