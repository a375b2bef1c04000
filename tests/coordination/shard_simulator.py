"""A fleet whose shard map follows `balance`: in each round its owners cut and join their ranges, and all move."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Mapping

from ctrlhost.coordination.balance import Balance, Member, balance, grain, reshaped
from ctrlhost.coordination.shard_map import Incarnation, Line, new_map

MASK = (1 << 64) - 1


def fnv1a(text: str) -> int:
    """Return the 64-bit FNV-1a hash of the text, which is that of the API server."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & MASK
    return value


def member(number: int) -> Incarnation:
    return Incarnation(f"fleet-member-{number:08x}", f"uid-{number}", 0)


def uid(choose: random.Random) -> str:
    digits = f"{choose.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def words() -> list[str]:
    teams = [
        "pay",
        "shop",
        "auth",
        "data",
        "edge",
        "feed",
        "game",
        "home",
        "info",
        "jobs",
        "kube",
        "lake",
        "mail",
        "news",
        "ops",
    ]
    parts = [
        "api",
        "web",
        "db",
        "jobs",
        "cache",
        "dev",
        "prod",
        "stage",
        "test",
        "infra",
        "core",
        "mon",
        "ci",
        "gw",
        "etl",
        "sre",
        "ml",
        "bi",
        "qa",
        "sec",
    ]
    return [f"{team}-{part}" for team in teams for part in parts]


def names(kind: str) -> dict[str, int]:
    """Return names that people use, each with its number of objects."""
    choose = random.Random(1)
    match kind:
        case "team-0…99":
            return {f"team-{number}": 1 for number in range(100)}
        case "ns-0000…9999":
            return {f"ns-{number:04}": 1 for number in range(10_000)}
        case "300 words":
            return dict.fromkeys(words(), 1)
        case "Zipf":
            return {f"ci-{choose.getrandbits(24):06x}": 1000 // (rank + 1) + 1 for rank in range(2000)}
        case "flat Zipf":
            ranks = choose.sample(range(10_000), 10_000)
            return {f"ns-{number:04}": 10_000 // (rank + 10) + 1 for number, rank in enumerate(ranks)}
        case "uids":
            return {uid(choose): 1 for _ in range(100_000)}
    raise ValueError(kind)


KINDS = ("team-0…99", "ns-0000…9999", "300 words", "Zipf", "flat Zipf", "uids")


class Fleet:
    """Members that share one line, on which the names are."""

    def __init__(self, weights: Mapping[str, int], *, min_members: int = 1) -> None:
        hashed: dict[int, int] = {}
        for name, weight in weights.items():
            hashed[fnv1a(name)] = hashed.get(fnv1a(name), 0) + weight
        self.items = sorted(hashed.items())
        self.hashes = [place for place, _ in self.items]
        self.total = sum(hashed.values())
        self.heaviest = max(hashed.values(), default=0)
        self.min_members = min_members
        self.members: list[Member] = []
        self.shards = new_map("id", {"plugin/controller": "namespace"}, min_members, self.hashes)
        self.balance = Balance({}, balance(self.shards, []).spread, 0)

    @property
    def line(self) -> Line:
        return self.shards.lines["namespace"]

    def contents(self, start: int, end: int) -> list[tuple[int, int]]:
        return self.items[bisect_left(self.hashes, start) : bisect_left(self.hashes, end)]

    def join(self, *numbers: int) -> None:
        self.members += [Member(member(number)) for number in numbers]

    def leave(self, number: int) -> None:
        self.members.remove(Member(member(number)))

    def reshape(self) -> None:
        """Let each owner weigh, cut and join its own ranges."""
        limit = grain(self.total, max(len(self.members), self.min_members))
        owners = {member.incarnation for member in self.members}
        self.shards = self.shards.next({"namespace": reshaped(self.line, owners, limit, self.contents)})

    def round(self, *, moves: bool = True) -> int:
        """Move what should move; return its weight."""
        self.balance = balance(self.shards, self.members, min_members=self.min_members, moves=moves)
        moved, line = 0, []
        for entry, owner in zip(self.line, self.balance.owners["namespace"], strict=True):
            moved += entry.weight * (entry.owner != owner)
            line.append(entry._replace(owner=owner))
        self.shards = self.shards.next({"namespace": tuple(line)})
        return moved

    def settle(self) -> int:
        """Reshape and move until nothing changes; return the weight that moved."""
        moved = 0
        for _ in range(10):
            before = self.line
            self.reshape()
            moved += self.round()
            if self.line == before:
                return moved
        raise AssertionError("does not come to rest within 10 rounds")

    def loads(self) -> dict[Incarnation, int]:
        loads = {member.incarnation: 0 for member in self.members}
        for entry in self.line:
            if entry.owner in loads:
                loads[entry.owner] += entry.weight
        return loads

    def imbalance(self) -> float:
        """Return the largest share as a multiple of the mean."""
        return max(self.loads().values()) * len(self.members) / self.total

    def forced(self) -> float:
        """Return the multiple of the mean that the heaviest name has."""
        return self.heaviest * len(self.members) / self.total

    def selector_ranges(self) -> int:
        """Return the largest number of ranges that are no neighbours, of one member."""
        starts: dict[Incarnation | None, int] = {}
        before: Incarnation | None = None
        for entry in self.line:
            if entry.owner != before:
                starts[entry.owner] = starts.get(entry.owner, 0) + 1
            before = entry.owner
        return max(starts.values())
