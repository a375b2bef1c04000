"""The ranges that this replica owns: which are open to runs, and which it closes, drains and gives away.

A range is open while the term of this replica lasts, the map names its incarnation, its caches hold the range, and it
was not closed. Each has a tenure of its own, which ends before the range is given away: what a run left behind, such as
a thread, cannot write any more.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ctrlhost.coordination.shard_map import END
from ctrlhost.coordination.term import Tenure

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from ctrlhost.clock import Clock
    from ctrlhost.coordination.shard_map import Incarnation, ShardMap
    from ctrlhost.coordination.term import Term


class Span(NamedTuple):
    """A part of a line."""

    line: str
    start: int
    end: int

    def covers(self, line: str, place: int) -> bool:
        """Return whether the hash is in it."""
        return self.line == line and self.start <= place < self.end


class Phase(Enum):
    """What a replica does with a range that it owns."""

    #: The caches do not hold it yet.
    WARMING = "warming"
    OPEN = "open"
    #: No run begins; some may last.
    CLOSING = "closing"


def spans(shards: ShardMap) -> Iterator[tuple[Span, int]]:
    """Return each range of the map with its place in its line."""
    for line, entries in shards.lines.items():
        ends = [*(entry.start for entry in entries[1:]), END]
        for place, (entry, end) in enumerate(zip(entries, ends, strict=True)):
            yield Span(line, entry.start, end), place


@dataclass(slots=True, eq=False)
class Range:
    """A range that this replica owns."""

    span: Span
    tenure: Tenure
    phase: Phase = Phase.WARMING


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A run of a key: the tenure and the term in which it began, which its writes need."""

    line: str
    place: int
    tenure: Tenure
    term: int

    @property
    def permitted(self) -> bool:
        """Whether its writes would be sent."""
        return self.tenure.term == self.term


class SharedKeys(NamedTuple):
    """What controllers need to share their keys with those of other replicas."""

    ownership: Ownership
    #: That of this replica's membership.
    tenure: Tenure
    #: Returns in words whose range a hash on a line is in.
    whose: Callable[[str, int], str]


