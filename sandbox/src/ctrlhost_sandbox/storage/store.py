"""Objects in memory: one global revision, a table per resource, a ring of events for watches and old lists.

Everything here runs in the server's own thread, so nothing needs a lock and each commit is atomic for every reader.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from sys import intern
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from ctrlhost_sandbox.apimachinery.status import Failure, expired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

FIRST_REVISION = 1000
MAX_EVENTS = 10_000
MAX_EVENT_BYTES = 32 * 1024 * 1024
MAX_TOTAL_EVENT_BYTES = 256 * 1024 * 1024
MAX_OBJECT_BYTES = 1_572_864

_NO_LABELS: dict[str, str] = {}
_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """One object at one revision. `raw` is its JSON in the storage version, apiVersion and kind first."""

    raw: bytes
    revision: int
    namespace: str
    name: str
    uid: str
    labels: dict[str, str]
    owners: tuple[str, ...]
    """The uids of its ownerReferences."""
    shape: object
    """The schema that the object was written with; while it is current, `raw` is served unchanged."""
    table: str
    """The name of the object's table."""

    @property
    def key(self) -> tuple[str, str]:
        """The namespace and the name."""
        return self.namespace, self.name

    def decode(self) -> dict[str, Any]:
        """Return a fresh, mutable copy."""
        obj: dict[str, Any] = msgspec.json.decode(self.raw)
        return obj


Snapshots = list[Snapshot]


@dataclass(slots=True, eq=False)
class Event:
    """One change: `old` is None for a creation, `new` is None for a deletion."""

    revision: int
    old: Snapshot | None
    new: Snapshot | None
    frames: dict[Any, bytes] = field(default_factory=dict)
    """Frames encoded once, sent to many watchers."""
    parsed: dict[Any, Any] = field(default_factory=dict)
    """Objects decoded once, for the field selectors of many watchers."""

    @property
    def latest(self) -> Snapshot:
        """The object after the change, or before its deletion."""
        snapshot = self.new or self.old
        assert snapshot is not None
        return snapshot

    def clear_caches(self) -> None:
        """Drop the frames and objects once all watchers have been notified."""
        self.frames.clear()
        self.parsed.clear()

    @property
    def size(self) -> int:
        """The number of bytes that the event keeps in memory."""
        return (len(self.old.raw) if self.old else 0) + (len(self.new.raw) if self.new else 0)


class Journal(Protocol):
    """Persists commits beyond the process."""

    def write(self, table: str, snapshot: Snapshot, revision: int, *, removed: bool) -> None:
        """Persist one commit; a Failure if it cannot, and then nothing has changed."""


class Table:
    """The objects of one resource."""

    def __init__(self, name: str, revision: int) -> None:
        """Start empty; nothing at or before `revision` can be watched from."""
        self.name = name
        self.namespaces: dict[str, dict[str, Snapshot]] = {}
        self.count = 0
        self.ring: deque[Event] = deque()
        self.ring_bytes = 0
        self.compacted = revision
        self.newest = 0
        self.watchers: dict[Callable[[Event], None], None] = {}

    def get(self, namespace: str, name: str) -> Snapshot | None:
        """Find an object."""
        return self.namespaces.get(namespace, {}).get(name)

    def list(self, namespace: str | None = None) -> Snapshots:
        """Return the objects of one namespace or of all, by namespace and name."""
        if namespace is not None:
            inside = self.namespaces.get(namespace, {})
            return [inside[name] for name in sorted(inside)]
        return [inside[name] for _, inside in sorted(self.namespaces.items()) for name in sorted(inside)]

    def list_at(self, revision: int, namespace: str | None = None) -> Snapshots:
        """Return the objects as of `revision`; 410 if it was compacted."""
        if revision < self.compacted:
            raise expired(f"The provided resource version is too old: {revision} ({self.compacted})")
        if not self.ring or self.ring[-1].revision <= revision:
            return self.list(namespace)
        state = {item.key: item for item in self.list(namespace)}
        for event in reversed(self.ring):
            if event.revision <= revision:
                break
            touched = event.latest
            if namespace is not None and touched.namespace != namespace:
                continue
            if event.old is None:
                state.pop(touched.key, None)
            else:
                state[touched.key] = event.old
        return [state[key] for key in sorted(state)]

    def since(self, revision: int) -> Iterator[Event]:
        """Return the events after `revision`, oldest first; the caller checks `compacted`."""
        later = []
        for event in reversed(self.ring):
            if event.revision <= revision:
                break
            later.append(event)
        return reversed(later)

    def put(self, snapshot: Snapshot) -> None:
        """Put an object without notifying watchers."""
        inside = self.namespaces.setdefault(snapshot.namespace, {})
        self.count += snapshot.name not in inside
        inside[snapshot.name] = snapshot

    def drop(self, snapshot: Snapshot) -> None:
        """Remove an object without notifying watchers."""
        inside = self.namespaces[snapshot.namespace]
        del inside[snapshot.name]
        self.count -= 1
        if not inside:
            del self.namespaces[snapshot.namespace]

    def record(self, event: Event) -> None:
        """Record the event for later watches, and notify the current ones."""
        self.newest = event.revision
        self.ring.append(event)
        self.ring_bytes += event.size
        while len(self.ring) > MAX_EVENTS or self.ring_bytes > MAX_EVENT_BYTES:
            self._drop_oldest()
        for watcher in list(self.watchers):
            watcher(event)
        # Later watches encode for themselves; cached frames would take as much memory as the events.
        event.clear_caches()

    def halve(self) -> None:
        """Drop the older half of the events."""
        wanted = self.ring_bytes // 2
        while self.ring and self.ring_bytes > wanted:
            self._drop_oldest()

    def compact(self, revision: int) -> None:
        """Drop every event up to `revision`."""
        while self.ring and self.ring[0].revision <= revision:
            self._drop_oldest()
        self.compacted = max(self.compacted, revision)

    def _drop_oldest(self) -> None:
        event = self.ring.popleft()
        self.ring_bytes -= event.size
        self.compacted = event.revision


