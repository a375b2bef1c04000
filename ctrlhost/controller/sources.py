"""The sources: the objects and timers that trigger a controller, and the kinds that it may read.

A new kind of source is a subclass of `Source` or `KindSource` here and a public name in `ctrlhost`; no other module
changes.
"""

from __future__ import annotations

import inspect
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from ctrlhost import _core
from ctrlhost.controller.attachment import LOW_PRIORITY
from ctrlhost.controller.map_function import MapFunction, takes_caches
from ctrlhost.controller.source import KindSource, Source
from ctrlhost.controller.ticker import Ticker
from ctrlhost.duration import DurationLike, in_seconds
from ctrlhost.errors import Stale
from ctrlhost.informers import Owner
from ctrlhost.informers.mappings import ByIndex, ByLabel
from ctrlhost.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Generic as Parameters
    from typing import Unpack

    from typing_extensions import TypeVar

    from ctrlhost.cache import Object
    from ctrlhost.controller.attachment import Attachment, AttachScope
    from ctrlhost.controller.caches import Caches
    from ctrlhost.controller.source import SourceOptions
    from ctrlhost.coordination.ownership import Span
    from ctrlhost.informers import Informer
    from ctrlhost.informers.handle import Handle
    from ctrlhost.models.kinds import KindRef
    from ctrlhost.own_writes.lister import PluginLister

    #: The struct of a kind's objects, or `Object`.
    K = TypeVar("K", default=object, covariant=True)
    T = TypeVar("T")
    #: Maps a changed object to requests, with or without `Caches`.
    Map: TypeAlias = (
        Callable[[T], Iterable[Request]] | Callable[[T, Caches], Iterable[Request]] | ByLabel | ByIndex | None
    )
else:
    from ctrlhost.controller.parameters import Parameters

    K = object

log = logging.getLogger("ctrlhost.controller")


@dataclass(frozen=True, slots=True)
class For(KindSource, Parameters[K]):
    """The kind that is reconciled: each of its objects is a key. A controller has at most one."""

    is_primary = True

    if TYPE_CHECKING:

        @overload
        def __init__(self, kind: type[K], /, **options: Unpack[SourceOptions]) -> None: ...
        @overload
        def __init__(self: For[Object], kind: tuple[str, str] | str, /, **options: Unpack[SourceOptions]) -> None: ...
        @overload
        def __init__(self: For[Object], api_version: str, kind: str, **options: Unpack[SourceOptions]) -> None: ...
        def __init__(self, *_: Any, **_options: Any) -> None: ...  # noqa: D107

    def check(self, sources: Sequence[Source]) -> str | None:
        """Reject a second `For`."""
        if sum(source.is_primary for source in sources) > 1:
            return "it has more than one `For`; use `Watches` with a map for further kinds"
        return None

    def attach(self, scope: AttachScope) -> Attachment:
        """Attach, and set the informer as the controller's primary one."""
        attachment = KindSource.attach(self, scope)
        scope.primary = attachment.informer
        return attachment

    def _mapping(self, scope: AttachScope) -> Any:  # noqa: ARG002 - the object itself is the request
        return "object"

    def _opener(
        self,
        scope: AttachScope,
        attachment: Attachment,
        enqueue: Callable[[], Handle],  # noqa: ARG002 - as above
    ) -> Callable[[Sequence[Span]], None]:
        """Return what queues the objects of ranges that open, which must pass the predicates as new ones do."""
        informer, priority = attachment.informer, LOW_PRIORITY if self.priority is None else self.priority

        def opened(spans: Sequence[Span]) -> None:
            if informer is None:
                return
            objects = [obj for span in spans for obj in informer.objects_of(span.start, span.end)]
            passing = [obj for obj in objects if _passes(scope, self.predicates, obj)]
            scope.queue.add_many([Request(obj.name, obj.namespace) for obj in passing], priority=priority)

        return opened


