"""The feed: the host's informers for the processes of isolated plugins, over Unix sockets.

A native thread answers lists and watches; this module only chooses the informers. Each process has a socket of its own,
declares the kinds that it reads, and reads them with any client of the Kubernetes API.
"""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from ctrlhost import _core
from ctrlhost.clock import SystemClock
from ctrlhost.errors import ConfigError, CtrlhostError
from ctrlhost.informers.declarations import served_scope
from ctrlhost.reflector.reflector import NO_PERMISSION
from ctrlhost.selectors.namespaces import NamespaceSelector
from ctrlhost.supervisor.run_directory import check_path, make_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from prometheus_client.core import Metric

    from ctrlhost.client.resources import Resources
    from ctrlhost.clock import Clock
    from ctrlhost.informers import Informer, InformerFactory
    from ctrlhost.informers.namespace_informer import NamespaceInformer, Scope

log = logging.getLogger(__name__)

_SOON = 0.1
"""Seconds between two looks at a kind that was not discovered or listed yet."""


@dataclass(frozen=True, slots=True)
class FeedLimits:
    """The limits of a feed; times are in seconds."""

    #: What each informer keeps of the past: events, and the bytes of their objects.
    window_events: int = 10_000
    window_bytes: int = 16 << 20
    #: What may wait for a watcher that does not read, and for how long it may be beyond that.
    waiting_events: int = 10_000
    waiting_bytes: int = 1 << 20
    patience: float = 1.0
    #: The time between two bookmarks.
    bookmark: float = 60.0
    #: How long an informer runs on without readers.
    release: float = 30.0


class CacheServer:
    """Serves informers of a factory to other processes. All methods may be called from any thread.

        server = CacheServer(factory, client.resources)
        reader = server.open("plugin", directory / "feed.sock")
        reader.declare(scope_of("v1", "Pod", reads="metadata"))

    Readers share informers with each other and with everything else in the host.
    """

    def __init__(
        self,
        factory: InformerFactory,
        resources: Resources,
        *,
        clock: Clock | None = None,
        limits: FeedLimits | None = None,
    ) -> None:
        """Start the thread that serves. OSError if there are no resources for it."""
        self._factory = factory
        self._resources = resources
        self._clock = clock or SystemClock()
        self._limits = limits or FeedLimits()
        self._feed = _core.Feed(
            window_events=self._limits.window_events,
            window_bytes=self._limits.window_bytes,
            waiting_events=self._limits.waiting_events,
            waiting_bytes=self._limits.waiting_bytes,
            patience=self._limits.patience,
            bookmark=self._limits.bookmark,
        )
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._keeper: threading.Thread | None = None
        self._readers: list[Reader] = []
        self._kept: dict[Scope, _Kept] = {}
        #: Kinds that were not discovered or listed yet.
        self._unready: list[tuple[_Kept, _core.FeedKind]] = []
        self._slow_closed: dict[str, int] = {}
        self._stopped = False

    def open(self, plugin: str, path: Path) -> Reader:
        """Listen on a new socket for the process of a plugin; its directory becomes accessible to this user only.

        ConfigError if the path is too long or the socket cannot be made there.
        """
        check_path(path)
        try:
            make_private(path.parent)
            reader = Reader(self, plugin, self._feed.open(path, os.geteuid()))
        except OSError as error:
            raise ConfigError(f"cannot listen on {path}: {error.strerror or error}") from error
        with self._lock:
            self._readers.append(reader)
        return reader

    def stop(self) -> None:
        """End all connections and give the informers back. May be repeated."""
        with self._lock:
            self._stopped = True
            readers, kept = self._readers, list(self._kept.values())
            self._readers, self._kept, self._unready = [], {}, []
            keeper = self._keeper
        self._changed.set()
        for reader in readers:
            reader.close()
        self._feed.stop()
        for shared in kept:
            shared.informer.release()
        if keeper is not None:
            keeper.join()

    def collect(self) -> Iterator[Metric]:
        """Return the metrics, as a collector of prometheus-client."""
        from prometheus_client.core import CounterMetricFamily

        with self._lock:
            counts = dict(self._slow_closed)
            for reader in self._readers:
                counts[reader.plugin] = counts.get(reader.plugin, 0) + reader.slow_closed
        family = CounterMetricFamily(
            "ctrlhost_feed_slow_closed",
            "Watches of a plugin's process that were closed because it did not read.",
            labels=["plugin"],
        )
        for plugin, count in sorted(counts.items()):
            family.add_metric([plugin], count)
        yield family

    def _served(self, scope: Scope) -> Scope:
        return served_scope(self._resources, scope)

    def _use(self, scope: Scope, feed_kind: _core.FeedKind) -> _Kept:
        """Return the informer of a scope, and count a reader."""
        with self._lock:
            if self._stopped:
                raise CtrlhostError(f"cannot serve {scope.kind}: the feed was stopped")
            kept = self._kept.get(scope)
            if kept is None:
                kept = self._kept[scope] = _Kept(self._factory.share(scope))
            kept.readers += 1
            kept.release_at = None
            if not self._ready(kept, feed_kind):
                self._unready.append((kept, feed_kind))
                self._wake()
        self._factory.start()
        return kept

    def _ready(self, kept: _Kept, feed_kind: _core.FeedKind) -> bool:
        """Pass on the plural of a kind, and why the host may not list it; return whether it was listed."""
        informer = kept.informer
        resource = self._resources.known(informer.api_version, informer.kind)
        if resource is not None:
            feed_kind.set_resource(resource.plural, resource.namespaced)
        refused = informer.state == "waiting" and informer.reason.startswith(NO_PERMISSION)
        # Without what the process itself puts before it.
        feed_kind.refuse(informer.reason.partition(": ")[2] if refused else None)
        return resource is not None and informer.has_synced

    def _left(self, reader: Reader, served: list[_Served]) -> None:
        """Forget a reader that has closed; its informers run on for a while."""
        with self._lock:
            if reader in self._readers:
                self._readers.remove(reader)
                self._slow_closed[reader.plugin] = self._slow_closed.get(reader.plugin, 0) + reader.slow_closed
            kinds = [feed.kind for feed in served]
            self._unready = [entry for entry in self._unready if entry[1] not in kinds]
            for feed in served:
                feed.kept.readers -= 1
                if feed.kept.readers == 0:
                    feed.kept.release_at = self._clock.now() + self._limits.release
            self._wake()

    def _wake(self) -> None:
        """Start to look at what is due, on a thread that runs while there is something; requires the lock."""
        self._changed.set()
        if self._keeper is None and not self._stopped:
            self._keeper = threading.Thread(target=self._keep, name="feed informers", daemon=True)
            self._keeper.start()

    def _keep(self) -> None:
        while True:
            with self._lock:
                self._changed.clear()
                self._unready = [entry for entry in self._unready if not self._ready(*entry)]
                now = self._clock.now()
                idle = {scope: at for scope, shared in self._kept.items() if (at := shared.release_at) is not None}
                due = [self._kept.pop(scope) for scope, at in idle.items() if at <= now]
                waits = [at - now for at in idle.values() if at > now]
                if self._unready:
                    waits.append(_SOON)
                if self._stopped or not (waits or due):
                    self._keeper = None
                    return
            for shared in due:
                log.debug("no process reads %s any more", shared.informer.key)
                shared.informer.release()
            self._clock.wait(self._changed, min(waits, default=0.0))


