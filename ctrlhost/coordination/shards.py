"""One member's part in the protocol of shards: it follows the map, and changes what it may change.

The map is changed by compare-and-swap only. An owner changes its own entries; anybody claims an entry, or gives away
one whose owner is over. `tests/coordination/shard_model.py` has the reasons for each rule.
"""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING

from ctrlhost.coordination.balance import Member, Pace, balance
from ctrlhost.coordination.handovers import Handovers
from ctrlhost.coordination.ownership import Phase, Span, named, spans
from ctrlhost.coordination.repeats import Repeats
from ctrlhost.coordination.shard_map import NewerMap, UnfitMap, lines_of, new_map
from ctrlhost.coordination.turns import Turns
from ctrlhost.coordination.unbalanced import Unbalanced
from ctrlhost.coordination.weights import Members, Weights
from ctrlhost.errors import CtrlhostError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping

    from ctrlhost.clock import Clock
    from ctrlhost.coordination.caches import Caches
    from ctrlhost.coordination.fleet import Fleet
    from ctrlhost.coordination.map_store import MapStore
    from ctrlhost.coordination.membership import Membership
    from ctrlhost.coordination.ownership import Ownership
    from ctrlhost.coordination.shard_map import Incarnation, ShardMap, ShardRange

log = logging.getLogger("ctrlhost.shards")

#: The longest wait, in seconds, for the own writes of a range to come back before it is given away.
ECHO = 2.0
#: Seconds over which the members that take the ranges of a dead one spread their lists.
SPREAD = 1.0
#: Seconds after which a replica is ready although something that it should have is not open.
READY_AFTER = 60.0


