"""What shards cost a member: who should own which range, what moves, and the work per key and per foreign object."""

from __future__ import annotations

import json
import random
import statistics
import time
import timeit
from typing import TYPE_CHECKING

import pytest

from benches.pods import pod
from ctrlhost._core import shard_hash
from ctrlhost.cache import SharedInformer
from ctrlhost.coordination.balance import Member, balance
from ctrlhost.coordination.ownership import Ownership
from ctrlhost.coordination.shard_map import END, Incarnation, ShardMap, ShardRange
from ctrlhost.coordination.term import Term
from ctrlhost.testing import ManualClock
from tests.coordination.shard_simulator import Fleet, names

if TYPE_CHECKING:
    from benches.ratios import Ratios

pytestmark = pytest.mark.scale

#: The names of the simulator: a hundred with one object each would be too few for 30 replicas.
NAMES = "ns-0000…9999"


def test_balance_of_a_large_fleet(ratios: Ratios) -> None:
    """A tenth of the ranges has no owner, a tenth of the members has nothing; the median of 20 calls."""
    choose = random.Random(1)
    fleet = [Incarnation(f"fleet-member-{number:08x}", f"uid-{number}", 0) for number in range(100)]
    line = tuple(
        ShardRange(
            END * place // 1000,
            choose.choice(fleet[:90]) if choose.random() < 0.9 else None,
            weight=choose.randrange(2000),
        )
        for place in range(1000)
    )
    shards, members = ShardMap("id", 1, {"namespace": line}), [Member(member) for member in fleet]
    taken = []
    for _ in range(20):
        began = time.perf_counter()
        balance(shards, members)
        taken.append(time.perf_counter() - began)
    ratios.add("shards", "balance of 1,000 ranges over 100 members", "s", statistics.median(taken), goal=0.05)


@pytest.mark.parametrize("size", [10, 30, 100])
def test_moves_of_a_simulated_fleet(ratios: Ratios, size: int) -> None:
    """10,000 namespaces of 1 to 2,000 objects, 10 million in all; the fleet grows, then 30 members come or go."""
    choose, moved, imbalances, newest = random.Random(size), [], [], size
    fleet = Fleet({name: choose.randint(1, 2000) for name in names(NAMES)})
    present = list(range(size))
    for number in present:
        fleet.join(number)
        fleet.settle()
    for _ in range(30):
        if choose.random() < 0.5:
            fleet.leave(present.pop(choose.randrange(len(present))))
        else:
            fleet.join(newest)
            present.append(newest)
            newest += 1
        moved.append(fleet.settle() * len(present) / fleet.total)
        imbalances.append(fleet.imbalance())
    name = f"{size} simulated members"
    ratios.add("shards", f"{name}: moved by a join or leave, of 1/N, mean", "", statistics.mean(moved), goal=1.1)
    ratios.add("shards", f"{name}: moved by a join or leave, of 1/N, most", "", max(moved), goal=1.6)
    ratios.add("shards", f"{name}: share of the fullest, of the mean", "", max(imbalances), goal=1.15)
    ratios.add("shards", f"{name}: ranges in a selector", "", fleet.selector_ranges(), goal=32)


def test_the_range_of_a_key(ratios: Ratios) -> None:
    """A fleet of ten with 24 ranges each."""
    fleet = [Incarnation(f"fleet-member-{number:08x}", f"uid-{number}", 0) for number in range(10)]
    line = tuple(ShardRange(END * place // 240, fleet[place % 10]) for place in range(240))
    clock = ManualClock()
    ownership = Ownership(clock, lambda _: True)
    ownership.renew(fleet[0], Term(1, clock.now() + 3600))
    ownership.accept(ShardMap("id", 1, {"namespace": line}), lambda _: True)
    places = [shard_hash(f"team-{number}") for number in range(1000)]

    def look() -> None:
        for place in places:
            ownership.owns("namespace", place)

    def run() -> None:
        for place in places:
            if (begun := ownership.begin("namespace", place)) is not None:
                ownership.end(begun)

    assert sum(ownership.owns("namespace", place) for place in places)
    ratios.add(
        "shards",
        "hash of a namespace",
        "s",
        min(timeit.repeat(lambda: shard_hash("team-1000"), number=10_000)) / 10_000,
    )
    ratios.add("shards", "look-up of a key's range", "s", min(timeit.repeat(look, number=20)) / 20_000, goal=100e-9)
    ratios.add(
        "shards",
        "begin and end of a run in its range, a tenth of them here",
        "s",
        min(timeit.repeat(run, number=20)) / 20_000,
    )


def test_an_event_of_another_replica(ratios: Ratios) -> None:
    """The server does not filter: 2,000 pods in JSON, each changed, of which this replica holds all or none."""
    frames = [
        json.dumps({"type": "MODIFIED", "object": {"kind": "Pod", "apiVersion": "v1", **pod(number, number + 1)}})
        for number in range(2_000)
    ]
    chunks = ["\n".join([*frames[at : at + 100], ""]).encode() for at in range(0, len(frames), 100)]
    taken: dict[str, list[float]] = {"none": [], "all": []}
    for _ in range(5):
        for held, results in taken.items():
            informer = SharedInformer("pods", "v1", "Pod", shard_by="namespace")
            informer.hold([(0, END)] if held == "all" else [])
            informer.begin_list()
            informer.feed_list(b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}')
            informer.end_page()
            informer.replace("1")
            informer.process()
            began = time.perf_counter()
            for chunk in chunks:
                informer.feed_watch(chunk)
                informer.process()
            results.append((time.perf_counter() - began) / len(frames))
            assert len(informer.indexer) == (len(frames) if held == "all" else 0)
    ratios.add(
        "shards", "event of a pod that another replica holds", "s", min(taken["none"]), held_here=min(taken["all"])
    )