class Reader:
    """The socket of one process. All methods may be called from any thread."""

    def __init__(self, server: CacheServer, plugin: str, reader: _core.FeedReader) -> None:
        """Serve nothing yet; made by `CacheServer.open`."""
        self.plugin = plugin
        self._server = server
        self._reader = reader
        self._lock = threading.Lock()
        self._served: list[_Served] = []
        self._closed = False

    @property
    def slow_closed(self) -> int:
        """How many watches were closed because the process did not read them."""
        return self._reader.slow_closed

    def declare(self, scope: Scope) -> None:
        """Serve a further kind; `scope` has the arguments of `InformerFactory.informer` in the process.

        With `reads="metadata"` the process gets metadata, otherwise whole objects, of which it may keep a part. A
        selector that is declared has to be sent with every request; others may be sent, too, but of fields only the
        name and the namespace. CtrlhostError if the reader is closed.
        """
        metadata = scope.reads == "metadata"
        scope = replace(self._server._served(scope), reads="metadata" if metadata else None)  # noqa: SLF001 - one unit
        chosen = scope.namespaces
        with self._lock:
            if self._closed:
                raise CtrlhostError(f"cannot serve {scope.kind}: the process of plugin {self.plugin} has ended")
            feed_kind = self._reader.declare(
                scope.api_version,
                scope.kind,
                metadata=metadata,
                namespaces=list(chosen) if isinstance(chosen, tuple) else None,
                followed=isinstance(chosen, NamespaceSelector),
                label_selector=scope.label_selector,
                field_selector=scope.field_selector,
            )
            kept = self._server._use(scope, feed_kind)  # noqa: SLF001 - one unit
            self._served.append(_Served(feed_kind, kept, kept.informer.follow_parts(_adder(feed_kind))))

    def settled(self) -> bool:
        """Return whether each declared kind can be listed, or waits for its CRD, a permission or memory."""
        return all(
            informer.has_synced or informer.state in ("waiting", "over budget") for informer in self._informers()
        )

    def over_budget(self) -> str:
        """Return for which kind the memory budget of the host has no room, and why; empty if there is none."""
        return next(filter(None, (informer.over_budget for informer in self._informers())), "")

    def _informers(self) -> list[Informer]:
        with self._lock:
            return [feed.kept.informer for feed in self._served]

    def close(self) -> None:
        """End the connections and remove the socket: the process has ended. May be repeated."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            served, self._served = self._served, []
        self._reader.close()
        for feed in served:
            feed.end()
        self._server._left(self, served)  # noqa: SLF001 - one unit


class _Served(NamedTuple):
    """One declared kind of one reader."""

    kind: _core.FeedKind
    kept: _Kept
    end: Callable[[], None]


class _Kept:
    """An informer that readers use, or used a moment ago."""

    def __init__(self, informer: Informer) -> None:
        """Start without readers."""
        self.informer = informer
        self.readers = 0
        #: When to give the informer back; None while there are readers.
        self.release_at: float | None = None


def _adder(feed_kind: _core.FeedKind) -> Callable[[NamespaceInformer], Callable[[bool], None]]:
    """Return the function that serves the parts of an informer."""

    def add(part: NamespaceInformer) -> Callable[[bool], None]:
        engine = part.engine
        feed_kind.add(part.namespace, engine)
        return lambda _: feed_kind.remove(part.namespace, engine)

    return add