class Shards:
    """What one member does, a step at a time. One thread calls `step`, after each event and once a retry period."""

    def __init__(
        self,
        membership: Membership,
        fleet: Fleet,
        store: MapStore,
        ownership: Ownership,
        caches: Caches,
        clock: Clock,
        *,
        shard_by: Mapping[str, str] | None = None,
        min_members: int = 1,
        hashes: Callable[[], Collection[int]] = tuple,
        moved: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare without a request. `hashes` returns those of all namespaces, for a new map.

        `moved` is called in each step when ranges may have opened or been lost, before requests that would delay runs.
        """
        self.membership, self.fleet, self.store = membership, fleet, store
        self.ownership, self.caches = ownership, caches
        self._clock = clock
        #: What the sharded controllers of this replica are sharded by.
        self.shard_by: Mapping[str, str] = shard_by or {}
        self._min_members, self._hashes, self._moved = min_members, hashes, moved
        self._pace = Pace(clock)
        self._turns = Turns(clock)
        #: What has moved to and from this replica.
        self.handovers = Handovers(clock, fleet)
        #: What no balance can change.
        self.unbalanced = Unbalanced(clock, caches.describe)
        self._weights = Weights(ownership, caches, self.unbalanced, clock)
        #: The id of the map that this member has accepted, and whether each held Lease had it in a list since then.
        self._accepted = ""
        self._cleared = False
        #: Since when each range of this replica has been closed.
        self._closed: dict[Span, float] = {}
        #: Since when each closed range has had no run.
        self._drained: dict[Span, float] = {}
        #: What should be where, as of the last step, and when this member took part for the first time.
        self._wishes: Mapping[Span, Incarnation | None] = {}
        #: Whether they were computed for this member as one that leaves.
        self._leaves = False
        self._joined_at: float | None = None
        #: Why this replica cannot take part; empty if it can.
        self.problem = ""
        self._errors = Repeats(clock.now)

    def unready(self) -> str:
        """Return why this replica is not ready, else an empty text. Callable from any thread."""
        if self.problem:
            return self.problem
        if self._joined_at is None:
            return "shards: has not joined yet"
        if (awaited := self.awaited) and self._clock.now() < self._joined_at + READY_AFTER:
            return f"shards: waits for {awaited} range{'s' * (awaited != 1)}"
        return ""

    @property
    def awaited(self) -> int:
        """How many ranges that this replica should have are not open here. For any thread."""
        phases, me = self.ownership.phases(), self.membership.incarnation
        return sum(wish == me and phases.get(span) is not Phase.OPEN for span, wish in self._wishes.items())

    def may_join(self) -> bool:
        """Read the map and all Leases; return whether the map suits the controllers here, or nobody else lives.

        Sends requests; `problem` is why this replica must not join.
        """
        problem = ""
        try:
            self.store.refresh()
            self.fleet.relist()
            if (disagreement := self._disagreement()) and self.others_live():
                problem = disagreement
        except NewerMap as error:
            problem = str(error)
        except CtrlhostError as error:
            if self._errors.is_new(text := f"cannot join yet: {error}"):
                log.warning("shards: %s", text)
            return False
        if problem and problem != self.problem:
            log.error("%s: this replica does not join", problem)
        self.problem = problem
        return not problem

    def _disagreement(self) -> str:
        """Return why the map does not suit the controllers here; empty if it does."""
        known = self.store.shards.shard_by if self.store.shards is not None else {}
        for name, by in sorted(self.shard_by.items()):
            if known.get(name, by) != by:
                return (
                    f"shards: controller {name} is sharded by {by} here, but by {known[name]} in the shard map "
                    "(hint: scale to 0, or rename the controller)"
                )
        return ""

    def closing_for(self, seconds: float) -> list[Span]:
        """Return the ranges that have been closed for so long, and are kept since a run lasts. For any thread."""
        before = self._clock.now() - seconds
        return [span for span, at in list(self._closed.items()) if at <= before and self.ownership.running(span)]

    def others_live(self, *, staying: bool = False) -> bool:
        """Return whether another member has renewed its Lease within its duration, with `staying` one that stays."""
        silent = {seen.incarnation for seen in self.fleet.silent()}
        living = [member for member in self.fleet.members() if member.incarnation not in silent]
        others = [member for member in living if member.incarnation.lease != self.membership.name]
        return any(not (staying and member.leaving) for member in others)

    @property
    def unowned(self) -> int:
        """The objects in ranges that no live member owns. For any thread."""
        lines = self.store.shards.lines.values() if self.store.shards is not None else ()
        return sum(entry.weight for line in lines for entry in line if self._is_free(entry))

    def awaits_takers(self) -> bool:
        """Return whether others are to take ranges of this member, which leaves; callable from any thread.

        False once it is known that the rest stays without an owner, since fewer than `min_members` are left, and while
        this member cannot give what others claim, since the map does not suit it.
        """
        if self.problem:
            return False
        wishes = self._wishes
        return not self._leaves or any(wishes.get(span) is not None for span in self.ownership.phases())

    def step(self) -> None:
        """Follow the map and do what is due. Requests that fail are tried again in the next step."""
        standing = self.membership.standing()
        if standing is None:
            # Suspended: the tenures of ranges end with the term.
            return
        me, term = standing
        self.ownership.renew(me, term)
        try:
            current = self._refresh()
            if self.problem:
                log.info("shards: this replica stays after all")
                self.problem = ""
                self.membership.leave(False)
            if current and self._follow():
                self._tend(me)
                self._record(me)
        except (NewerMap, UnfitMap) as error:
            if not self.problem:
                log.error("%s: this replica leaves", error)
                self.problem = str(error)
                self.membership.leave()
            self.ownership.close()
        except CtrlhostError as error:
            if self._errors.is_new(str(error)):
                log.warning("shards: %s", error)
        else:
            self._errors.end()

    def _record(self, me: Incarnation) -> None:
        """Count what has moved since the last step."""
        if (shards := self.store.shards) is not None:
            self.handovers.follow(me, shards, self.ownership.phases(), self._wishes)

    # ---- the map ---------------------------------------------------------------------------------------------------

    def _refresh(self) -> bool:
        """Read the map if that is needed; write a new one in place of a lost one, if it is this member's turn."""
        self.store.refresh()
        disagreement = "" if self.store.lost else self._disagreement()
        if disagreement and self.others_live(staying=True):
            raise UnfitMap(disagreement)
        if not self.store.lost and not disagreement:
            return True
        if not self._due(["map"]):
            return False
        before, count = self.store.shards, max(len(self._members()), self._min_members)
        epoch = before.epoch + 1 if before is not None else 1
        shards = new_map(uuid.uuid4().hex, self.shard_by, count, self._hashes(), epoch=epoch)
        if self.store.write(shards):
            log.info("wrote a new shard map %s", shards.id)
            return True
        return False

    def _follow(self) -> bool:
        """Accept the map; one with another id only when no run of the last one is left."""
        shards = self.store.shards
        if shards is None:
            return False
        if shards.id != self._accepted:
            self.ownership.close()
            if self.ownership.running():
                return False
            self._accepted, self._cleared = shards.id, False
            self.membership.accept(shards.id)
        self.ownership.accept(shards, self.fleet.lives)
        return True

    def _clear(self, shards: ShardMap) -> bool:
        """Return whether ranges without an owner may get one: nobody acts by an earlier map any more."""
        if not self._cleared:
            self.fleet.relist()
            self._cleared = self.fleet.accepted(shards.id)
        return self._cleared

    # ---- what is due -----------------------------------------------------------------------------------------------

    def _members(self) -> list[Member]:
        """Return the members that live, this one included."""
        members = self.fleet.members()
        me = self.membership.incarnation
        if me is not None and all(member.incarnation != me for member in members):
            others = [member for member in members if member.incarnation.lease != me.lease]
            members = sorted([*others, Member(me, self.membership.leaving)])
        return members

    def _counts(self) -> Members:
        members = self._members()
        return Members(len(members), max(sum(not member.leaving for member in members), self._min_members))

    def _due(self, needs: Collection[Hashable]) -> set[Hashable]:
        silent = {seen.incarnation for seen in self.fleet.silent()}
        living = [member.incarnation for member in self._members() if member.incarnation not in silent]
        return self._turns.due(needs, first=bool(living) and living[0].lease == self.membership.name)

    def _tend(self, me: Incarnation) -> None:
        """Fence, delete what nobody needs, and change the map."""
        shards = self.store.shards
        assert shards is not None  # noqa: S101 - `_follow` has accepted it
        if self.fleet.incomplete or self.fleet.contradicts(named(shards)):
            self.fleet.relist()
            if contradiction := self.fleet.contradicts(named(shards)):
                self.store.discard(contradiction)
                return
        if self._add_controllers(shards):
            return
        self._wishes = self._balanced(me, shards)
        self._hold(me, shards)
        self._moved()
        if self._joined_at is None:
            self._joined_at = self._clock.now()
        silent = {("fence", seen.incarnation): seen for seen in self.fleet.silent()}
        left = {("clean", seen.incarnation): seen for seen in self.fleet.left(named(shards))}
        free = {("free", span): span for span, place in spans(shards) if self._is_free(shards.lines[span.line][place])}
        due = self._due([*silent, *left, *free])
        for need, seen in silent.items():
            if need in due:
                self.fleet.fence(seen, self.membership.lasted)
        for need, seen in left.items():
            if need in due:
                self.fleet.clean(seen)
        self._change(me, shards, {span for need, span in free.items() if need in due})

    def _add_controllers(self, shards: ShardMap) -> bool:
        """Add the controllers that the map does not know, and their lines; return whether there are some."""
        missing = self.shard_by.keys() - shards.shard_by.keys()
        if not missing:
            return False
        by = {**shards.shard_by, **{name: self.shard_by[name] for name in missing}}
        lines = dict(shards.lines)
        if not lines_of(by.values()) <= lines.keys():
            count = max(len(self._members()), self._min_members)
            lines = {**new_map(shards.id, by, count, self._hashes()).lines, **lines}
        self.store.write(shards.next(lines, by))
        return True

    def _is_free(self, entry: ShardRange) -> bool:
        return entry.owner is None or self.fleet.over(entry.owner)

    def _balanced(self, me: Incarnation, shards: ShardMap) -> dict[Span, Incarnation | None]:
        """Return who should own each range."""
        members = self._members()
        staying = [member.incarnation for member in members if not member.leaving]
        result = balance(shards, members, min_members=self._min_members, moves=False)
        if self._pace.moves(staying, result.spread) and self._weights.comparable(me, shards.lines, self._counts()):
            result = balance(shards, members, min_members=self._min_members)
        self._leaves = any(member.leaving for member in members if member.incarnation == me)
        self.unbalanced.left_over(result.ranges, result.unowned, len(staying) or len(members), self._min_members)
        return {span: result.owners[span.line][place] for span, place in spans(shards)}

    def _hold(self, me: Incarnation, shards: ShardMap) -> None:
        """Hold in the caches what this member has or claims, and what it should have and others have."""
        wanted = []
        for span, place in spans(shards):
            entry = shards.lines[span.line][place]
            # What is free is listed once the map gives it: members that start together wish for the same at first.
            if me in (entry.owner, entry.claimant) or (self._wishes.get(span) == me and not self._is_free(entry)):
                wanted.append(span)
        died = any(self.handovers.died(shards, span) for span in wanted)
        self.caches.hold(wanted, spread=SPREAD if died else 0.0)
        self.ownership.warmed()

    # ---- changes ---------------------------------------------------------------------------------------------------

    def _change(self, me: Incarnation, shards: ShardMap, free: Collection[Span]) -> None:
        """Write all changes that this member may make now, in one epoch."""
        closing = {span for span, phase in self.ownership.phases().items() if phase is Phase.CLOSING}
        self._drained = {span: at for span, at in self._drained.items() if span in closing}
        self._closed = {span: self._closed.get(span, self._clock.now()) for span in closing}
        lines: dict[str, list[ShardRange]] = {name: list(line) for name, line in shards.lines.items()}
        # For all at once: a list begins again when ranges come.
        clear = bool(free) and self._clear(shards)
        for span, place in spans(shards):
            entry = shards.lines[span.line][place]
            given = span in free and (clear or entry.owner is not None)
            lines[span.line][place] = self._changed(me, span, entry, given)
        changed = {name: tuple(line) for name, line in lines.items()}
        counts = self._counts()
        weighed = self._weights.weighed(me, changed, counts)
        if changed == shards.lines and not self._weights.worth_a_write(me, changed, weighed, counts):
            return
        if self.store.write(shards.next(weighed)) and self.store.shards is not None:
            self._weights.written()
            self.ownership.accept(self.store.shards, self.fleet.lives)
            self._hold(me, self.store.shards)

    def _changed(self, me: Incarnation, span: Span, entry: ShardRange, free: bool) -> ShardRange:
        """Return the entry as this member wants it, within what it may change."""
        wish = self._wishes[span]
        claimant = entry.claimant if entry.claimant and not self.fleet.over(entry.claimant) else None
        if entry.owner == me:
            if claimant not in (None, me) and self._surrendered(span):
                return entry._replace(owner=claimant, claimant=None)
            return entry._replace(claimant=claimant)
        if free:
            taker = claimant if claimant == me or (claimant and self.fleet.lives(claimant)) else wish
            return entry if taker is None else entry._replace(owner=taker, claimant=None)
        if wish == me and claimant is None and not self._is_free(entry) and self.caches.holds(span):
            return entry._replace(claimant=me)
        return entry

    def _surrendered(self, span: Span) -> bool:
        """Return whether a range can be given away, and end its tenure: it is closed, and no run or write is left."""
        now = self._clock.now()
        if self.ownership.phases().get(span) is not Phase.CLOSING or self.ownership.running(span):
            return False
        drained = self._drained.setdefault(span, now)
        if not self.caches.echoed(span) and now < drained + ECHO:
            return False
        return self.ownership.surrender(span)
