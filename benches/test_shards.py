"""What the shard map costs a member: who should own which range, for a large fleet."""

from __future__ import annotations

import random
import statistics
import time
from typing import TYPE_CHECKING

from ctrlhost.coordination.balance import Member, balance
from ctrlhost.coordination.shard_map import END, Incarnation, ShardMap, ShardRange

if TYPE_CHECKING:
    from benches.ratios import Ratios

#: The goal for 100 members and 1,000 ranges, in seconds.
GOAL = 0.05


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
    ratios.add("shards", "balance of 1,000 ranges over 100 members", "s", statistics.median(taken), goal=GOAL)