def _passes(scope: AttachScope, predicates: Sequence[Any], obj: Object) -> bool:
    """Return whether an object that is new here passes; a predicate of the plugin that raises lets it pass."""
    for predicate in predicates:
        entry = scope.plugin.entries.open("predicate", controller=scope.controller)
        try:
            with entry:
                if not predicate(None, obj):
                    return False
        except Exception:
            log.exception("controller %s: a predicate failed for %s", scope.controller, obj.key)
        finally:
            entry.close()
    return True


@dataclass(frozen=True, slots=True)
class Owns(KindSource):
    """A kind whose objects are owned by objects of `For`'s kind: a change enqueues the owner.

    Owners match by group and kind, in any version. With `controller` only the controlling owner is enqueued, otherwise
    every owner. In a controller of `ctrlhost.Plugin`, `ctx.ensure` writes the kind unless `ensure` is false, and
    `ctx.prune` may delete its objects with `prune`.

    With `track`, a label ties the objects of `ctx.ensure` to the reconciled object instead of an owner reference: for
    cluster-scoped objects of a namespaced owner, and objects in other namespaces. The host adds a finalizer to the
    reconciled objects, and deletes what they track before they go.
    """

    controller: bool = True
    ensure: bool = True
    prune: bool = False
    track: bool = False

    @property
    def owned(self) -> bool:
        """Whether owner references name the reconciled object as the controller."""
        return self.controller and not self.track

    if TYPE_CHECKING:

        @overload
        def __init__(
            self,
            kind: KindRef[Any],
            /,
            *,
            controller: bool = True,
            ensure: bool = True,
            prune: bool = False,
            track: bool = False,
            **options: Unpack[SourceOptions],
        ) -> None: ...
        @overload
        def __init__(
            self,
            api_version: str,
            kind: str,
            *,
            controller: bool = True,
            ensure: bool = True,
            prune: bool = False,
            track: bool = False,
            **options: Unpack[SourceOptions],
        ) -> None: ...
        def __init__(self, *_: Any, **_options: Any) -> None: ...  # noqa: D107

    def check(self, sources: Sequence[Source]) -> str | None:
        """Require a `For`."""
        return None if _has_primary(sources) else "`Owns` needs a `For`, whose objects are the owners"

    def add_lister(self, scope: AttachScope, lister: PluginLister) -> None:
        """Add the lister also to those of the kinds that the controller owns."""
        KindSource.add_lister(self, scope, lister)
        scope.owned.setdefault((self.api_version, self.kind), lister)

    def _mapping(self, scope: AttachScope) -> Any:
        if scope.primary is None:
            return None
        return Owner(scope.primary.api_version, scope.primary.kind, controller=self.controller)


