"""A model of the shard map: all interleavings of replicas, Leases and map, with messages lost, late and stale.

Replicas take one step at a time: they send a request, the server takes it, the answer arrives or is lost. A pause or a
crash is a replica that takes no step while the clock ticks. The model plans no moves: any member may claim any range at
any time, so what holds here holds for every way to balance, and for members that disagree.

A copy of a Lease or of the map has no version number here, only whether it is the newest: a write that was computed
from an older copy is refused, and so is dropped as soon as it can no longer be taken. A reader that is behind is one
that has not yet read. Ranges are not cut or joined, since an owner does that within its own entries.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

#: Ticks without a change of a Lease after which others may fence its holder.
SILENCE = 2
#: Ticks after the sending of a renewal in which its sender acts.
DEADLINE = 2
NOBODY = -1
#: A Lease that is created again begins with the next multiple.
UID = 100

#: Each rule that a search can break, and what then happens.
RULES = {
    "incarnation": "entries name the replica, not its incarnation",
    "transitions": "a Lease without a holder ends every incarnation, also one that began after it was seen",
    "fence": "an owner counts as over after silence, without the write that empties its Lease",
    "drain": "a range is given away while a run of it lasts",
    "map version": "the map is written without the version that it was computed from",
    "lease version": "a Lease is renewed without its version",
    "deadline": "a member acts longer than the silence after which others fence it",
    "sending": "the deadline counts from the answer to a renewal, not from its sending",
    "closed": "a range opens again when the answer to the write that gives it away is lost",
    "epoch": "an older map is accepted after a newer one",
    "ids": "a range of nobody is taken before each held Lease shows the id of the new map",
    "deletion": "an incarnation is over as soon as its Lease was deleted",
    "ids of deleted": "a range of nobody is taken while the holder of a deleted Lease may act by the last map",
    "id early": "a member shows the id of the new map before its runs have ended",
}

# The phase of a range on a replica. Open and closed count only while the map names the replica as the owner; closing
# is as long as a run of the range lasts.
OPEN, CLOSING, CLOSED = "open", "closing", "closed"


class Lease(NamedTuple):
    """What the server has. Its holder, if any, is the incarnation `transitions` of its replica."""

    held: bool
    #: Its uid and how often it had a new holder, as one number.
    transitions: int
    #: The id of the map that its replica accepted.
    map_id: int
    #: Whether it was deleted, and not yet created again.
    gone: bool = False


class Entry(NamedTuple):
    """The owner and the claimant of a range, each with its incarnation."""

    owner: int
    incarnation: int
    claimant: int = NOBODY
    claim: int = NOBODY


class Map(NamedTuple):
    """The shard map; a map that was lost and written anew has another id."""

    id: int
    entries: tuple[Entry, ...]


class Renewal(NamedTuple):
    """A renewal that its sender waits for."""

    transitions: int
    map_id: int
    #: Ticks since it was sent.
    age: int = 0
    taken: bool = False


class View(NamedTuple):
    """What a replica has seen of the Lease of another one."""

    held: bool
    transitions: int
    #: Ticks since that change was seen.
    age: int
    newest: bool
    gone: bool = False
    #: Ticks since its last deletion was seen.
    gone_age: int = SILENCE


class Write(NamedTuple):
    """A map that its sender waits for, and the range that it gives away, if any."""

    map: Map
    gives: int = NOBODY


class Late(NamedTuple):
    """A request that nobody waits for, and that may still arrive: a renewal of `replica`, or with NOBODY a map."""

    replica: int
    content: Lease | Map


class Replica(NamedTuple):
    """What one replica knows and waits for."""

    incarnation: int
    #: Ticks since the sending of the last renewal that succeeded; at the deadline its term has lapsed.
    age: int
    #: Whether its copy of its own Lease is the newest.
    lease_newest: bool
    map: Map
    map_newest: bool
    phases: tuple[str, ...]
    #: By replica; the own place is unused.
    views: tuple[View, ...]
    renewal: Renewal | None = None
    write: Write | None = None
    #: The replica whose Lease it empties, in a request under way.
    fence: int = NOBODY
    #: The map id for its own Lease.
    shows: int = 0
    #: Whether a list of the Leases, made after it accepted the map, had its id in each that is held.
    listed: bool = False


class State(NamedTuple):
    """The server, the network and all replicas."""

    leases: tuple[Lease, ...]
    map: Map
    #: The map before, for readers that accept it.
    older: Map | None
    replicas: tuple[Replica, ...]
    late: tuple[Late, ...]
    #: How many fences and releases, losses of the map, and deletions of Leases may still happen.
    fences: int
    losses: int
    deletions: int


class Step(NamedTuple):
    """A step to another state, by a replica, or by the server or the clock."""

    replica: int
    what: str
    state: State
    #: Whether the step is not needed for progress: a fault, or a claim.
    fault: bool = False


def put(values: tuple, place: int, value: object) -> tuple:  # type: ignore[type-arg]
    """Return the tuple with another value at that place."""
    return (*values[:place], value, *values[place + 1 :])


class Model:
    """The protocol, with at most one of its rules broken, and the bounds of a search."""

    def __init__(
        self,
        broken: str = "",
        *,
        replicas: int = 3,
        ranges: int = 2,
        fences: int = 2,
        late: int = 1,
        losses: int = 0,
        deletions: int = 0,
    ) -> None:
        assert not broken or broken in RULES
        self.broken = broken
        self.replicas, self.ranges = range(replicas), range(ranges)
        self.fences, self.late, self.losses, self.deletions = fences, late, losses, deletions
        self.deadline = DEADLINE + (broken == "deadline")

    def start(self) -> State:
        """Return the state in which the first replica owns all ranges."""
        leases = (Lease(held=True, transitions=0, map_id=0),) * len(self.replicas)
        shards = Map(0, (Entry(0, 0),) * len(self.ranges))
        views = (View(held=True, transitions=0, age=0, newest=True),) * len(self.replicas)
        replica = Replica(0, 0, True, shards, True, (OPEN,) * len(self.ranges), views)
        return State(
            leases, shards, None, (replica,) * len(self.replicas), (), self.fences, self.losses, self.deletions
        )

    # ---- what is true in a state -----------------------------------------------------------------------------------

    def names(self, entry: Entry, m: int, replica: Replica) -> bool:
        """Return whether the entry names this incarnation as the owner."""
        return entry.owner == m and (entry.incarnation == replica.incarnation or self.broken == "incarnation")

    def acts(self, state: State, m: int, r: int) -> bool:
        """Return whether a replica may begin runs of a range, or still has one whose writes would be sent."""
        replica = state.replicas[m]
        if replica.age >= self.deadline or replica.phases[r] == CLOSED:
            return False
        return replica.phases[r] == CLOSING or self.names(replica.map.entries[r], m, replica)

    def two(self, state: State) -> bool:
        """Return whether two replicas act on one range."""
        return any(sum(self.acts(state, m, r) for m in self.replicas) > 1 for r in self.ranges)

    def settled(self, state: State, dead: int) -> bool:
        """Return whether each range is open on a replica that lives."""
        return all(
            any(self.acts(state, m, r) and state.replicas[m].phases[r] == OPEN for m in self.replicas if m != dead)
            for r in self.ranges
        )

    def over(self, m: int, replica: Replica, other: int, incarnation: int) -> bool:
        """Return whether the replica knows that an incarnation is over."""
        if other == m:
            return incarnation < replica.incarnation and self.broken != "incarnation"
        view = replica.views[other]
        if self.broken == "fence" and view.age >= SILENCE:
            return True
        if self.broken == "incarnation":
            return not view.held
        if incarnation // UID < view.transitions // UID or (
            view.gone and incarnation // UID == view.transitions // UID
        ):
            return view.gone_age >= SILENCE or self.broken == "deletion"
        if self.broken == "transitions":
            return not view.held or view.transitions > incarnation
        return view.transitions > incarnation or (view.transitions == incarnation and not view.held)

    # ---- what a write does to copies and requests ------------------------------------------------------------------

    def lease_written(self, state: State, a: int, lease: Lease, by: int = NOBODY) -> State:
        """Return the state after a write of a Lease: other copies are old, and requests made from them are refused.

        `by` is the replica that knows of it, if it is the one whose Lease it is.
        """
        replicas = list(state.replicas)
        for m, replica in enumerate(replicas):
            if m != a:
                if replica.views[a].newest or replica.fence == a:
                    views = put(replica.views, a, replica.views[a]._replace(newest=False))
                    replicas[m] = replica._replace(views=views, fence=NOBODY if replica.fence == a else replica.fence)
            elif by != a:
                refused = replica.renewal and not replica.renewal.taken and self.broken != "lease version"
                replicas[m] = replica._replace(lease_newest=False, renewal=None if refused else replica.renewal)
        late = state.late
        if self.broken != "lease version":
            late = tuple(request for request in late if request.replica != a)
        return state._replace(leases=put(state.leases, a, lease), replicas=tuple(replicas), late=late)

    def map_written(self, state: State, shards: Map) -> State:
        """Return the state after a write of the map: all copies are old, and writes made from them are refused."""
        keep = self.broken == "map version"
        replicas = tuple(
            replica._replace(map_newest=False, write=replica.write if keep else None) for replica in state.replicas
        )
        late = state.late if keep else tuple(request for request in state.late if request.replica != NOBODY)
        older = state.map if self.broken == "epoch" else None
        return state._replace(map=shards, older=older, replicas=replicas, late=late)

    def accepted(self, m: int, replica: Replica, shards: Map) -> Replica:
        """Return the replica after it read a map of the id that it knows: closed ranges that are its own open again.

        A range that another member claims stays closed. The runs of one that has another owner now still last.
        """
        phases = []
        for phase, before, entry in zip(replica.phases, replica.map.entries, shards.entries, strict=True):
            if self.names(entry, m, replica):
                phases.append(OPEN if entry.claimant in (NOBODY, m) else phase)
            else:
                runs = phase != CLOSED and (phase == CLOSING or self.names(before, m, replica))
                phases.append(CLOSING if runs and replica.age < self.deadline else OPEN)
        return replica._replace(map=shards, map_newest=True, phases=tuple(phases))

    # ---- steps -----------------------------------------------------------------------------------------------------

    def steps(self, state: State) -> Iterator[Step]:
        """Yield each step that may come next."""
        ticked = self.ticked(state)
        if ticked != state:
            yield Step(NOBODY, "the clock ticks", ticked)
        if state.losses:
            lost = Map(state.map.id + 1, (Entry(NOBODY, NOBODY),) * len(self.ranges))
            lost_state = state._replace(losses=state.losses - 1)
            yield Step(NOBODY, "the map is lost and written anew", self.map_written(lost_state, lost), fault=True)
        if state.deletions:
            for a, lease in enumerate(state.leases):
                if not lease.gone:
                    fewer = state._replace(deletions=state.deletions - 1)
                    after = self.lease_written(fewer, a, lease._replace(held=False, gone=True))
                    yield Step(NOBODY, f"the Lease of {a} is deleted", after, fault=True)
        yield from self.late_steps(state)
        for m in self.replicas:
            yield from self.renewal_steps(state, m)
            yield from self.lease_steps(state, m)
            yield from self.read_steps(state, m)
            yield from self.write_steps(state, m)
            for r in self.ranges:
                yield from self.range_steps(state, m, r)

    def ticked(self, state: State) -> State:
        """Return the state a tick later. When a term lapses, its runs are refused their writes."""
        replicas = []
        for replica in state.replicas:
            age = min(replica.age + 1, self.deadline)
            phases, renewal = replica.phases, replica.renewal
            if age == self.deadline and CLOSING in phases:
                phases = tuple(CLOSED if phase == CLOSING else phase for phase in phases)
            if renewal:
                renewal = renewal._replace(age=min(renewal.age + 1, self.deadline))
            views = tuple(
                view._replace(age=min(view.age + 1, SILENCE), gone_age=min(view.gone_age + 1, SILENCE))
                for view in replica.views
            )
            replicas.append(replica._replace(age=age, phases=phases, renewal=renewal, views=views))
        return state._replace(replicas=tuple(replicas))

    def late_steps(self, state: State) -> Iterator[Step]:
        """Yield the arrivals of requests that nobody waits for."""
        for place, (a, content) in enumerate(state.late):
            arrived = state._replace(late=(*state.late[:place], *state.late[place + 1 :]))
            if isinstance(content, Lease):
                after = self.lease_written(arrived, a, content)
                yield Step(NOBODY, f"a late renewal of {a} is taken", after, fault=True)
            else:
                yield Step(NOBODY, "a late map is taken", self.map_written(arrived, content), fault=True)

    def given_up(self, state: State, request: Late) -> Iterable[State]:
        """Yield the state with a request that was lost, and that with one which may still arrive."""
        yield state
        if len(state.late) < self.late:
            yield state._replace(late=tuple(sorted((*state.late, request), key=repr)))

    def renewal_steps(self, state: State, m: int) -> Iterator[Step]:
        """Yield what a replica does with its own Lease: the elector."""
        replica, lease, renewal = state.replicas[m], state.leases[m], state.replicas[m].renewal

        def became(replica: Replica, **changes: object) -> State:
            return state._replace(replicas=put(state.replicas, m, replica._replace(**changes)))

        if renewal and renewal.taken:
            age = 0 if self.broken == "sending" else renewal.age
            if renewal.transitions == replica.incarnation:
                yield Step(m, "has renewed", became(replica, age=min(age, replica.age), renewal=None))
            else:
                phases = (OPEN,) * len(self.ranges)
                after = became(replica, incarnation=renewal.transitions, age=age, phases=phases, renewal=None)
                yield Step(m, f"is incarnation {renewal.transitions}", after)
            lost = became(replica, renewal=None, lease_newest=False)
            yield Step(m, "loses the answer to its renewal", lost, fault=True)
        elif renewal:
            content = Lease(held=True, transitions=renewal.transitions, map_id=renewal.map_id)
            taken = became(replica, renewal=renewal._replace(taken=True))
            yield Step(m, "has its renewal taken", self.lease_written(taken, m, content, by=m))
            waiting = became(replica, renewal=None, lease_newest=False)
            for after in self.given_up(waiting, Late(m, content)):
                yield Step(m, "gives up its renewal", after, fault=True)
        elif not replica.lease_newest and self.broken != "lease version":
            yield Step(m, "reads its Lease", became(self.read_lease(replica, lease)))
        elif replica.age:
            # Without a holder it was fenced, or it released the Lease.
            fresh = replica.lease_newest and not lease.held
            following = (lease.transitions // UID + 1) * UID if lease.gone else lease.transitions + 1
            transitions = following if fresh else replica.incarnation
            yield Step(m, "sends a renewal", became(replica, renewal=Renewal(transitions, replica.shows)))
        free = lease.held and replica.lease_newest and not renewal
        if free and state.fences and not any(self.acts(state, m, r) for r in self.ranges):
            gone = became(replica, age=self.deadline, phases=(CLOSED,) * len(self.ranges))
            gone = gone._replace(fences=state.fences - 1)
            after = self.lease_written(gone, m, lease._replace(held=False), by=m)
            yield Step(m, "releases its Lease", after, fault=True)

    def read_lease(self, replica: Replica, lease: Lease) -> Replica:
        """Return the replica after it read its own Lease."""
        if lease.held and lease.transitions == replica.incarnation:
            return replica._replace(lease_newest=True)
        if lease.held:
            # A renewal that it had given up was taken.
            phases, incarnation = (OPEN,) * len(self.ranges), lease.transitions
        else:
            phases, incarnation = (CLOSED,) * len(self.ranges), replica.incarnation
        return replica._replace(incarnation=incarnation, age=self.deadline, phases=phases, lease_newest=True)

    def lease_steps(self, state: State, m: int) -> Iterator[Step]:
        """Yield what a replica sees of the Leases of others, and its fences."""
        replica = state.replicas[m]
        for a, view in enumerate(replica.views):
            if a == m:
                continue
            lease = state.leases[a]
            if not view.newest:
                deleted = (lease.gone and not view.gone) or lease.transitions // UID > view.transitions // UID
                gone_age = 0 if deleted else view.gone_age
                seen = View(lease.held, lease.transitions, age=0, newest=True, gone=lease.gone, gone_age=gone_age)
                after = replica._replace(views=put(replica.views, a, seen))
                yield Step(m, f"sees the Lease of {a}", state._replace(replicas=put(state.replicas, m, after)))
            elif view.held and view.age >= SILENCE and replica.fence == NOBODY and state.fences:
                after = replica._replace(fence=a)
                sent = state._replace(replicas=put(state.replicas, m, after), fences=state.fences - 1)
                yield Step(m, f"sends a fence of {a}", sent)
        if replica.fence != NOBODY:
            a = replica.fence
            unanswered = self.lease_written(state, a, state.leases[a]._replace(held=False))
            yield Step(m, f"has its fence of {a} taken, without the answer", unanswered, fault=True)
            emptied = replica.views[a]._replace(held=False, transitions=state.leases[a].transitions, age=0, newest=True)
            views = put(replica.views, a, emptied)
            after = unanswered.replicas[m]._replace(views=views)
            yield Step(m, f"fences {a}", unanswered._replace(replicas=put(unanswered.replicas, m, after)))
            after = replica._replace(fence=NOBODY)
            lost = state._replace(replicas=put(state.replicas, m, after))
            yield Step(m, f"loses its fence of {a}", lost, fault=True)

    def read_steps(self, state: State, m: int) -> Iterator[Step]:
        """Yield what a replica reads of the map, and of all Leases for the sake of a new map."""
        replica = state.replicas[m]

        def became(replica: Replica) -> State:
            return state._replace(replicas=put(state.replicas, m, replica))

        if not replica.map_newest:
            if state.map.id == replica.map.id:
                yield Step(m, "reads the map", became(self.accepted(m, replica, state.map)))
            else:
                yield from self.other_id_steps(state, m)
        elif state.older and state.older.id == replica.map.id:
            stale = self.accepted(m, replica, state.older)._replace(map_newest=False)
            yield Step(m, "accepts the older map", became(stale))
        waits = not replica.listed and any(entry.owner == NOBODY for entry in replica.map.entries)
        ended = self.broken == "ids of deleted" or all(
            view.newest and view.gone_age >= SILENCE for a, view in enumerate(replica.views) if a != m
        )
        if waits and ended and all(lease.map_id == replica.map.id for lease in state.leases if lease.held):
            yield Step(m, "lists the Leases", became(replica._replace(listed=True)))

    def other_id_steps(self, state: State, m: int) -> Iterator[Step]:
        """Yield how a replica comes to accept a map with another id: it closes its ranges, and waits for its runs."""
        replica, other = state.replicas[m], state.map.id

        def became(**changes: object) -> State:
            return state._replace(replicas=put(state.replicas, m, replica._replace(**changes)))

        if not any(self.acts(state, m, r) for r in self.ranges):
            phases = (OPEN,) * len(self.ranges)
            after = became(map=state.map, map_newest=True, phases=phases, shows=other, listed=False)
            yield Step(m, f"accepts the map {other}", after)
            return
        phases = tuple(
            CLOSING if phase == OPEN and self.names(entry, m, replica) else phase
            for phase, entry in zip(replica.phases, replica.map.entries, strict=True)
        )
        if phases != replica.phases:
            yield Step(m, f"closes all for the map {other}", became(phases=phases))
        elif self.broken == "id early" and replica.shows != other:
            yield Step(m, f"shows the id {other} early", became(shows=other))

    def write_steps(self, state: State, m: int) -> Iterator[Step]:
        """Yield what becomes of a map that a replica has sent."""
        replica, write = state.replicas[m], state.replicas[m].write
        if write is None:
            return
        phases = replica.phases
        if self.broken == "closed" and write.gives != NOBODY:
            phases = put(phases, write.gives, OPEN)
        without = state._replace(replicas=put(state.replicas, m, replica._replace(write=None)))
        unanswered = state._replace(replicas=put(state.replicas, m, replica._replace(write=None, phases=phases)))
        after = self.map_written(without, write.map)
        told = self.accepted(m, after.replicas[m], write.map)
        yield Step(m, "writes the map", after._replace(replicas=put(after.replicas, m, told)))
        yield Step(m, "writes the map, without the answer", self.map_written(unanswered, write.map), fault=True)
        for after in self.given_up(unanswered, Late(NOBODY, write.map)):
            yield Step(m, "gives up its map", after, fault=True)

    def range_steps(self, state: State, m: int, r: int) -> Iterator[Step]:
        """Yield what a replica does about one range."""
        replica = state.replicas[m]
        entry, phase, valid = replica.map.entries[r], replica.phases[r], replica.age < self.deadline
        owns, claimed = self.names(entry, m, replica), entry.claimant not in (NOBODY, m)

        def became(phase: str) -> State:
            after = replica._replace(phases=put(replica.phases, r, phase))
            return state._replace(replicas=put(state.replicas, m, after))

        if owns and claimed and phase == OPEN:
            yield Step(m, f"closes {r}", became(CLOSING if valid else CLOSED))
        if phase == CLOSING:
            yield Step(m, f"has drained {r}", became(CLOSED if owns else OPEN))
        if replica.write or not (replica.map_newest or self.broken == "map version"):
            return

        def sends(entry: Entry, gives: int = NOBODY) -> State:
            write = Write(replica.map._replace(entries=put(replica.map.entries, r, entry)), gives)
            return state._replace(replicas=put(state.replicas, m, replica._replace(write=write)))

        if owns and claimed and (phase == CLOSED or (self.broken == "drain" and phase == CLOSING)):
            yield Step(m, f"gives {r} to {entry.claimant}", sends(Entry(entry.claimant, entry.claim), gives=r))
        if not valid:
            return
        free = entry.claimant == NOBODY or self.over(m, replica, entry.claimant, entry.claim)
        if free and entry.claimant != NOBODY:
            yield Step(m, f"drops the claim on {r}", sends(entry._replace(claimant=NOBODY, claim=NOBODY)))
        if free and entry.owner not in (m, NOBODY):
            claim = entry._replace(claimant=m, claim=replica.incarnation)
            yield Step(m, f"claims {r}", sends(claim), fault=True)
        if entry.owner == NOBODY:
            ended = replica.listed or self.broken == "ids"
        else:
            ended = not owns and self.over(m, replica, entry.owner, entry.incarnation)
        if ended:
            yield Step(m, f"takes {r}", sends(Entry(m, replica.incarnation)))
            for x, view in enumerate(replica.views):
                if x != m and view.held:
                    yield Step(m, f"gives {r}, which is free, to {x}", sends(Entry(x, view.transitions)))


# ---- searches ------------------------------------------------------------------------------------------------------


class Found(NamedTuple):
    """The result of a search: the number of states, and the steps to one with two owners, if there is one."""

    states: int
    steps: list[str]
    #: States from which `heals` can play on.
    sample: list[State]


def said(step: Step) -> str:
    """Return the step as text."""
    return step.what if step.replica == NOBODY else f"{step.replica} {step.what}"


def trace(model: Model, before: dict[State, State | None], state: State) -> list[str]:
    """Return the steps that led to a state."""
    steps: list[str] = []
    while (previous := before[state]) is not None:
        step = next(step for step in model.steps(previous) if step.state == state)
        steps.append(said(step))
        state = previous
    return steps[::-1]


def breadth_first(model: Model, states: int, *, sample: float = 0.0) -> Found:
    """Search up to that many states, the nearest first."""
    start = model.start()
    before: dict[State, State | None] = {start: None}
    queue, chosen, choose = deque([start]), list[State](), random.Random(1)
    while queue and len(before) < states:
        state = queue.popleft()
        for step in model.steps(state):
            after = step.state
            if after in before:
                continue
            before[after] = state
            if model.two(after):
                return Found(len(before), trace(model, before, after), chosen)
            if choose.random() < sample:
                chosen.append(after)
            queue.append(after)
    return Found(len(before), [], chosen)


def long_walks(model: Model, states: int, *, length: int = 200, seed: int = 1, sample: float = 0.0) -> Found:
    """Search up to that many states on random paths, which reach what is far from the start."""
    start, choose = model.start(), random.Random(seed)
    seen, chosen = {start}, list[State]()
    while len(seen) < states:
        state, path = start, list[str]()
        for _ in range(length):
            steps = list(model.steps(state))
            step = choose.choices(steps, [0.25 if step.fault else 1.0 for step in steps])[0]
            path.append(said(step))
            state = step.state
            if state not in seen and choose.random() < sample:
                chosen.append(state)
            for near in steps:
                if near.state not in seen:
                    seen.add(near.state)
                    if model.two(near.state):
                        return Found(len(seen), [*path[:-1], said(near)], chosen)
    return Found(len(seen), [], chosen)


def heals(model: Model, state: State, dead: int = NOBODY, *, ticks: int = 40, seed: int = 1) -> bool:
    """Play on without faults and without the dead replica; return whether each range is open on one that lives."""
    choose = random.Random(seed)
    state = state._replace(fences=1_000_000, losses=0, deletions=0)
    for _ in range(ticks):
        for _ in range(200):
            steps = [step for step in model.steps(state) if step.replica not in (NOBODY, dead) and not step.fault]
            if not steps:
                break
            state = choose.choice(steps).state
        if model.settled(state, dead):
            return True
        state = model.ticked(state)
    return False
