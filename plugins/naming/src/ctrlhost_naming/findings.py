"""Findings: how statuses differ from the expected ones, and for how long."""

from __future__ import annotations

import enum
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost_naming.crd import Condition, Crd
    from ctrlhost_naming.decision import Decision, Refusal


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
class Difference:
    """One finding. `since` is on the host's clock, in seconds."""

    crd: str
    kind: Finding
    since: float
    blocked: tuple[Refusal, ...] = ()
    cycle: tuple[str, ...] = ()
    """The CRDs that wait for each other, including this one."""

    def __str__(self) -> str:
        """Return the text for logs."""
        return f"{self.kind.value}: {'; '.join(map(str, self.blocked))}" if self.blocked else self.kind.value

    def row(self, now: float) -> dict[str, Any]:
        """Return the row of the page."""
        return {
            "crd": self.crd,
            "kind": self.kind.value,
            "seconds": round(now - self.since, 1),
            "blocked": [
                {"field": refusal.field.label, "name": refusal.name, "owners": list(refusal.owners)}
                for refusal in self.blocked
            ],
            "cycle": list(self.cycle),
        }


@dataclass(frozen=True, slots=True)
class Entry:
    """What was last seen of one CRD: NamesAccepted, its finding since when, and its refused names."""

    names_accepted: Condition | None
    kind: Finding | None
    since: float
    refusals: tuple[Refusal, ...] = ()


def classify(crd: Crd, decision: Decision, contested: bool) -> Finding | None:
    """Return the finding for one CRD, as far as that CRD alone shows it."""
    if contested:
        return Finding.DOUBLE_OWNER
    if decision.calculation is None:
        return None
    if decision.write:
        # What is written next leaves at most a conflict.
        return Finding.CONFLICT if decision.calculation.refusals else None
    if crd.satisfied:
        return Finding.STALE_CONDITION
    if crd.names_accepted is None:
        return Finding.PENDING
    if decision.differs:
        return Finding.DRIFT
    return Finding.CONFLICT if decision.calculation.refusals else None


class Ledger:
    """The findings of all CRDs. Methods may be called from any thread."""

    def __init__(self, grace: float) -> None:
        """Report findings that have lasted for `grace` seconds."""
        self._grace = grace
        self._lock = threading.Lock()
        self._entries: dict[str, Entry] = {}

    def record(self, crd: Crd, kind: Finding | None, refusals: tuple[Refusal, ...], now: float) -> float:
        """Record the latest finding; return the seconds until it may be reported."""
        with self._lock:
            known = self._entries.get(crd.name)
            since = known.since if known is not None and known.kind is kind else now
            self._entries[crd.name] = Entry(crd.names_accepted, kind, since, refusals)
            return max(0.0, since + self._grace - now) if kind is not None else 0.0

    def forget(self, key: str) -> None:
        """Drop a deleted CRD."""
        with self._lock:
            self._entries.pop(key, None)

    def clear(self) -> None:
        """Drop all CRDs."""
        with self._lock:
            self._entries.clear()

    def entries(self) -> dict[str, Entry]:
        """Return what was last seen of each CRD."""
        with self._lock:
            return dict(self._entries)

    def report(self, now: float) -> list[Difference]:
        """Return the findings that have lasted long enough, by CRD."""
        entries = self.entries()
        waits = {
            key: {owner for refusal in entry.refusals for owner in refusal.owners}
            for key, entry in entries.items()
            if entry.kind is Finding.CONFLICT
        }
        cycles = {key: tuple(sorted(part)) for part in strongly_connected(waits) if len(part) > 1 for key in part}
        differences = []
        for key, entry in sorted(entries.items()):
            kind = entry.kind
            if kind is None or entry.since + self._grace > now:
                continue
            if kind is Finding.CONFLICT and key in waits[key]:
                kind = Finding.SELF_CONFLICT
            elif kind is Finding.CONFLICT and key in cycles:
                kind = Finding.CYCLE
            cycle = cycles[key] if kind is Finding.CYCLE else ()
            differences.append(Difference(key, kind, entry.since, entry.refusals, cycle))
        return differences


def strongly_connected(waits: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the strongly connected components (Kosaraju's algorithm, without recursion)."""
    waited_for: dict[str, set[str]] = {}
    for node, others in waits.items():
        for other in others:
            waited_for.setdefault(other, set()).add(node)
    finished: list[str] = []
    seen: set[str] = set()
    for start in waits:
        _visit(start, waits, seen, finished)
    parts: list[set[str]] = []
    seen = set()
    for start in reversed(finished):
        part: list[str] = []
        _visit(start, waited_for, seen, part)
        if part:
            parts.append(set(part))
    return parts


def _visit(start: str, edges: Mapping[str, set[str]], seen: set[str], finished: list[str]) -> None:
    """Append the unseen nodes that `start` reaches to `finished`, each after those that it reaches."""
    path = [] if start in seen else [(start, iter(edges.get(start, ())))]
    seen.add(start)
    while path:
        node, following = path[-1]
        other = next((name for name in following if name not in seen), None)
        if other is None:
            finished.append(node)
            path.pop()
        else:
            seen.add(other)
            path.append((other, iter(edges.get(other, ()))))
