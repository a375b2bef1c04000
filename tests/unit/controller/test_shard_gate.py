"""The gate of a sharded controller, between a queue and the ranges of a replica."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from ctrlhost import Request
from ctrlhost.clock import SystemClock
from ctrlhost.controller.shard_gate import ShardGate
from ctrlhost.coordination.ownership import Ownership, Span
from ctrlhost.coordination.shard_map import END, Incarnation, ShardMap, ShardRange
from ctrlhost.coordination.term import Term
from ctrlhost.workqueue import ShutDown, WorkQueue
from tests.support.waiting import eventually

LINE = Span("namespace", 0, END)


class Replica:
    """The ranges of one replica, and a worker that takes keys from its queue."""

    def __init__(self, name: str, events: list[tuple[str, str, Any]], *, meets: bool = False) -> None:
        #: Where the worker meets the test when it has taken a key.
        self.taken = threading.Barrier(2 if meets else 1)
        #: Set when runs may end.
        self.go_on = threading.Event()
        self.me = Incarnation(name, name, 0)
        self.queue: WorkQueue[Request] = WorkQueue()
        self.ownership = Ownership(SystemClock(), lambda _: True)
        self.ownership.renew(self.me, Term(1, float("inf")))
        failures: Any = SimpleNamespace(failing={}, succeeded=lambda _: None)
        self.gate = ShardGate(self.ownership, "namespace", self.queue, failures, lambda _: "")
        self._name, self._events = name, events
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def follow(self, shards: ShardMap) -> None:
        self.ownership.accept(shards, lambda _: True)

    def _work(self) -> None:
        while True:
            try:
                key = self.queue.get()
            except ShutDown:
                return
            self.taken.wait(60)
            if (run := self.gate.begin(key, 0, self.gate.openings)) is None:
                self._events.append((self._name, "dropped", key))
            else:
                self._events.append((self._name, "begins", key))
                self.go_on.wait(60)
                self._events.append((self._name, "ends", key))
                self.gate.end(run)
            self.queue.done(key)

    def has(self, key: Request) -> bool:
        state = self.queue.look(key)
        return state.queued is not None or state.processing is not None

    def stop(self) -> None:
        self.queue.shut_down_with_drain()
        self._thread.join(60)


def version(epoch: int, owner: Replica, claimant: Replica | None = None) -> ShardMap:
    entry = ShardRange(0, owner.me, claimant.me if claimant is not None else None)
    return ShardMap("id", epoch, {"namespace": (entry,)})


@pytest.mark.behaviour("shards/SH48")
def test_a_key_taken_at_the_moment_of_the_close_runs_before_the_give_or_there():
    events: list[tuple[str, str, Any]] = []
    owner, taker = Replica("owner", events, meets=True), Replica("taker", events)
    moves = 1_000
    taker.go_on.set()
    for move in range(moves):
        # Each move takes three versions of the map: owned, claimed, given.
        epoch, key = 3 * move, Request(f"key-{move}", "default")
        owner.follow(version(epoch, owner))
        taker.follow(version(epoch, owner))
        owner.go_on.clear()
        owner.queue.add(key)
        if move % 2:
            # Who comes last goes on first.
            eventually(lambda: owner.taken.n_waiting, pause=0)
        owner.taken.wait(60)
        owner.follow(version(epoch + 1, owner, taker))
        given = owner.ownership.surrender(LINE)
        if given:
            events.append(("owner", "gives", key))
        owner.go_on.set()
        if not given:
            eventually(lambda: owner.ownership.surrender(LINE), pause=0)
            events.append(("owner", "gives", key))
        owner.follow(version(epoch + 2, taker))
        taker.follow(version(epoch + 2, taker))
        taker.queue.add(key)
        # The next move begins with both at rest.
        eventually(lambda key=key: not owner.has(key) and not taker.has(key), pause=0)
    owner.stop()
    taker.stop()
    steps: dict[Request, list[tuple[str, str]]] = {}
    for name, what, key in events:
        steps.setdefault(key, []).append((name, what))
    runs = [("owner", "begins"), ("owner", "ends")]
    for taken in steps.values():
        dropped = taken.count(("owner", "dropped"))
        # When the owner drops it does not matter; what runs here has ended before the give.
        before = [] if dropped else runs
        wanted = [*before, ("owner", "gives"), ("taker", "begins"), ("taker", "ends")]
        assert [step for step in taken if step != ("owner", "dropped")] == wanted
    assert owner.gate.dropped + sum(event[:2] == ("owner", "begins") for event in events) == moves
    assert 0 < owner.gate.dropped < moves, "both were first at times"
    assert taker.gate.dropped == 0


@pytest.mark.behaviour("shards/SH47")
@pytest.mark.parametrize("batch", [1, 16])
def test_each_key_of_a_range_that_opens_runs_once_whenever_a_worker_takes_it(batch: int) -> None:
    me = Incarnation("owner", "owner", 0)
    queue: WorkQueue[Request] = WorkQueue()
    held: list[Span] = []

    def opened(span: Span) -> None:
        gate.hold(span)
        held.append(span)

    ownership = Ownership(SystemClock(), lambda _: True, opened=opened)
    ownership.renew(me, Term(1, float("inf")))
    failures: Any = SimpleNamespace(failing={}, succeeded=lambda _: None)
    gate = ShardGate(ownership, "namespace", queue, failures, lambda _: "")
    runs: list[Request] = []

    def work() -> None:
        while True:
            openings = gate.openings
            try:
                keys = queue.get_batch_with_priority(batch)
            except ShutDown:
                return
            for key, priority in keys:
                if (run := gate.begin(key, priority, openings)) is not None:
                    runs.append(key)
                    gate.end(run)
            queue.done_many([key for key, _ in keys])

    workers = [threading.Thread(target=work, daemon=True) for _ in range(3)]
    for worker in workers:
        worker.start()
    keys = [Request(f"key-{number}", "default") for number in range(50)]
    openings = 200
    for number in range(openings):
        # Events come before all objects are queued.
        ownership.accept(ShardMap("id", 2 * number, {"namespace": (ShardRange(0, None),)}), lambda _: True)
        ownership.accept(ShardMap("id", 2 * number + 1, {"namespace": (ShardRange(0, me),)}), lambda _: True)
        queue.add_many(keys[::2])
        queue.add_many(keys, priority=-100)
        assert gate.holds
        assert runs.count(keys[0]) == number, "none has begun"
        gate.release([held.pop()])
        eventually(lambda: len(runs) >= len(keys) * (number + 1), pause=0)  # noqa: B023
    queue.shut_down_with_drain()
    for worker in workers:
        worker.join(60)
    assert not gate.holds
    assert not gate.dropped
    assert {runs.count(key) for key in keys} == {openings}
