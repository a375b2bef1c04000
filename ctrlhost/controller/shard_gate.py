"""The gate of a sharded controller: a run begins only while the range of its key is open on this replica."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

from ctrlhost import _core
from ctrlhost.coordination.shard_map import line_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ctrlhost.config.settings import ShardBy
    from ctrlhost.coordination.ownership import Ownership, Run, Span
    from ctrlhost.request import Request
    from ctrlhost.workqueue import WorkQueue


class Failures(Protocol):
    """The failing keys of a controller."""

    @property
    def failing(self) -> Mapping[Any, Any]:
        """Those whose last run failed."""
        ...

    def succeeded(self, key: Any) -> None:
        """Forget that a key has failed."""
        ...


class ShardGate:
    """Admits the runs of one controller by the ranges of its replica. Callable from any thread."""

    def __init__(
        self, ownership: Ownership, by: ShardBy, queue: WorkQueue, failures: Failures, uid: Callable[[Request], str]
    ) -> None:
        """Admit nothing yet. `uid` returns that of the reconciled object in the cache; empty if it is not there."""
        self.line = line_of(by)
        self._ownership = ownership
        self._by = by
        self._queue = queue
        self._failures = failures
        self._uid = uid
        self._lock = threading.Lock()
        #: The ranges whose objects are not queued yet, with how many openings of each are under way.
        self._held: Counter[Span] = Counter()
        #: How many times `release` has been called.
        self.openings = 0
        #: Keys of these ranges that a worker has taken, with their priorities.
        self._parked: dict[Request, int] = {}
        #: The keys that were not run, since another replica runs them.
        self.dropped = 0

    def place(self, key: Request) -> int | None:
        """Return the hash of a key; None for one by the uid of an object that is not cached here."""
        if self._by == "uid":
            return _core.shard_hash(uid) if (uid := self._uid(key)) else None
        return _core.shard_hash(key.namespace if self._by == "namespace" else key.name)

    def owns(self, key: Request) -> bool:
        """Return whether a run of the key would begin now."""
        return (place := self.place(key)) is not None and self._ownership.owns(self.line, place)

    def begin(self, key: Request, priority: int, openings: int) -> Run | None:
        """Begin a run of a key that a worker has taken from the queue; `end` must follow.

        None if its range is not open: the key is queued again while that is only suspended, else dropped and counted.
        None, too, while the range is held: `release` queues the key again. The caller tells the queue that it is done.
        `openings` is how many there had been when the key was taken: if there are more, it may be queued once more.
        """
        place = self.place(key)
        if place is not None:
            if (run := self._ownership.begin(self.line, place)) is not None:
                if not (self._held and self._park(key, priority, place)):
                    if openings == self.openings:
                        return run
                    self._queue.add(key, priority=priority)
                self._ownership.end(run)
                return None
            if self._ownership.suspended(self.line, place):
                self._queue.add(key, priority=priority)
                return None
        self._failures.succeeded(key)
        self._queue.forget(key)
        self.count_dropped()
        return None

    def end(self, run: Run) -> None:
        """End a run, whose writes have been answered."""
        self._ownership.end(run)

    def hold(self, span: Span) -> None:
        """Begin no run in a range that is about to open, until `release`."""
        if span.line == self.line:
            with self._lock:
                self._held[span] += 1

    def release(self, spans: Iterable[Span]) -> None:
        """End as many calls of `hold`, now that the objects of the ranges are queued."""
        with self._lock:
            # Queued before a worker can begin with one of them, so that none runs twice.
            for key, priority in self._parked.items():
                self._queue.add(key, priority=priority)
            self._parked.clear()
            self.openings += 1
            self._held -= Counter(span for span in spans if span.line == self.line)

    @property
    def holds(self) -> bool:
        """Whether a range is held."""
        return bool(self._held)

    def _park(self, key: Request, priority: int, place: int) -> bool:
        """Keep a key whose range is held; return False if it is not."""
        with self._lock:
            if not any(span.covers(self.line, place) for span in self._held):
                return False
            self._parked[key] = max(priority, self._parked.get(key, priority))
            return True

    def count_dropped(self) -> None:
        """Count a request that belongs to another replica."""
        with self._lock:
            self.dropped += 1

    def lost(self, spans: Iterable[Span]) -> None:
        """Forget the failures of keys whose ranges other replicas have now."""
        spans = [span for span in spans if span.line == self.line]
        for key in tuple(self._failures.failing) if spans else ():
            place = self.place(key)
            if place is None or any(span.covers(self.line, place) for span in spans):
                self._failures.succeeded(key)
                self._queue.forget(key)
