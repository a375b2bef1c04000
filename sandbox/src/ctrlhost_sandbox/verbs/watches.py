"""Watches: the filtered events of a table, in the requested version and encoding."""

from __future__ import annotations

import random
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost_sandbox.apimachinery import status, suspension
from ctrlhost_sandbox.apimachinery.status import Failure
from ctrlhost_sandbox.http.channel import chunk
from ctrlhost_sandbox.registry import views
from ctrlhost_sandbox.registry.operation import Operation, bad_option
from ctrlhost_sandbox.verbs.reads import Filter, make_filter, parse_revision
from ctrlhost_sandbox.verbs.shards import read_shard

if TYPE_CHECKING:
    import asyncio

    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.encoding.negotiation import Accepted
    from ctrlhost_sandbox.http.channel import Channel
    from ctrlhost_sandbox.storage.store import Event, Snapshot
    from ctrlhost_sandbox.verbs.tables import Encoding

BOOKMARK_SECONDS = 60.0
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Watch:
    """One client's watch."""

    def __init__(
        self, context: ServerContext, operation: Operation, accepted: Accepted, encoding: Encoding | None
    ) -> None:
        """Check the options; sending starts with `opened`. Without an `encoding` objects are sent as they are."""
        query = operation.query
        self.content_type = accepted.stream_media
        self.headers: list[tuple[str, str]] = []
        self._context = context
        self.kind = operation.kind
        self._table = context.store.table(operation.kind.table)
        self._namespace = operation.namespace if operation.kind.namespaced and operation.namespace else None
        self._selected: Filter = make_filter(operation.kind, operation)
        self._accepted, self._encoding = accepted, encoding
        #: Watches of one audience share encoded events.
        self._audience = f"{id(operation.kind)} {self.content_type} {encoding.name if encoding else ''}"
        self._opened = encoding is None or not encoding.opens
        self._bookmarks = query.flag("allowWatchBookmarks")
        self._initial = _initial_events(operation)
        query.number("limit")
        seconds = query.number("timeoutSeconds")
        self._selected.shard = read_shard(context, query)
        self._everything = self._selected.everything
        self._from = parse_revision(query.first("resourceVersion"), "watch")
        self._seconds = float(seconds) if seconds else random.uniform(1800, 3600)
        self._channel: Channel | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._seen = self._from
        #: Events that wait for the conversion of those before; None if nothing has to be converted.
        converts = operation.kind.custom is not None and operation.kind.custom.converter is not None
        self._waiting: deque[Event] | None = deque() if converts else None
        self._converting = self._begun = False
        #: The newest revision sent to the client.
        self._sent = self._from

    def opened(self, channel: Channel) -> None:
        """Send the present state, then follow events."""
        self._channel = channel
        self._context.watches.add(self)
        self._timers.append(self._context.later(self._seconds, self.end))
        if self._bookmarks:
            self._timers.append(self._context.later(max(self._seconds - 2, self._seconds / 2), self._bookmark))
            self._timers.append(self._context.later(BOOKMARK_SECONDS, self._bookmark_again))
        if self._from and self._from < self._table.compacted and not self._sends_current:
            self._send_expired()
        elif self._waiting is None:
            self._begin()
            self._table.watchers[self._event] = None
        else:
            self._table.watchers[self._convert_later] = None
            self._converting = True
            suspension.run(self._convert)

    @property
    def _sends_current(self) -> bool:
        return self._initial is True or (self._initial is None and self._from == 0)

    def _begin(self) -> None:
        """Send the present objects, or the events since the client's version."""
        if self._sends_current:
            self._send_current()
        elif self._from:
            for event in list(self._table.since(self._from)):
                self._event(event)
                # No other watch replays it now.
                event.clear_caches()

    def _convert_later(self, event: Event) -> None:
        """Send an event when those before it are sent, which wait for their conversion."""
        assert self._waiting is not None
        self._waiting.append(event)
        if not self._converting:
            self._converting = True
            suspension.run(self._convert)

    def _convert(self) -> None:
        """Send what has to be converted, in order; end with the error of a conversion that fails."""
        try:
            if not self._begun:
                self._begun = True
                self._begin()
            while self._waiting and self._channel is not None:
                event = self._waiting.popleft()
                self._event(event)
                event.clear_caches()
        except Failure as failure:
            if self._channel is not None:
                self._channel.send(chunk(self._accepted.frame("ERROR", msgspec.json.encode(failure.as_dict()))))
                self._channel.end()
        finally:
            self._converting = False

    def closed(self) -> None:
        """Stop following."""
        self._table.watchers.pop(self._event, None)
        self._table.watchers.pop(self._convert_later, None)
        self._context.watches.discard(self)
        for timer in self._timers:
            timer.cancel()
        self._channel = None

    def end(self) -> None:
        """End the stream properly."""
        if self._channel is not None:
            self._channel.end()

    def _send_current(self) -> None:
        revision = self._context.store.revision
        snapshots = self._table.list(self._namespace)
        views.prepare(self.kind, snapshots)
        for snapshot in snapshots:
            if self._selected.matches(self.kind, snapshot):
                self._send("ADDED", views.raw(self.kind, snapshot))
        self._seen = max(self._from, revision)
        if self._initial is True and self._bookmarks:
            self._bookmark(initial_end=True)

    def _send_expired(self) -> None:
        text = f"too old resource version: {self._from} ({self._table.compacted})"
        raw = msgspec.json.encode(status.expired(text).as_dict())
        if self._channel is not None:
            self._channel.send(chunk(self._accepted.frame("ERROR", raw)))
            self._channel.end()

    def _event(self, event: Event) -> None:
        """Send one change as selected: an object may enter or leave the selection."""
        if event.revision <= self._seen:
            return
        self._seen = event.revision
        old, new = event.old, event.new
        if self._namespace is not None:
            touched = new or old
            if touched is None or touched.namespace != self._namespace:
                return
        if not self._everything:
            kind, selected, parsed = self.kind, self._selected, event.parsed
            old = old if old is not None and selected.matches(kind, old, parsed) else None
            new = new if new is not None and selected.matches(kind, new, parsed) else None
        if new is not None:
            self._send_shared("ADDED" if old is None else "MODIFIED", event, new)
        elif old is not None:
            self._send_shared("DELETED", event, old)

    def _send_shared(self, name: str, event: Event, snapshot: Snapshot) -> None:
        """Send an event, encoded once for all watches of this audience."""
        if self._channel is None:
            return
        key = (name, self._audience, self._opened)
        framed = event.frames.get(key)
        if framed is None:
            raw = views.raw(self.kind, snapshot)
            if name == "DELETED":
                obj = msgspec.json.decode(raw)
                obj["metadata"]["resourceVersion"] = str(event.revision)
                raw = views.encode(obj)
            framed = event.frames[key] = self._framed(name, raw)
        self._opened = True
        self._channel.send(framed)
        self._sent = event.revision

    def _send(self, name: str, raw: bytes) -> None:
        if self._channel is not None:
            self._channel.send(self._framed(name, raw))
            self._opened = True

    def _framed(self, name: str, raw: bytes) -> bytes:
        if self._encoding is not None:
            raw = self._encoding.present(raw, first=not self._opened)
        return chunk(self._accepted.frame(name, raw))

    def catch_up(self) -> None:
        """Send a bookmark, if the newest revision was not selected."""
        if self._bookmarks and self._sent < self._table.newest:
            self._bookmark()

    def _bookmark_again(self) -> None:
        self._bookmark()
        self._timers.append(self._context.later(BOOKMARK_SECONDS, self._bookmark_again))

    def _bookmark(self, *, initial_end: bool = False) -> None:
        if (self._context.store.revision < self._from or self._converting) and not initial_end:
            # As kube-apiserver: nothing until the versions reach the requested one, and all before it are sent.
            return
        metadata: dict[str, Any] = {
            "resourceVersion": str(max(self._context.store.revision, self._from)),
            "creationTimestamp": None,
        }
        if initial_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        kind = self.kind
        self._sent = self._context.store.revision
        self._send("BOOKMARK", views.encode({"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}))


def _initial_events(operation: Operation) -> bool | None:
    """Read `sendInitialEvents`; None if it is missing."""
    query = operation.query
    match = query.first("resourceVersionMatch")
    if query.first("sendInitialEvents"):
        if match != "NotOlderThan":
            text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            raise bad_option("ListOptions", status.forbidden_field("resourceVersionMatch", text))
        return query.flag("sendInitialEvents")
    if match:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise bad_option("ListOptions", status.forbidden_field("resourceVersionMatch", text))
    return None
