"""The requests of one reflector: pages of a list, and watches, that another thread can cut short."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

from ctrlhost.transport.interface import StreamTimeouts

if TYPE_CHECKING:
    from ctrlhost.client.resources import Resource
    from ctrlhost.reflector.options import ReflectorOptions
    from ctrlhost.transport.interface import Query, Stream, Transport

_DEFAULT_WATCH = 300.0
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


class Wire:
    """Opens one stream at a time. `cut` and `interrupt` may be called from any thread, all else from one thread."""

    def __init__(
        self,
        transport: Transport,
        options: ReflectorOptions,
        *,
        namespace: str = "",
        label_selector: str | None = None,
        field_selector: str | None = None,
        metadata_only: bool = False,
        rng: random.Random | None = None,
    ) -> None:
        """Ask for what the selectors choose, in one namespace or, where that is empty, in all."""
        self._transport = transport
        self._options = options
        self._namespace = namespace
        self._selectors: dict[str, str | None] = {"labelSelector": label_selector, "fieldSelector": field_selector}
        self._metadata_only = metadata_only
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._lock = threading.Lock()
        self._stream: Stream | None = None
        self._cut = False

    @property
    def idle_timeout(self) -> float:
        """The longest silence of a watch, in seconds."""
        return self._options.idle_timeout

    def list_page(self, resource: Resource, version: str, limit: int, token: str) -> Stream:
        """Open a page of a list; a continue token carries the version itself, so none is sent beside it."""
        query = {
            **self._selectors,
            "resourceVersion": None if token else version or None,
            "limit": limit or None,
            "continue": token or None,
        }
        timeouts = StreamTimeouts(connect=self._options.list_timeout, idle=self._options.list_timeout)
        return self._open(resource, query, _METADATA_LIST, timeouts)

    def watch(self, resource: Resource, version: str, *, initial_events: bool = False) -> Stream:
        """Open a watch; with `initial_events` it begins with all objects and a bookmark that ends them."""
        query = {
            **self._selectors,
            "watch": "1",
            "allowWatchBookmarks": True,
            "timeoutSeconds": self._watch_timeout(),
            "resourceVersion": version or None,
            "sendInitialEvents": True if initial_events else None,
            "resourceVersionMatch": "NotOlderThan" if initial_events else None,
        }
        # Initial events and the bookmark after them come at once; a server that leaves it at that will never send one.
        idle = min(self.idle_timeout, self._options.initial_idle_timeout) if initial_events else self.idle_timeout
        timeouts = StreamTimeouts(connect=self._options.connect_timeout, idle=idle)
        return self._open(resource, query, _METADATA, timeouts)

    def _watch_timeout(self) -> int:
        # Drawn anew for each watch, so that the watches of many clients do not end together.
        shortest = max(self._options.min_watch_timeout, _DEFAULT_WATCH)
        return int(shortest * (1 + self._rng.random()))

    def _open(self, resource: Resource, query: Query, metadata_accept: str, timeouts: StreamTimeouts) -> Stream:
        headers = {"Accept": metadata_accept} if self._metadata_only else None
        stream = self._transport.stream(resource.path(self._namespace), query=query, headers=headers, timeouts=timeouts)
        with self._lock:
            self._stream = stream
            cut = self._cut
        if cut:
            stream.close()
        return stream

    def interrupt(self) -> None:
        """End the stream that is open; later ones are not touched."""
        with self._lock:
            stream = self._stream
        if stream is not None:
            stream.close()

    def cut(self) -> None:
        """End the stream that is open, and each that is opened later: the reflector is to stop."""
        with self._lock:
            self._cut = True
            stream = self._stream
        if stream is not None:
            stream.close()