class Ownership:
    """The ranges of one replica. Callable from any thread; one thread accepts maps."""

    def __init__(
        self,
        clock: Clock,
        holds: Callable[[Span], bool],
        *,
        opened: Callable[[Span], None] = lambda _: None,
        lost: Callable[[Span], None] = lambda _: None,
        drained: Callable[[], None] = lambda: None,
    ) -> None:
        """Own nothing. `holds` says whether the caches hold a range.

        `opened` and `lost` are called for each range, `drained` when the last run of a closed one has ended; all with
        the lock held: they must not wait, nor call this object.
        """
        self._clock = clock
        self._holds = holds
        self._opened, self._lost, self._drained = opened, lost, drained
        self._lock = threading.RLock()
        self._ranges: dict[Span, Range] = {}
        #: The starts of the ranges of each line in order, each with its range.
        self._places: dict[str, tuple[list[int], list[Range]]] = {}
        self._runs: set[Run] = set()
        #: Tenures of ranges that were cut or joined, while runs last that began in them.
        self._former: list[Tenure] = []
        self._me: Incarnation | None = None
        self._term: Term | None = None
        self._epoch: tuple[str, int] | None = None

    def renew(self, me: Incarnation, term: Term) -> None:
        """Follow the member's term. In a new one, what began before is refused its writes.

        Another incarnation owns nothing of what the last one had, whatever map it knows.
        """
        with self._lock:
            if me != self._me:
                self._me, former, self._ranges = me, self._ranges, {}
                self._places = {}
                for part in former.values():
                    self._leave(part)
            before, self._term = self._term, term
            fresh = before is None or before.number != term.number
            for tenure in [*(owned.tenure for owned in self._ranges.values()), *self._former]:
                if tenure.lost():
                    continue
                if fresh:
                    tenure.end()
                    tenure.begin(term.until)
                else:
                    tenure.extend(term.until)

    def accept(self, shards: ShardMap, claims: Callable[[Incarnation], bool]) -> None:
        """Follow the map. `claims` returns whether a claimant lives.

        A range stays closed until a later epoch names this replica without a claim: then a write that gives it away can
        no longer be taken.
        """
        with self._lock:
            me = self._me
            later = self._epoch is None or self._epoch[0] != shards.id or self._epoch[1] < shards.epoch
            self._epoch = (shards.id, shards.epoch)
            owned: dict[Span, Range] = {}
            for span, place in spans(shards):
                entry = shards.lines[span.line][place]
                if me is None or entry.owner != me:
                    continue
                part = owned[span] = self._ranges.get(span) or self._part(span)
                if entry.claimant not in (None, me) and claims(entry.claimant):
                    part.phase = Phase.CLOSING
                elif part.phase is Phase.CLOSING and later and entry.claimant in (None, me):
                    part.phase = Phase.WARMING
            before, self._ranges = self._ranges, owned
            self._places = _places(owned)
            for span, former in before.items():
                if span not in owned:
                    self._leave(former)
            self._open()

    def _part(self, span: Span) -> Range:
        """Return a range that is new here; it is open if it was cut or joined from open ones."""
        part, place = Range(span, Tenure(self._clock)), span.start
        for former in sorted(self._ranges.values(), key=lambda former: former.span):
            if former.phase is Phase.OPEN and former.span.covers(span.line, place):
                place = former.span.end
        if place >= span.end and self._term is not None:
            part.phase = Phase.OPEN
            part.tenure.begin(self._term.until)
        return part

    def _leave(self, former: Range) -> None:
        """Stop owning a range, or parts of it if it was cut or joined."""
        kept = [part for part in self._ranges if part.line == former.span.line and _overlap(part, former.span)]
        if kept and any(run.tenure is former.tenure for run in self._runs):
            self._former.append(former.tenure)
        else:
            former.tenure.end()
        if not kept:
            self._lost(former.span)

    def _open(self) -> None:
        for part in self._ranges.values():
            if part.phase is Phase.WARMING and self._term is not None and self._holds(part.span):
                part.phase = Phase.OPEN
                if part.tenure.lost():
                    part.tenure.begin(self._term.until)
                self._opened(part.span)

    def warmed(self) -> None:
        """Open what the caches hold by now."""
        with self._lock:
            self._open()

    def close(self) -> None:
        """Close all ranges: the map has another id, or this replica stops."""
        with self._lock:
            for part in self._ranges.values():
                part.phase = Phase.CLOSING

    def surrender(self, span: Span) -> bool:
        """End the tenure of a range that is closed and has no runs; return False if it is not: it cannot be given."""
        with self._lock:
            part = self._ranges.get(span)
            if part is None or part.phase is not Phase.CLOSING or self.running(span):
                return False
            part.tenure.end()
            return True

    def running(self, span: Span | None = None) -> list[Run]:
        """Return the runs of a range, or of all, whose writes would still be sent."""
        with self._lock:
            runs = [run for run in self._runs if run.permitted]
        return [run for run in runs if span is None or span.covers(run.line, run.place)]

    def begin(self, line: str, place: int) -> Run | None:
        """Begin a run of a key, by its hash; None if its range is not open here. `end` must follow."""
        with self._lock:
            part = self._find(line, place)
            if part is None or part.phase is not Phase.OPEN or (term := part.tenure.term) is None:
                return None
            run = Run(line, place, part.tenure, term)
            self._runs.add(run)
            return run

    def end(self, run: Run) -> None:
        """Take note of the end of a run."""
        with self._lock:
            self._runs.discard(run)
            if run.tenure in self._former and not any(other.tenure is run.tenure for other in self._runs):
                self._former.remove(run.tenure)
                run.tenure.end()
            part = self._find(run.line, run.place)
            if part is not None and part.phase is Phase.CLOSING and not self.running(part.span):
                self._drained()

    def owns(self, line: str, place: int) -> bool:
        """Return whether a run of a key would begin here."""
        with self._lock:
            part = self._find(line, place)
            return part is not None and part.phase is Phase.OPEN and part.tenure.term is not None

    def suspended(self, line: str, place: int) -> bool:
        """Return whether a key waits for the next renewal: its range is open, but the term has lapsed."""
        with self._lock:
            part = self._find(line, place)
            return part is not None and part.phase is Phase.OPEN and part.tenure.term is None

    @property
    def any_open(self) -> bool:
        """Whether a range is open here."""
        return Phase.OPEN in self.phases().values()

    def phases(self) -> dict[Span, Phase]:
        """Return the ranges of this replica."""
        with self._lock:
            return {span: part.phase for span, part in self._ranges.items()}

    def _find(self, line: str, place: int) -> Range | None:
        starts, parts = self._places.get(line, _NOTHING)
        number = bisect_right(starts, place) - 1
        return parts[number] if number >= 0 and place < parts[number].span.end else None


_NOTHING: tuple[list[int], list[Range]] = ([], [])


def _places(ranges: Mapping[Span, Range]) -> dict[str, tuple[list[int], list[Range]]]:
    """Return the starts of the ranges of each line in order, each with its range."""
    places: dict[str, tuple[list[int], list[Range]]] = {}
    for span, part in sorted(ranges.items()):
        starts, parts = places.setdefault(span.line, ([], []))
        starts.append(span.start)
        parts.append(part)
    return places


def _overlap(one: Span, other: Span) -> bool:
    return one.start < other.end and other.start < one.end


def named(shards: ShardMap) -> Collection[Incarnation]:
    """Return the incarnations that the map names."""
    entries = [entry for line in shards.lines.values() for entry in line]
    return {member for entry in entries for member in (entry.owner, entry.claimant) if member is not None}