@dataclass(frozen=True, slots=True)
class Watches(KindSource):
    """Any other kind. `map` returns the requests that a change of an object causes; None only reads the kind.

    On an update `map` is called for the old and for the new object, and equal requests are queued once. It runs on the
    callback thread of the plugin and should not block: the other maps, predicates and handlers of the plugin wait for
    it, and the changes of one object are merged meanwhile. An exception is logged and counted, and that object enqueues
    nothing. `ByLabel` and `ByIndex` are the usual maps; they run without entering Python, except for a `ByIndex` whose
    index is a function.

    A `map` of two parameters gets `Caches` as the second one. It is called only when all caches of the controller are
    full, then once for each object that is cached until then, and for each change; with `after_sync` any function is.

    With `ensure`, `ctx.ensure(…, owner=None)` writes the kind in a controller of `ctrlhost.Plugin`: objects without an
    owner, such as those in other namespaces.
    """

    map: Callable[..., Iterable[Request]] | ByLabel | ByIndex | None = None
    after_sync: bool = False
    ensure: bool = False

    if TYPE_CHECKING:

        @overload
        def __init__(
            self,
            kind: type[T],
            /,
            *,
            map: Map[T] = None,
            after_sync: bool = False,
            ensure: bool = False,
            **options: Unpack[SourceOptions],
        ) -> None: ...
        @overload
        def __init__(
            self,
            kind: tuple[str, str] | str,
            /,
            *,
            map: Map[Object] = None,
            after_sync: bool = False,
            ensure: bool = False,
            **options: Unpack[SourceOptions],
        ) -> None: ...
        @overload
        def __init__(
            self,
            api_version: str,
            kind: str,
            *,
            map: Map[Object] = None,
            after_sync: bool = False,
            ensure: bool = False,
            **options: Unpack[SourceOptions],
        ) -> None: ...
        def __init__(self, *_: Any, **_options: Any) -> None: ...  # noqa: D107

    def __post_init__(self) -> None:
        """Reject a map that cannot be called on the callback thread."""
        KindSource.__post_init__(self)
        if self.map is not None and not callable(self.map) and not isinstance(self.map, (ByLabel, ByIndex)):
            raise TypeError(f"map must be callable, got {self.map!r}")
        if inspect.iscoroutinefunction(self.map):
            raise TypeError("map must be a plain function; it runs on the plugin's callback thread")

    @property
    def late(self) -> bool:
        """Whether the map waits for the caches of the controller."""
        return callable(self.map) and (self.after_sync or takes_caches(self.map))

    def check(self, sources: Sequence[Source]) -> str | None:
        """Require the index that a `ByIndex` names."""
        indexes = next((source.indexes for source in sources if isinstance(source, For)), {})
        if isinstance(self.map, ByIndex) and self.map.index not in indexes:
            return f"`ByIndex` needs the index `{self.map.index}` on the controller's `For`"
        return None

    def _mapping(self, scope: AttachScope) -> Any:
        if isinstance(self.map, ByIndex) and scope.primary is not None:
            return _by_index(f"{scope.plugin.name}/{self.map.index}", scope.primary)
        inside = scope.shard_by is not None and not self.shared
        if callable(self.map) and (inside or self.model is not None or takes_caches(self.map)):
            return MapFunction(self.map, self.model, scope, inside=inside)
        return self.map


def _by_index(name: str, informer: Informer) -> Any:
    indexer = informer.indexer
    if isinstance(indexer, _core.Indexer):
        return _core.ByIndex(indexer, name)

    def index(obj: Object) -> list[Request]:
        """Look the object up in a view, or where namespaces have separate caches."""
        while True:
            # A function that hangs holds up its index, and this: requests must not get lost.
            with suppress(Stale):
                return [Request(owner.name, owner.namespace) for owner in indexer.by_index(name, obj.key)]

    return index


@dataclass(frozen=True, slots=True, init=False)
class Every(Source):
    """A timer: each period it enqueues all objects of `For`'s kind, or the requests that `requests()` returns.

    The period is a duration such as `"10m"` or a number of seconds. The first round is after one period, since `For`
    enqueues every object at the start anyway, or with `at_start` when the workers start. Each request of a later round
    is queued with a random delay of its own, up to a tenth of the period, so that they spread. `requests` runs on the
    timer's thread; an exception is logged, and the round is skipped. ValueError or TypeError for an invalid period.
    """

    seconds: float
    requests: Callable[[], Iterable[Request]] | None
    at_start: bool
    priority: int | None

    def __init__(
        self,
        seconds: DurationLike,
        requests: Callable[[], Iterable[Request]] | None = None,
        *,
        at_start: bool = False,
        priority: int | None = None,
    ) -> None:
        """Reject a period that is not a positive, finite duration."""
        period = in_seconds(seconds)
        if not 0 < period < float("inf"):
            raise ValueError(f"Every needs a positive number of seconds, not {seconds!r}")
        values = {"seconds": period, "requests": requests, "at_start": at_start, "priority": priority}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def check(self, sources: Sequence[Source]) -> str | None:
        """Require a `For` if there are no requests."""
        if self.requests is None and not _has_primary(sources):
            return "`Every` without requests needs a `For`, whose objects it queues"
        return None

    def attach(self, scope: AttachScope) -> Attachment:
        """Create the timer, which starts with the workers."""
        return Ticker(scope, self.seconds, self.requests, priority=self.priority, at_start=self.at_start)

    def describe(self) -> str:
        """Return the period."""
        return f"every {self.seconds:g} s"


def _has_primary(sources: Sequence[Source]) -> bool:
    return any(source.is_primary for source in sources)
