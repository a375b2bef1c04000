"""One reflector with its engine: the part of an informer for one namespace, or for all of them."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ctrlhost import _core
from ctrlhost.client.builtin_kinds import builtin_plural
from ctrlhost.reflector.reflector import Reflector

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ctrlhost.client import Client
    from ctrlhost.clock import Clock
    from ctrlhost.informers.callback_metrics import FunctionMetrics
    from ctrlhost.informers.caller import Caller
    from ctrlhost.reflector.compressions import Compression
    from ctrlhost.reflector.options import ReflectorOptions
    from ctrlhost.reflector.shard import ShardBy, ShardSource
    from ctrlhost.selectors.namespaces import Namespaces

Reads = str | tuple[str, ...] | None
Transform = Any

_JOIN = 5.0
"""Seconds to wait for the end of a thread."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The objects that an informer holds, and the parts of each that it keeps. Equal scopes share one informer."""

    api_version: str
    kind: str
    namespaces: Namespaces = None
    label_selector: str | None = None
    field_selector: str | None = None
    reads: Reads = None
    #: Compared by identity, so two equivalent functions are different.
    transform: Transform = None
    #: Whose informer it is; None for one that all share.
    owner: Caller | None = None
    #: What of an object decides whether this replica holds it; None holds all.
    shard_by: ShardBy | None = None

    def __post_init__(self) -> None:
        """Reject invalid scopes where they are requested, not where they are first used."""
        for name in ("api_version", "kind"):
            if not (isinstance(value := getattr(self, name), str) and value):
                raise TypeError(f"{name} must be a non-empty string, got {value!r}")
        if self.api_version.count("/") > 1:
            raise ValueError(f"invalid apiVersion {self.api_version!r}: more than one slash")
        for name in ("label_selector", "field_selector"):
            if not isinstance(value := getattr(self, name), str | None):
                raise TypeError(f"{name} must be a string such as 'a=b,c!=d', got {value!r}")
        if self.shard_by not in (None, "namespace", "name", "uid", "owner"):
            raise ValueError(f"shard_by must be namespace, name, uid, owner or None, got {self.shard_by!r}")
        if not (self.transform is None or callable(self.transform)):
            raise TypeError(f"transform must be a function that returns the object to keep, got {self.transform!r}")

    def describe(self) -> str:
        """Return a readable key."""
        parts = [f"{self.kind}.{self.api_version}"]
        if self.namespaces is not None:
            named = self.namespaces
            parts.append(f"namespaces={','.join(named) if isinstance(named, tuple) else named}")
        for name, value in (("labels", self.label_selector), ("fields", self.field_selector)):
            if value:
                parts.append(f"{name}={value}")
        if self.reads is not None:
            parts.append(f"reads={self.reads if isinstance(self.reads, str) else ','.join(self.reads)}")
        if self.transform is not None:
            parts.append("transformed")
        if self.shard_by is not None:
            parts.append(f"shard_by={self.shard_by}")
        return " ".join(parts)


class NamespaceInformer:
    """An engine and the reflector that feeds it."""

    def __init__(
        self,
        client: Client,
        scope: Scope,
        namespace: str,
        clock: Clock,
        options: ReflectorOptions,
        *,
        budget: _core.MemoryBudget | None,
        caller: Caller,
        resync: float | None,
        compression: Compression = "off",
        on_change: Callable[[], None],
        on_error: Callable[[Exception], None] | None,
        cluster_scoped: Callable[[], bool] = lambda: True,
        missing: Callable[[], None] = lambda: None,
        optional: bool = False,
        shard: ShardSource | None = None,
    ) -> None:
        """Create both without starting them; for the last four parameters see `Reflector`.

        All informers of a factory share the `budget`.
        `caller` calls the transform, and the index functions that are added without another one.
        """
        known = builtin_plural(scope.api_version, scope.kind)
        #: The plural if it is known without discovery, for messages and metrics.
        self.resource = known[0] if known else scope.kind.lower()
        #: The metrics of those index functions.
        metrics: list[FunctionMetrics] = []
        self.index_metrics = metrics
        transform, self._end_transform = caller.transform(scope.transform)
        self.engine = _core.SharedInformer(
            self.resource,
            scope.api_version,
            scope.kind,
            reads=scope.reads,
            transform=transform,
            clock=clock,
            resync=resync,
            deferred=lambda function: caller.index_function(function, metrics),
            max_object_bytes=options.max_object,
            budget=budget,
            compression=compression,
            shard_by=scope.shard_by,
        )
        self._make_reflector = partial(
            Reflector,
            client,
            scope.api_version,
            scope.kind,
            self.engine,
            clock,
            options,
            namespace=namespace,
            label_selector=scope.label_selector,
            field_selector=scope.field_selector,
            on_change=on_change,
            on_error=on_error,
            cluster_scoped=cluster_scoped,
            missing=missing,
            optional=optional,
            shard=shard,
        )
        self.scope = scope
        self.reflector = self._make_reflector(metadata_only=scope.reads == "metadata")
        self.namespace = namespace
        self._on_change = on_change
        self._lock = threading.Lock()
        self._started = False

    def widen(self, scope: Scope) -> None:
        """Keep what `scope` reads of each object; before the start."""
        self.engine.set_reads(scope.reads)
        self.scope = scope
        self.reflector = self._make_reflector(metadata_only=scope.reads == "metadata")

    def start(self) -> None:
        """Start the reflector, once."""
        with self._lock:
            if self._started:
                return
            self._started = True
        self.reflector.start()

    def restart(self, *, run: bool) -> None:
        """Create a new reflector after `empty`, and start it with `run`."""
        self.reflector = self._make_reflector(metadata_only=self.scope.reads == "metadata")
        with self._lock:
            self._started = False
        if run:
            self.start()

    def empty(self) -> None:
        """Drop all objects, which handlers see as deletions, once the reflector has stopped; the caller stopped it."""
        self.reflector.join(_JOIN)
        if self.engine.has_synced:
            self.engine.begin_list()
            self.engine.replace(self.engine.last_resource_version)
            self.engine.process()
            self._on_change()

    def holds(self, start: int, end: int) -> bool:
        """Return whether its cache has a range of its shard, or cannot have it: its kind is not served or readable."""
        shard = self.reflector.shard
        return shard is None or shard.has(start, end) or self.reflector.status.state == "waiting"

    def takes(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether an object with this metadata belongs to what it holds."""
        return self.reflector.shard is None or self.reflector.shard.takes(metadata)

    @property
    def filters(self) -> bool | None:
        """Whether the server sends the objects of its shard alone; None if it is not asked to, or has not said so."""
        return self.reflector.shard.filters if self.reflector.shard is not None else None

    def end(self) -> None:
        """Stop for good; the reflector has stopped, or hangs. A callback that runs is not waited for."""
        self.engine.stop()
        self._end_transform()

    @property
    def resync_period(self) -> float:
        """The shortest resync period of its handlers, in seconds; 0 for never."""
        return self.engine.resync_check_period

    def resync(self) -> None:
        """Notify the handlers whose resync is due of every object."""
        self.engine.resync()
        self.engine.process()
        self._on_change()
