"""Members of a fleet with the real classes, on Leases in memory and a manual clock; the test takes each step."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Collection
from typing import Any
from unittest import mock

from ctrlhost.config.settings import LeaderElectionConfig
from ctrlhost.coordination.fleet import Fleet
from ctrlhost.coordination.map_store import MapStore
from ctrlhost.coordination.membership import Membership
from ctrlhost.coordination.ownership import Ownership, Phase, Run, Span
from ctrlhost.coordination.shard_map import ShardMap, parse
from ctrlhost.coordination.shards import Shards
from ctrlhost.testing import ManualClock
from tests.coordination.lease_server import LeaseClient, LeaseServer
from tests.coordination.shard_simulator import fnv1a

CONFIG = LeaderElectionConfig(lease_duration=15, renew_deadline=10, retry_period=2)
NAMES = [f"team-{number}" for number in range(100)]
NAMED = {fnv1a(name): name for name in NAMES}
HASHES = sorted(NAMED)
MAP = "shop-shards"


class Caches:
    """Ranges are held at once, unless `slow`: then when `list` is called."""

    def __init__(self) -> None:
        self.slow = False
        #: Whether the own writes have come back.
        self.echo = True
        self.wanted: set[Span] = set()
        self.held: set[Span] = set()
        #: Each range that was listed, in order.
        self.lists: list[Span] = []
        #: Over how many seconds each of the lists is spread.
        self.spreads: list[float] = []

    def hold(self, wanted: Collection[Span], *, spread: float = 0.0) -> None:
        if self.wanted != set(wanted):
            self.spreads.append(spread)
        self.wanted = set(wanted)
        if not self.slow:
            self.list()

    def list(self) -> None:
        for span in sorted(self.wanted - self.held):
            if not self._covered(span):
                self.lists.append(span)
        self.held = set(self.wanted)

    def _covered(self, span: Span) -> bool:
        """Return whether the range was cut or joined from held ones."""
        place = span.start
        for held in sorted(self.held):
            if held.covers(span.line, place):
                place = held.end
        return place >= span.end

    def holds(self, span: Span) -> bool:
        return span in self.held or self._covered(span)

    def echoed(self, span: Span) -> bool:
        return self.echo

    def describe(self, line: str, place: int) -> str:
        return f"namespace {NAMED[place]}"

    def contents(self, span: Span) -> list[tuple[int, int]]:
        return [(place, 1) for place in HASHES[bisect_left(HASHES, span.start) : bisect_left(HASHES, span.end)]]


class SkewedClock(ManualClock):
    """A clock whose wall time is wrong by `skew` seconds."""

    skew = 0.0

    def time(self) -> float:
        return super().time() + self.skew


class Node:
    """One replica, with the clock of its own machine."""

    def __init__(self, world: World, name: str, clock: SkewedClock) -> None:
        self.world, self.name, self.clock = world, name, clock
        self.client: Any = LeaseClient(world.server, name)
        with mock.patch("secrets.token_hex", return_value=f"{len(world.nodes):08x}"):
            self.member = Membership(self.client, "default", "shop", clock, CONFIG)
        self.fleet = Fleet(self.client, "default", "shop", clock, CONFIG, self.member.name)
        self.store = MapStore(self.client, "default", "shop", CONFIG.request_timeout)
        self.caches = Caches()
        self.opened: list[Span] = []
        self.lost: list[Span] = []
        self.ownership = Ownership(clock, self.caches.holds, opened=self.opened.append, lost=self.lost.append)
        self.shards = Shards(
            self.member,
            self.fleet,
            self.store,
            self.ownership,
            self.caches,
            clock,
            shard_by={"plugin/controller": "namespace"},
            min_members=world.min_members,
            hashes=lambda: HASHES,
        )
        self.due = clock.now()

    def renew(self) -> None:
        """Let the elector do what is due."""
        woken = self.member.elector._wake
        if self.clock.now() >= self.due or woken.is_set():
            woken.clear()
            self.due = self.clock.now() + min(CONFIG.retry_period, self.member.elector.attempt())

    def watch(self) -> None:
        def seen(lease: dict[str, Any]) -> None:
            for part in (self.member, self.store, self.fleet):
                part.seen(lease)

        def removed(lease: dict[str, Any]) -> None:
            for part in (self.member, self.store, self.fleet):
                part.removed(lease)

        self.client.deliver(seen, removed)

    def step(self) -> None:
        self.watch()
        self.renew()
        self.watch()
        self.shards.step()
        self.world.check()

    def begin(self, name: str) -> Run | None:
        return self.ownership.begin("namespace", fnv1a(name))

    @property
    def names(self) -> set[str]:
        """The names whose runs may begin here."""
        spans = [span for span in self.open if self.ownership.owns(span.line, span.start)]
        return {NAMED[place] for span in spans for place, _ in self.caches.contents(span)}

    def acts(self) -> set[str]:
        """Return the names whose runs may begin here, or last and may write."""
        return self.names | {NAMED[run.place] for run in self.ownership.running()}

    @property
    def open(self) -> set[Span]:
        return {span for span, phase in self.ownership.phases().items() if phase is Phase.OPEN}


class World:
    """A fleet; after each step no two members act on one name."""

    def __init__(self, *names: str, min_members: int = 1, seed: int = 1) -> None:
        # Electors and turns spread by the module's generator; a failure is to come again.
        random.seed(seed)
        self.server = LeaseServer()
        self.min_members = min_members
        self.nodes: list[Node] = []
        for name in names:
            self.add(name)

    def add(self, name: str) -> Node:
        node = Node(self, name, SkewedClock(1000.0 * len(self.nodes)))
        # Its first list.
        for lease in self.server.leases.values():
            node.client.events.append(("MODIFIED", lease))
        self.nodes.append(node)
        return node

    def check(self) -> None:
        seen: dict[str, str] = {}
        for node in self.nodes:
            for name in node.acts():
                assert name not in seen, f"{name}: both {seen[name]} and {node.name}"
                seen[name] = node.name

    def play(self, seconds: float, *nodes: Node, tick: float = 0.5) -> None:
        """Let these members step as long; the others are paused."""
        for _ in range(max(round(seconds / tick), 1)):
            for node in nodes or self.nodes:
                node.step()
            self.advance(tick)

    def advance(self, seconds: float) -> None:
        for node in self.nodes:
            node.clock.advance(seconds)
        self.check()

    @property
    def shards(self) -> ShardMap:
        return parse(self.server.leases[MAP]["metadata"]["annotations"]["ctrlhost.dev/shards"])

    def map_writes(self) -> list[str]:
        return [who for who, _, name in self.server.writes if name == MAP]

    def rewrite(self, text: str) -> None:
        """Write another text over the map by hand."""
        lease = self.server.get(MAP)
        lease["metadata"]["annotations"]["ctrlhost.dev/shards"] = text
        self.server.replace(lease)

    def owned(self) -> set[str]:
        return set().union(*(node.names for node in self.nodes))
