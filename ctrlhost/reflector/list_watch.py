"""The requests of one reflector, pages of a list and watches, which another thread can end early."""

from __future__ import annotations

import logging
import random
import threading
from typing import TYPE_CHECKING

from ctrlhost.errors import ApiError, CtrlhostError
from ctrlhost.reflector.steps import Open, Steps, Stopped
from ctrlhost.transport.interface import HttpRequest
from ctrlhost.transport.responses import decode_object

if TYPE_CHECKING:
    from ctrlhost.client.resources import Resource
    from ctrlhost.reflector.negotiation import Negotiation
    from ctrlhost.reflector.options import ReflectorOptions
    from ctrlhost.transport.interface import Query, Stream, Transport

log = logging.getLogger("ctrlhost.informers.shards")

_DEFAULT_WATCH = 300.0


class ListWatch:
    """Opens one stream at a time. `stop`, `interrupt` and `held_back` are for any thread, all else for one."""

    def __init__(
        self,
        transport: Transport,
        options: ReflectorOptions,
        negotiation: Negotiation,
        *,
        namespace: str = "",
        label_selector: str | None = None,
        field_selector: str | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """Request the objects that the selectors choose, in one namespace, or in all if it is empty."""
        self._transport = transport
        self._options = options
        self._negotiation = negotiation
        #: The idle timeout of a watch, in seconds.
        self.idle_timeout = options.idle_timeout
        #: That of the initial events of a streaming list, which come without pauses, and then their bookmark.
        self.initial_idle_timeout = min(options.idle_timeout, options.initial_idle_timeout)
        self._namespace = namespace
        self._selectors: dict[str, str | None] = {"labelSelector": label_selector, "fieldSelector": field_selector}
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, protects nothing
        #: Chooses the objects of the next lists and watches by their hash; empty for all. See `select`.
        self.shard_selector = ""
        #: Whether the server called one invalid, so that none is sent any more.
        self.selects_all = False
        self._lock = threading.Lock()
        self._stream: Stream | None = None
        #: Of the streams before.
        self._held_back = 0.0
        self._stopped = False

    def select(self, shard_selector: str) -> None:
        """Request the objects of this shard selector from now on; of all shards if the server called one invalid."""
        self.shard_selector = "" if self.selects_all else shard_selector

    def filters(self, resource: Resource, shard_selector: str) -> Steps[bool | None]:
        """Return whether the server chooses by a shard selector, which no object meets; None if it does not say."""
        query: Query = {**self._selectors, "limit": 1, "shardSelector": shard_selector}
        path, seconds = resource.path(self._namespace), self._options.connect_timeout
        request = HttpRequest("GET", path, query, headers={"Accept": "application/json"}, timeout=seconds)
        try:
            answer = decode_object((yield from self._transport.steps(request)), request.what)
        except ApiError as error:
            if not self._refused(shard_selector, error):
                raise
            return False
        if "shardInfo" in (answer.get("metadata") or {}):
            return True
        return False if answer.get("items") else None

    def _refused(self, shard_selector: str, error: ApiError) -> bool:
        """Return whether the server calls the shard selector invalid, as it would the next time: it gets no more."""
        if not shard_selector or error.status != 500 or not error.message.startswith("invalid shard selector"):
            return False
        what = "the API server refuses the shard selector, which is a fault of ctrlhost"
        log.error("%s; all objects are received, and filtered here: %s", what, error.message)
        self.selects_all, self.shard_selector = True, ""
        return True

    def list_page(self, resource: Resource, version: str, limit: int, token: str) -> Steps[Stream]:
        """Open a page of a list; a continue token contains the version, so none is sent with it."""
        query = {
            **self._selectors,
            "resourceVersion": None if token else version or None,
            "limit": limit or None,
            "continue": token or None,
        }
        seconds = self._options.list_timeout
        return self._open(resource, query, "PartialObjectMetadataList", seconds, seconds)

    def newest_version(self, resource: Resource) -> Steps[str]:
        """Return the version of the server's present state by a list of one object; empty if it has none."""
        accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
        query: Query = {**self._selectors, "limit": 1}
        path, seconds = resource.path(self._namespace), self._options.connect_timeout
        request = HttpRequest("GET", path, query, headers={"Accept": accept}, timeout=seconds)
        answer = decode_object((yield from self._transport.steps(request)), request.what)
        metadata = answer.get("metadata")
        return str(metadata.get("resourceVersion") or "") if isinstance(metadata, dict) else ""

    def watch(self, resource: Resource, version: str, *, initial_events: bool = False) -> Steps[Stream]:
        """Open a watch; with `initial_events` it begins with all objects, followed by a bookmark."""
        shortest = max(self._options.min_watch_timeout, _DEFAULT_WATCH)
        query = {
            **self._selectors,
            "watch": "1",
            "allowWatchBookmarks": True,
            # Drawn for each watch, so that the watches of many clients do not end together.
            "timeoutSeconds": int(shortest * (1 + self._rng.random())),
            "resourceVersion": version or None,
            "sendInitialEvents": True if initial_events else None,
            "resourceVersionMatch": "NotOlderThan" if initial_events else None,
        }
        idle = self.initial_idle_timeout if initial_events else self.idle_timeout
        return self._open(resource, query, "PartialObjectMetadata", self._options.connect_timeout, idle)

    def _open(self, resource: Resource, query: Query, metadata_kind: str, timeout: float, idle: float) -> Steps[Stream]:
        def request() -> Open:
            headers = {"Accept": self._negotiation.accept(metadata_kind)}
            path = resource.path(self._namespace)
            chosen = {**query, "shardSelector": self.shard_selector} if self.shard_selector else query
            wanted = HttpRequest("GET", path, chosen, headers=headers, timeout=timeout, idle=idle)
            return Open(self._transport, wanted)

        try:
            stream: Stream | None = None
            while stream is None:
                try:
                    stream = yield request()
                except ApiError as error:
                    # Each only once.
                    if not (self._negotiation.refused(error) or self._refused(self.shard_selector, error)):
                        raise
            if self._negotiation.protobuf and stream.content_type is None:
                # A transport of somebody else, whose streams do not say what they hold.
                stream.close()
                self._negotiation.only_json()
                stream = yield request()
        except CtrlhostError as error:
            if self._stopped:
                raise Stopped from error
            raise
        with self._lock:
            self._held_back = self._held_back_so_far()
            self._stream = stream
            stopped = self._stopped
        if stopped:
            stream.close()
            raise Stopped
        return stream

    @property
    def held_back(self) -> float:
        """Seconds in which a connection was not read because the decode threads were behind."""
        with self._lock:
            return self._held_back_so_far()

    def _held_back_so_far(self) -> float:
        return self._held_back + (self._stream.held_back if self._stream is not None else 0.0)

    def interrupt(self) -> None:
        """End the open stream; later ones are not affected."""
        with self._lock:
            stream = self._stream
        if stream is not None:
            stream.close()

    def stop(self) -> None:
        """End the open stream, and each later one on opening."""
        with self._lock:
            self._stopped = True
        self.interrupt()
