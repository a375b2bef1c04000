"""Who should own which range: a pure function of the shard map and the members, which every member computes.

If two disagree, only time is lost: what may be written does not depend on it.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ctrlhost.coordination.shard_map import END, RANGES_PER_MEMBER, Incarnation, Line, ShardRange

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from ctrlhost.clock import Clock
    from ctrlhost.coordination.shard_map import ShardMap

    #: The hashes of a range in order, each with its weight.
    Contents = Sequence[tuple[int, int]]

#: Shares, as multiples of the mean, beyond which ranges move; and the one at which they stop.
MOST, LEAST, ENOUGH = 1.15, 0.8, 1.10
#: Neighbours of one owner are joined below this part of the weight at which a range is cut.
JOINED = 0.75
#: Seconds of imbalance after which ranges move; at once, if members came or went no longer ago.
PATIENCE = 60.0
#: Seconds after a join in which nothing is claimed, so that members that start together are counted together.
GATHERING = 2.0


class Member(NamedTuple):
    """A live member."""

    incarnation: Incarnation
    leaving: bool = False


class Spread(NamedTuple):
    """The largest and the smallest share, as multiples of the mean of those whose share can change.

    Of those with one range above the mean, the share is a multiple of that range.
    """

    most: float = 1.0
    least: float = 1.0

    @property
    def uneven(self) -> bool:
        """Whether ranges should move."""
        return self.most > MOST or self.least < LEAST

    @property
    def even(self) -> bool:
        """Whether moves stop."""
        return self.most <= ENOUGH and self.least >= LEAST


Place = tuple[str, int]
Owners = dict[str, tuple[Incarnation | None, ...]]


@dataclass(frozen=True, slots=True)
class Balance:
    """Who should own each range of each line, and what follows from it."""

    owners: Owners
    spread: Spread
    #: The weight that stays without an owner, since there are fewer than `min_members`.
    unowned: int
    #: How many ranges that are.
    ranges: int = 0


def balance(shards: ShardMap, members: Iterable[Member], *, min_members: int = 1, moves: bool = True) -> Balance:
    """Return who should own each range. The order of `members` does not count.

    What has no live owner, or one that leaves, goes to others. With `moves`, members with much give to those with
    little. A claim counts for the claimant. With fewer than `min_members`, nobody gets more than that part of the
    weight, unless it is one range.
    """
    everybody = sorted(members)
    staying = [member.incarnation for member in everybody if not member.leaving]
    shares = _Shares(shards, staying or [member.incarnation for member in everybody], min_members)
    shares.give_what_is_free()
    spread = shares.spread()
    if moves and staying:
        shares.even_out()
    owners = {
        name: tuple(shares.owner.get((name, place)) for place in range(len(line)))
        for name, line in shards.lines.items()
    }
    unowned = sum(shares.weight[place] for place in shares.free)
    return Balance(owners, spread, unowned, len(shares.free))


class _Shares:
    """Who has which range, while it is computed."""

    def __init__(self, shards: ShardMap, takers: Sequence[Incarnation], min_members: int) -> None:
        """Keep what the takers have or claim; all else is free."""
        self.load = dict.fromkeys(takers, 0)
        #: The ranges of each, the lightest first.
        self.ranges: dict[Incarnation, list[tuple[int, Place]]] = {taker: [] for taker in takers}
        self.owner: dict[Place, Incarnation] = {}
        self.weight: dict[Place, int] = {}
        self.free: list[Place] = []
        for name, line in sorted(shards.lines.items()):
            for index, entry in enumerate(line):
                self.weight[name, index] = entry.weight
                holder = entry.claimant if entry.claimant in self.load else entry.owner
                if holder is not None and holder in self.load:
                    self.add((name, index), holder)
                else:
                    self.free.append((name, index))
        total = sum(self.weight.values())
        #: The largest share of each while members are missing.
        self.cap = total / min_members if len(takers) < min_members else total
        self.mean = min(self.cap, total / max(len(takers), 1))

    def add(self, place: Place, taker: Incarnation) -> None:
        weight = self.weight[place]
        self.owner[place] = taker
        self.load[taker] += weight
        insort(self.ranges[taker], (weight, place))

    def move(self, number: int, giver: Incarnation, taker: Incarnation) -> None:
        """Move the range at this number among those of the giver."""
        weight, place = self.ranges[giver].pop(number)
        self.load[giver] -= weight
        self.add(place, taker)

    def fits(self, weight: int, taker: Incarnation) -> bool:
        """Return whether the taker may have so much more; a range larger than its share only alone."""
        return self.load[taker] == 0 or self.load[taker] + weight <= self.cap

    def give_what_is_free(self) -> None:
        """Assign free ranges, the heaviest first: to a neighbour's owner below the mean, else to the lightest."""
        left = []
        for place in sorted(self.free, key=lambda place: (-self.weight[place], place)):
            taker = self.neighbour(place) or self.lightest(place)
            if taker is None:
                left.append(place)
            else:
                self.add(place, taker)
        self.free = left

    def neighbour(self, place: Place) -> Incarnation | None:
        """Return the owner of a neighbour, for fewer ranges in its selector."""
        name, index = place
        for near in (index - 1, index + 1):
            taker = self.owner.get((name, near))
            if taker is not None and self.load[taker] + self.weight[place] < self.mean:
                return taker
        return None

    def lightest(self, place: Place) -> Incarnation | None:
        takers = [taker for taker in self.load if self.fits(self.weight[place], taker)]
        return min(takers, key=lambda taker: (self.load[taker], len(self.ranges[taker]), taker), default=None)

    def changeable(self) -> list[Incarnation]:
        """Return the members whose share can become the mean: not those that are above it with one range alone."""
        takers = list(self.load)
        while takers:
            mean = sum(self.load[taker] for taker in takers) / len(takers)
            rest = [taker for taker in takers if self.load[taker] <= mean or self.ranges[taker][-1][0] <= mean]
            if len(rest) == len(takers):
                break
            takers = rest
        return takers

    def spread(self) -> Spread:
        """Return how uneven the shares are."""
        changeable = self.changeable()
        loads = [self.load[taker] for taker in changeable]
        mean = sum(loads) / len(loads) if loads else 0
        excess = max((self.excess(taker) for taker in self.load if taker not in changeable), default=1.0)
        return Spread(max(max(loads) / mean, excess), min(loads) / mean) if mean else Spread(excess)

    def excess(self, taker: Incarnation) -> float:
        """Return the load as a multiple of that of its heaviest range alone, if it can give some of the others."""
        half = (self.load[taker] - min(self.load.values())) / 2
        *others, (heaviest, _) = self.ranges[taker]
        return self.load[taker] / heaviest if any(0 < weight <= half for weight, _ in others) else 1.0

    def even_out(self) -> None:
        """Move ranges from the fullest to the emptiest, each the heaviest of at most half the difference."""
        changeable, giving = self.changeable(), list(self.load)
        mean = sum(self.load[taker] for taker in changeable) / max(len(changeable), 1)
        while giving:
            full = max(giving, key=lambda taker: (self.load[taker], taker))
            thin = min(self.load, key=lambda taker: (self.load[taker], taker))
            if self.load[full] <= ENOUGH * mean and self.load[thin] >= LEAST * mean:
                return
            half = (self.load[full] - self.load[thin]) / 2
            number = bisect_right(self.ranges[full], half, key=lambda item: item[0]) - 1
            if number < 0 or not (weight := self.ranges[full][number][0]) or not self.fits(weight, thin):
                giving.remove(full)
            else:
                self.move(number, full, thin)