class Store:
    """All tables and the revision that they share."""

    def __init__(self, journal: Journal | None = None, max_objects: int = 500_000) -> None:
        """Start empty at revision 1000, so that small numbers are always too old."""
        self.revision = FIRST_REVISION
        self._tables: dict[str, Table] = {}
        self._journal = journal
        self._max_objects = max_objects
        self.uids: dict[str, Snapshot] = {}
        """Every object by its uid."""
        # Reused for each object: temporary buffers between long-lived objects fragment the memory.
        self._buffer = bytearray()
        self._event_bytes = 0
        self.listeners: list[Callable[[Table, Event], None]] = []
        """Called after each commit, in order; they must not write."""

    def table(self, name: str) -> Table:
        """Return the table of that name, created if it is missing."""
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = Table(name, self.revision)
        return table

    def newest(self, name: str) -> int:
        """Return the newest revision written to a table, 0 if none was. May be called from any thread."""
        table = self._tables.get(name)
        return 0 if table is None else table.newest

    def tables(self) -> Iterable[Table]:
        """Return all tables."""
        return list(self._tables.values())

    def drop_table(self, name: str) -> None:
        """Drop a table; its objects must be gone."""
        self._tables.pop(name, None)

    def write(self, table: Table, obj: dict[str, Any], shape: object = None) -> Snapshot:
        """Commit a new or changed object under the next revision, which is written into `obj`."""
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        old = table.get(namespace, name)
        if old is None and len(self.uids) >= self._max_objects:
            raise Failure(500, "InternalError", f"the sandbox holds at most {self._max_objects} objects")
        revision = self.revision + 1
        metadata["resourceVersion"] = str(revision)
        new = self._snapshot(table.name, obj, revision, shape)
        if len(new.raw) > MAX_OBJECT_BYTES:
            raise Failure(500, "", "etcdserver: request is too large")
        if self._journal is not None:
            self._journal.write(table.name, new, revision, removed=False)
        self.revision = revision
        table.put(new)
        self.uids[new.uid] = new
        self._publish(table, Event(revision, old, new))
        return new

    def remove(self, table: Table, old: Snapshot) -> None:
        """Commit a deletion, which takes a revision too."""
        revision = self.revision + 1
        if self._journal is not None:
            self._journal.write(table.name, old, revision, removed=True)
        self.revision = revision
        table.drop(old)
        self.uids.pop(old.uid, None)
        self._publish(table, Event(revision, old, None))

    def load(self, table: str, obj: dict[str, Any]) -> None:
        """Place an object read from disk."""
        place = self.table(table)
        snapshot = self._snapshot(place.name, obj, int(obj["metadata"]["resourceVersion"]), None)
        place.put(snapshot)
        place.newest = max(place.newest, snapshot.revision)
        self.uids[snapshot.uid] = snapshot

    def _snapshot(self, table: str, obj: dict[str, Any], revision: int, shape: object) -> Snapshot:
        """Encode an object with apiVersion and kind first, so that a list can cut them off by length."""
        metadata = obj["metadata"]
        ordered = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}
        ordered.update(obj)
        _encoder.encode_into(ordered, self._buffer)
        labels = metadata.get("labels")
        return Snapshot(
            bytes(self._buffer),
            revision,
            # Values that many objects share are interned.
            intern(metadata.get("namespace", "")),
            metadata["name"],
            metadata["uid"],
            {key: intern(value) for key, value in labels.items()} if labels else _NO_LABELS,
            tuple(owner["uid"] for owner in metadata.get("ownerReferences") or ()),
            shape,
            table,
        )

    def _publish(self, table: Table, event: Event) -> None:
        before = table.ring_bytes
        table.record(event)
        self._event_bytes += table.ring_bytes - before
        if self._event_bytes > MAX_TOTAL_EVENT_BYTES:
            self._shrink()
        for listener in self.listeners:
            listener(table, event)

    def _shrink(self) -> None:
        """Drop the older half of the largest ring until the total of all rings is within its bound."""
        self._event_bytes = sum(table.ring_bytes for table in self._tables.values())
        while self._event_bytes > MAX_TOTAL_EVENT_BYTES:
            largest = max(self._tables.values(), key=lambda table: table.ring_bytes)
            before = largest.ring_bytes
            largest.halve()
            self._event_bytes -= before - largest.ring_bytes
