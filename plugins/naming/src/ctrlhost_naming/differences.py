"""Findings: how statuses differ from the expected ones, and for how long."""

from __future__ import annotations

import enum
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ctrlhost_naming.crd import Crd
    from ctrlhost_naming.decision import Decision, Refusal
    from ctrlhost_naming.index import NameIndex
    from ctrlhost_naming.names import Field


class Finding(enum.Enum):
    """The problem of a CustomResourceDefinition."""

    PENDING = "pending"
    """No controller has judged its names yet."""
    CONFLICT = "conflict"
    """It requests names that another CRD holds; one of their authors must act."""
    SELF_CONFLICT = "self_conflict"
    """It requests a name that it holds itself in another field."""
    CYCLE = "cycle"
    """It waits for a CRD that waits, perhaps through others, for it."""
    STALE_CONDITION = "stale_condition"
    """It has all its names, but its condition is missing or not True."""
    DRIFT = "drift"
    """Its status does not follow from its names and those of its group."""
    DOUBLE_OWNER = "double_owner"
    """One of its names is accepted for another CRD too."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """A refused name, its field, and the CRDs that hold it."""

    field: Field
    name: str
    owners: tuple[str, ...]

    def __str__(self) -> str:
        """Return the text for logs, events and the page."""
        return f'{self.field.label} "{self.name}" held by {", ".join(self.owners) or "no CRD"}'


@dataclass(frozen=True, slots=True)
class Difference:
    """One finding. `since` is on the host's clock, in seconds."""

    crd: str
    kind: Finding
    since: float
    blocked: tuple[Blocked, ...] = ()
    cycle: tuple[str, ...] = ()
    """The CRDs that wait for each other, including this one."""

    def entry(self, now: float) -> dict[str, Any]:
        """Return the row of the page."""
        return {
            "crd": self.crd,
            "kind": self.kind.value,
            "seconds": round(now - self.since, 1),
            "blocked": [
                {"field": one.field.label, "name": one.name, "owners": list(one.owners)} for one in self.blocked
            ],
            "cycle": list(self.cycle),
        }


@dataclass(frozen=True, slots=True)
class _Entry:
    kind: Finding
    since: float
    group: str
    refusals: tuple[Refusal, ...]


def classify(crd: Crd, decision: Decision, contested: bool) -> Finding | None:
    """Return the finding for one CRD, as far as that CRD alone shows it."""
    if contested:
        return Finding.DOUBLE_OWNER
    if decision.calculation is None:
        return None
    if crd.satisfied:
        return Finding.STALE_CONDITION
    if crd.names_accepted is None:
        return Finding.PENDING
    if decision.differs:
        return Finding.DRIFT
    return Finding.CONFLICT if decision.calculation.refusals else None


class Ledger:
    """The findings of all CRDs. Methods may be called from any thread."""

    def __init__(self, index: NameIndex, grace: float) -> None:
        """Report findings that have lasted for `grace` seconds."""
        self._index = index
        self._grace = grace
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}

    def record(self, crd: Crd, kind: Finding | None, refusals: tuple[Refusal, ...], now: float) -> float:
        """Record the latest finding; return the seconds until it may be reported."""
        with self._lock:
            if kind is None:
                self._entries.pop(crd.name, None)
                return 0.0
            known = self._entries.get(crd.name)
            since = known.since if known is not None and known.kind is kind else now
            self._entries[crd.name] = _Entry(kind, since, crd.group, refusals)
            return max(0.0, since + self._grace - now)

    def forget(self, key: str) -> None:
        """Drop the finding of a deleted CRD."""
        with self._lock:
            self._entries.pop(key, None)

    def report(self, now: float) -> list[Difference]:
        """Return the findings that have lasted long enough, by CRD, with the current owners of refused names."""
        with self._lock:
            entries = dict(self._entries)
        blocked = {key: self.blocked(entry.group, entry.refusals) for key, entry in entries.items()}
        waits = {
            key: {owner for one in blocked[key] for owner in one.owners}
            for key, entry in entries.items()
            if entry.kind is Finding.CONFLICT
        }
        cycles = {key: tuple(sorted(part)) for part in strongly_connected(waits) if len(part) > 1 for key in part}
        contested = {
            owner for group, space, name in self._index.contested() for owner in self._index.owners(group, space, name)
        }
        found = []
        for key, entry in sorted(entries.items()):
            if entry.since + self._grace > now or (entry.kind is Finding.DOUBLE_OWNER and key not in contested):
                continue
            kind = entry.kind
            if kind is Finding.CONFLICT and key in waits[key]:
                kind = Finding.SELF_CONFLICT
            elif kind is Finding.CONFLICT and key in cycles:
                kind = Finding.CYCLE
            cycle = cycles[key] if kind is Finding.CYCLE else ()
            found.append(Difference(key, kind, entry.since, blocked[key], cycle))
        return found

    def blocked(self, group: str, refusals: Iterable[Refusal]) -> tuple[Blocked, ...]:
        """Return the refused names with their current owners."""
        return tuple(
            Blocked(one.field, one.name, self._index.owners(group, one.field.space, one.name)) for one in refusals
        )


def strongly_connected(waits: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the strongly connected components (Tarjan's algorithm, without recursion)."""
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
