"""What stands in a status beside what should stand there, and for how long it has been so."""

from __future__ import annotations

import enum
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ctrlhost_naming.crd import Crd
    from ctrlhost_naming.decision import Decision, Refusal
    from ctrlhost_naming.index import NameIndex
    from ctrlhost_naming.names import Field


class Kind(enum.Enum):
    """What is the matter with a CustomResourceDefinition."""

    PENDING = "pending"
    """Nobody has looked at its names yet."""
    CONFLICT = "conflict"
    """It asks for names that another holds; its author or the other's must act."""
    SELF_CONFLICT = "self_conflict"
    """It asks for a name that it holds itself in another field."""
    CYCLE = "cycle"
    """It waits for one that waits, perhaps by way of others, for it."""
    STALE_CONDITION = "stale_condition"
    """It has all its names, and its condition says otherwise."""
    DRIFT = "drift"
    """Its status is not what its names and those of its group give."""
    DOUBLE_OWNER = "double_owner"
    """A name of it was accepted for another one too."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """A requested name, the field that it is for, and who holds it."""

    field: Field
    name: str
    owners: tuple[str, ...]

    def __str__(self) -> str:
        """Say it in words, for logs, events and the page."""
        return f'{self.field.label} "{self.name}" held by {", ".join(self.owners) or "nobody any more"}'


@dataclass(frozen=True, slots=True)
class Difference:
    """One finding. `since` is on the host's clock, in seconds."""

    crd: str
    kind: Kind
    since: float
    blocked: tuple[Blocked, ...] = ()
    cycle: tuple[str, ...] = ()
    """The CRDs that wait for each other, this one among them."""


@dataclass(frozen=True, slots=True)
class _Entry:
    kind: Kind
    since: float
    group: str
    refusals: tuple[Refusal, ...]


def classify(crd: Crd, decision: Decision, contested: bool) -> Kind | None:
    """Say what is the matter with one CRD, as far as it can be told from that one."""
    if contested:
        return Kind.DOUBLE_OWNER
    if crd.names_accepted is None:
        return Kind.PENDING
    if decision.calculation is None:
        return None
    if crd.satisfied:
        return Kind.STALE_CONDITION
    if decision.differs:
        return Kind.DRIFT
    return Kind.CONFLICT if decision.calculation.refusals else None


class Ledger:
    """The findings of all CRDs. Methods may be called from any thread."""

    def __init__(self, index: NameIndex, grace: float) -> None:
        """Report what has lasted for `grace` seconds."""
        self._index = index
        self._grace = grace
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}

    def record(self, crd: Crd, kind: Kind | None, refusals: tuple[Refusal, ...], now: float) -> float:
        """Keep the finding of the latest look; give the seconds until it may be reported, 0 where that is now."""
        with self._lock:
            if kind is None:
                self._entries.pop(crd.name, None)
                return 0.0
            known = self._entries.get(crd.name)
            since = known.since if known is not None and known.kind is kind else now
            self._entries[crd.name] = _Entry(kind, since, crd.group, refusals)
            return max(0.0, since + self._grace - now)

    def forget(self, key: str) -> None:
        """Drop the finding of a CRD that is gone."""
        with self._lock:
            self._entries.pop(key, None)

    def report(self, now: float) -> list[Difference]:
        """Give what has lasted long enough, with the owners of blocked names as they are now, by CRD."""
        with self._lock:
            entries = dict(self._entries)
        blocked = {key: self.blocked(entry.group, entry.refusals) for key, entry in entries.items()}
        waits = {
            key: {owner for one in blocked[key] for owner in one.owners}
            for key, entry in entries.items()
            if entry.kind is Kind.CONFLICT
        }
        cycles = {key: tuple(sorted(part)) for part in mutual(waits) if len(part) > 1 for key in part}
        contested = {
            owner for group, space, name in self._index.contested() for owner in self._index.owners(group, space, name)
        }
        found = []
        for key, entry in sorted(entries.items()):
            if entry.since + self._grace > now or (entry.kind is Kind.DOUBLE_OWNER and key not in contested):
                continue
            kind = entry.kind
            if kind is Kind.CONFLICT and key in waits[key]:
                kind = Kind.SELF_CONFLICT
            elif kind is Kind.CONFLICT and key in cycles:
                kind = Kind.CYCLE
            found.append(
                Difference(key, kind, entry.since, blocked[key], cycles.get(key, ()) if kind is Kind.CYCLE else ())
            )
        return found

    def blocked(self, group: str, refusals: Iterable[Refusal]) -> tuple[Blocked, ...]:
        """Say who holds the names that were refused."""
        return tuple(
            Blocked(one.field, one.name, self._index.owners(group, one.field.space, one.name)) for one in refusals
        )


def mutual(waits: Mapping[str, set[str]]) -> list[set[str]]:
    """Give the sets of nodes that can all reach each other (Tarjan's algorithm, without recursion)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    parts: list[set[str]] = []
    for start in waits:
        if start in number:
            continue
        work = [(start, iter(waits[start]))]
        number[start] = lowest[start] = len(number)
        path.append(start)
        on_path.add(start)
        while work:
            node, following = work[-1]
            for other in following:
                if other not in number:
                    number[other] = lowest[other] = len(number)
                    path.append(other)
                    on_path.add(other)
                    work.append((other, iter(waits.get(other, ()))))
                    break
                if other in on_path:
                    lowest[node] = min(lowest[node], number[other])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[node])
                if lowest[node] == number[node]:
                    cut = path.index(node)
                    parts.append(set(path[cut:]))
                    on_path.difference_update(path[cut:])
                    del path[cut:]
    return parts
