"""The ranges of hashes that the sharded informers of a factory hold."""

from __future__ import annotations

import threading
from bisect import bisect_left
from typing import TYPE_CHECKING

from ctrlhost import _core
from ctrlhost.reflector.list_slots import ListSlots
from ctrlhost.reflector.ranges import ALL, Ranges
from ctrlhost.reflector.shard import ShardSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctrlhost.clock import Clock
    from ctrlhost.informers.informer import Informer
    from ctrlhost.informers.namespace_informer import NamespaceInformer
    from ctrlhost.reflector.shard import ShardBy

LINES = {"namespace": "namespace", "name": "namespace", "uid": "uid", "owner": "uid"}
"""The hash line of what is hashed of an object: names are on that of the namespaces, owners on that of the uids."""

CONTENTS_AGE = 5.0
"""Seconds for which `contents` may return what it has counted before."""


class HeldRanges:
    """What the sharded informers of one factory hold. All methods may be called from any thread, and none blocks."""

    def __init__(self, informers: Callable[[], Iterable[Informer]], clock: Clock) -> None:
        """Hold nothing. `informers` returns the informers that have watches, sharded or not."""
        self._informers = informers
        self._clock = clock
        self._wanted: dict[str, Ranges] = {}
        #: By line: the longest time to wait at random before what is new is listed.
        self._spread: dict[str, float] = {}
        self._slots = ListSlots()
        self._contents: dict[str, tuple[float, list[tuple[int, int]]]] = {}
        self._lock = threading.Lock()
        #: Called after an informer has ranges that it did not have, with its handlers notified; must not block.
        self.on_filled: Callable[[], None] = lambda: None

    def source(self, by: ShardBy, namespace: str) -> ShardSource:
        """Return the ranges of one part of an informer, of one namespace or of all, if it is empty."""
        line = LINES[by]

        def spread() -> float:
            return self._spread.get(line, 0.0)

        if by != "namespace" or not namespace:
            return ShardSource(by, lambda: self.wanted(line), self._filled, self._slots, spread)
        # All or nothing, so that a change of other ranges does not concern it.
        place = _core.shard_hash(namespace)
        wanted = lambda: ALL if place in self.wanted(line) else Ranges()  # noqa: E731
        return ShardSource(by, wanted, self._filled, self._slots, spread, place)

    def hold(self, line: str, spans: Iterable[tuple[int, int]], *, spread: float = 0.0) -> None:
        """Hold these ranges, and no others, in all informers of a line, present and future.

        Each range is from its start to before its end; ValueError unless 0 <= start < end <= 2**64. What is new is
        listed, by four informers at a time, each after a random part of `spread` seconds; the objects of what is not
        held any more leave the caches, of which no handler is notified.
        """
        wanted = Ranges.of(spans)
        with self._lock:
            if self._wanted.get(line, Ranges()) == wanted:
                return
            self._spread = {**self._spread, line: spread}
            self._wanted = {**self._wanted, line: wanted}
            self._contents = {}
        for part in self._parts(line):
            part.reflector.follow_ranges()

    def wanted(self, line: str) -> Ranges:
        """Return the ranges that the informers of a line are to hold."""
        return self._wanted.get(line, Ranges())

    def holds(self, line: str, start: int, end: int) -> bool:
        """Return whether every informer of a line has a range in its cache, and has notified its handlers.

        An informer that cannot list, since the kind is not served or a permission is missing, does not count.
        """
        return all(part.holds(start, end) for part in self._parts(line))

    def contents(self, line: str, start: int, end: int) -> list[tuple[int, int]]:
        """Return the hashes in a range that have objects, in order, each with their number over all informers.

        They may have been counted up to 5 seconds ago.
        """
        now = self._clock.now()
        known = self._contents.get(line)
        if known is None or now - known[0] >= CONTENTS_AGE:
            known = now, self._count(line)
            self._contents = {**self._contents, line: known}
        hashes = known[1]
        return hashes[bisect_left(hashes, (start, 0)) : bisect_left(hashes, (end, 0))]

    def describe(self, line: str, place: int) -> str:
        """Return in words what in the caches has a hash, such as `namespace shop`; else the hash."""
        for part in self._parts(line):
            for obj in part.engine.objects_of([(place, place + 1)])[:1]:
                by, where = part.scope.shard_by, f"{obj.namespace}/" if obj.namespace else ""
                if by == "namespace":
                    return f"namespace {obj.namespace}"
                if by == "owner" and obj.controller is not None:
                    return f"{obj.controller.kind} {where}{obj.controller.name}"
                return f"{part.scope.kind} {obj.name if by == 'name' else where + obj.name}"
        return f"hash {place:016x} of line {line}"

    def unfiltered(self) -> list[str]:
        """Return the resources of which the API server sends all objects, although it is asked for a part."""
        known = {part.resource for line in ("namespace", "uid") for part in self._parts(line) if part.filters is False}
        return sorted(known)

    def _count(self, line: str) -> list[tuple[int, int]]:
        sums: dict[int, int] = {}
        for part in self._parts(line):
            for place, objects in part.engine.hashes():
                sums[place] = sums.get(place, 0) + objects
        return sorted(sums.items())

    def _parts(self, line: str) -> list[NamespaceInformer]:
        return [
            part
            for informer in self._informers()
            if informer.scope.shard_by is not None and LINES[informer.scope.shard_by] == line
            for part in informer.parts
        ]

    def _filled(self) -> None:
        self._contents = {}
        self.on_filled()