def grain(total: float, members: int) -> float:
    """Return the weight above which a range is cut, for that many members, `min_members` at least."""
    return total / (RANGES_PER_MEMBER * max(members, 1))


def reshaped(
    line: Line, owners: Collection[Incarnation], limit: float, contents: Callable[[int, int], Contents | None]
) -> Line:
    """Return the line after these owners weighed, cut and joined their own ranges; claimed ranges are only weighed.

    `contents(start, end)` are the hashes that the owner caches in a range, None for one that is to stay as it is. One
    hash is never cut.
    """
    shaped: list[ShardRange] = []
    joinable = False
    for entry, end in zip(line, [*(later.start for later in line[1:]), END], strict=True):
        hashes = contents(entry.start, end) if entry.owner in owners else None
        if hashes is None:
            shaped.append(entry)
            joinable = False
            continue
        weighed = entry._replace(weight=sum(weight for _, weight in hashes))
        for piece in [weighed] if entry.claimant else _cut(weighed, hashes, limit):
            if joinable and (joined := _joined(shaped[-1], piece, limit)):
                shaped[-1] = joined
            else:
                shaped.append(piece)
            joinable = True
    return tuple(shaped)


def _cut(entry: ShardRange, hashes: Contents, limit: float) -> list[ShardRange]:
    """Cut a range in halves until each is at most `limit` or one hash."""
    if entry.weight <= limit or len(hashes) < 2:
        return [entry]
    below, best, place = 0, entry.weight, 1
    for number, (_, weight) in enumerate(hashes[:-1], 1):
        below += weight
        if (distance := abs(2 * below - entry.weight)) < best:
            best, place = distance, number
    first, second = hashes[:place], hashes[place:]
    lower = entry._replace(weight=sum(weight for _, weight in first))
    upper = entry._replace(start=second[0][0], weight=entry.weight - lower.weight)
    return [*_cut(lower, first, limit), *_cut(upper, second, limit)]


def _joined(before: ShardRange, after: ShardRange, limit: float) -> ShardRange | None:
    """Return both as one, if they are neighbours of one owner and light enough."""
    weight = before.weight + after.weight
    claimed = before.claimant or after.claimant
    if before.owner != after.owner or claimed or before.unknown != after.unknown or weight >= JOINED * limit:
        return None
    return before._replace(weight=weight)


class Pace:
    """When ranges may be claimed for the sake of balance: not for each small difference, nor while members start."""

    def __init__(self, clock: Clock) -> None:
        """Start before the first look at the members."""
        self._clock = clock
        self._members: frozenset[Incarnation] = frozenset()
        self._changed_at = self._gathering_until = float("-inf")
        self._uneven_since: float | None = None
        self._moving = False

    def moves(self, members: Collection[Incarnation], spread: Spread) -> bool:
        """Return whether ranges may move now, with these members, without those that leave."""
        now, current = self._clock.now(), frozenset(members)
        if current != self._members:
            # One that was over and has come back joins: what it reads may be as old as its silence.
            left = {member.lease for member in self._members} - {member.lease for member in current}
            self._gathering_until = now if left else now + GATHERING
            self._members, self._changed_at = current, now
        if now < self._gathering_until:
            return False
        if not spread.uneven:
            self._uneven_since = None
        elif self._uneven_since is None:
            self._uneven_since = now
        if spread.even:
            self._moving = False
        elif self._uneven_since is not None:
            recent = now < self._changed_at + PATIENCE
            self._moving |= recent or now >= self._uneven_since + PATIENCE
        return self._moving


def shares(shards: ShardMap) -> dict[Incarnation, int]:
    """Return the weight that each owner in the map has."""
    loads: dict[Incarnation, int] = {}
    for line in shards.lines.values():
        for entry in line:
            if entry.owner is not None:
                loads[entry.owner] = loads.get(entry.owner, 0) + entry.weight
    return loads
