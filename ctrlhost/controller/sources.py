"""Sources: the objects and timers that trigger a controller, and the kinds that it may read.

A source checks its declaration, attaches to informers and the queue, describes itself, and names the permissions that
it needs. A new kind of source is a subclass of `Source` here and a public name in `ctrlhost`; no other module changes.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypedDict, overload

from ctrlhost import _core
from ctrlhost.client.builtin_kinds import builtin_plural
from ctrlhost.controller.attachment import LOW_PRIORITY, Attachment, AttachScope, LateAttachment
from ctrlhost.controller.map_function import MapFunction, takes_caches
from ctrlhost.controller.ticker import Ticker
from ctrlhost.duration import DurationLike, in_seconds
from ctrlhost.errors import CtrlhostError, PluginLoadError, Stale
from ctrlhost.informers import Owner
from ctrlhost.informers.mappings import ByIndex, ByLabel
from ctrlhost.models.kinds import Kind, KindRef, kind_of
from ctrlhost.own_writes.lister import PluginLister
from ctrlhost.permissions import Permission
from ctrlhost.request import Request
from ctrlhost.selectors.namespaces import NamespaceSelector, narrowed, read

if TYPE_CHECKING:
    from typing import Generic as Parameters
    from typing import Unpack

    from typing_extensions import TypeVar

    from ctrlhost.cache import Object
    from ctrlhost.client import Client
    from ctrlhost.controller.caches import Caches
    from ctrlhost.controller.services import PluginScope, PluginServices
    from ctrlhost.informers import Informer
    from ctrlhost.informers.caller import Caller
    from ctrlhost.informers.handle import Handle
    from ctrlhost.selectors.namespaces import Namespaces

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

#: The cached part of each object: all of it (None), its metadata, or some paths.
Reads: TypeAlias = Literal["metadata"] | Sequence[str] | None
#: The source of an index's values: a path such as `spec.rules[*].host`, or a function.
IndexBy: TypeAlias = "str | Callable[[Object], Iterable[str] | None]"
#: Returns whether a change from the old to the new object triggers the controller; None for adds and deletes.
Predicate: TypeAlias = "Callable[[Object | None, Object | None], bool]"
#: Returns the plural of an apiVersion and kind, and whether the kind is namespaced.
Plural: TypeAlias = Callable[[str, str], tuple[str, bool]]

#: Verbs on a subresource of the kind, such as `("status", ("patch",))`; empty for the kind itself.
Writes: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]

#: Timeout of the request for whether a kind is namespaced, in seconds.
_SCOPE_TIMEOUT = 2.0

#: `list` is the fallback of servers that stream no lists; reads by name are the plugin's own to declare.
_READ = ("list", "watch")
_READ_CRDS = Permission("apiextensions.k8s.io", ["customresourcedefinitions"], _READ)
_READ_NAMESPACES = Permission("", ["namespaces"], _READ)


class Source(ABC):
    """Base class of sources."""

    __slots__ = ()

    #: Whether its objects are the controller's keys.
    is_primary: ClassVar[bool] = False

    def check(self, sources: Sequence[Source]) -> str | None:  # noqa: ARG002 - most can be used with any others
        """Return the problem of this source among all `sources` of its controller, or None."""
        return None

    def declare(self, scope: PluginScope, limit: Sequence[str]) -> None:  # noqa: B027 - most need not
        """Declare the future reads of the source to the informer factory, before any source attaches."""

    @abstractmethod
    def attach(self, scope: AttachScope) -> Attachment:
        """Begin to fill the controller's queue."""

    @abstractmethod
    def describe(self) -> str:
        """Return one line for the controller's status."""

    def permissions(self, plural: Plural, limit: Sequence[str]) -> Iterable[Permission]:  # noqa: ARG002 - as above
        """Return the permissions that the source needs, within the namespaces that `limit` allows."""
        return ()


class SourceOptions(TypedDict, total=False):
    """The options of all sources that watch a kind; see `KindSource`."""

    namespaces: Sequence[str] | None
    label_selector: str | None
    field_selector: str | None
    predicates: Sequence[Any]
    priority: int | None
    reads: Reads
    indexes: Mapping[str, IndexBy]


@dataclass(frozen=True, slots=True)
class KindSource(Source):
    """Base class of sources that watch a kind: `("apps/v1", "Deployment")`, or a `KindRef` in first place.

    `namespaces` None means all of them; otherwise names, globs and `label:SELECTOR` choose among those that exist at
    any time. Selectors have the syntax of the API. A change triggers the controller only if all `predicates` pass it;
    they never hide an object from its lister. `priority` is the priority of the queued keys; None means 0, and -100 for
    the first list and resyncs. `reads` is the part of each object that the controller needs, so that the host caches no
    more than that. `indexes` are private to the plugin. ValueError or TypeError for an invalid value.
    """

    api_version: str
    kind: str = ""
    _: KW_ONLY
    namespaces: Sequence[str] | None = None
    label_selector: str | None = None
    field_selector: str | None = None
    predicates: Sequence[Any] = ()
    priority: int | None = None
    reads: Reads = None
    indexes: Mapping[str, IndexBy] = field(default_factory=dict)
    #: The struct of the kind's objects, if the kind was given as one.
    model: type[Any] | None = None
    #: What the host writes for the plugin, for its permissions.
    writes: Writes = ()
    #: Whether the events of the controller's own writes to this kind, creations and deletions included, enqueue
    #: nothing; None: as the controller says of all its sources.
    suppress_echo: bool | None = None

    def __post_init__(self) -> None:
        """Reject invalid values where the source is created."""
        kind = kind_of(self.api_version, self.kind)
        object.__setattr__(self, "api_version", kind.api_version)
        object.__setattr__(self, "kind", kind.kind)
        if kind.model is not None:
            object.__setattr__(self, "model", kind.model)
        if self.namespaces is not None:
            read(self.namespaces)
            object.__setattr__(self, "namespaces", tuple(self.namespaces))
        for name in ("label_selector", "field_selector"):
            if not isinstance(value := getattr(self, name), str | None):
                raise TypeError(f"{name} must be a string in the syntax of the API, such as 'a=b,c!=d', got {value!r}")
        for name, by in self.indexes.items():
            if not (isinstance(by, str) or callable(by)):
                raise TypeError(f"index `{name}` must be a path or a function, got {by!r}")
        if callable(self.predicates):
            raise TypeError("predicates must be a sequence, not one predicate")
        object.__setattr__(self, "predicates", tuple(self.predicates))
        if isinstance(self.reads, str) and self.reads != "metadata":
            raise ValueError(f'reads must be None, "metadata" or a sequence of paths, not {self.reads!r}')

    @property
    def late(self) -> bool:
        """Whether the queue gets nothing from this source before the caches of the controller are full."""
        return False

    @property
    def reference(self) -> Kind:
        """The kind and its struct."""
        return Kind(self.api_version, self.kind, self.model)

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    def describe(self) -> str:
        """Return the class, kind and apiVersion."""
        return f"{type(self).__name__} {self.kind} ({self.api_version})"

    def declare(self, scope: PluginScope, limit: Sequence[str]) -> None:
        """Declare the reads of the kind, so that a shared informer keeps enough for all of its users."""
        services = scope.services
        wanted = self._scope(services.client, limit, discover=False)
        services.factory.declare(self.api_version, self.kind, **wanted, owner=scope)

    def informer(
        self,
        services: PluginServices,
        limit: Sequence[str],
        *,
        discover: bool,
        transform: Any = None,
        caller: Caller | None = None,
    ) -> Informer:
        """Return the shared informer, or that of the plugin of `caller` if there is a `transform`; release it later.

        With `discover` this may ask the server whether the kind is namespaced; an unknown kind counts as namespaced.
        """
        scope = self._scope(services.client, limit, discover=discover)
        return services.factory.informer(self.api_version, self.kind, **scope, transform=transform, caller=caller)

    def _scope(self, client: Client, limit: Sequence[str], *, discover: bool) -> dict[str, Any]:
        namespaces = narrowed(self.namespaces, limit)
        resource = client.resources.known(self.api_version, self.kind)
        if namespaces is not None and resource is None and discover:
            # The kind is not served yet, or no server answers: the informer retries later.
            with suppress(CtrlhostError):
                resource = client.resource(self.api_version, self.kind, timeout=_SCOPE_TIMEOUT)
        return {
            "namespaces": namespaces if resource is None or resource.namespaced else None,
            "label_selector": self.label_selector,
            "field_selector": self.field_selector,
            "reads": self.cached(),
        }

    def cached(self) -> Reads:
        """Return the parts to cache: those that are read, and those that the index paths need."""
        if self.reads is None or not self.indexes:
            return self.reads
        paths = [by.partition("[")[0] for by in self.indexes.values() if isinstance(by, str)]
        if len(paths) < len(self.indexes):
            # A function may read anything.
            return None
        if self.reads == "metadata":
            return tuple(path for path in paths if not path.startswith("metadata.")) or "metadata"
        return (*self.reads, *paths)

    def attach(self, scope: AttachScope) -> Attachment:
        """Fill the queue from the informer; PluginLoadError if another source has an index of the same name."""
        plugin = scope.plugin
        informer = self.informer(plugin.services, scope.limit, discover=True)
        try:
            indexes = self._add_indexes(plugin, informer)
            pending = plugin.own_writes.follow(self.api_version, self.kind, informer)
            predicates = list(self.predicates)
            suppress = scope.suppress_echo if self.suppress_echo is None else self.suppress_echo
            if scope.self_events is not None and suppress:
                scope.self_events.listen((self.api_version, self.kind), pending)
                predicates.append(scope.self_events.predicate(pending, existence=bool(self.suppress_echo)))
            lister = PluginLister(informer, pending, indexes)
            scope.listers.setdefault((self.api_version, self.kind), lister)
            plugin.listers.setdefault((self.api_version, self.kind), lister)
            if isinstance(self, Owns):
                scope.owned.setdefault((self.api_version, self.kind), lister)
            mapping = self._mapping(scope)

            def enqueue() -> Handle:
                return informer.enqueue_to(
                    scope.queue,
                    key=mapping,
                    predicates=tuple(predicates),
                    priority=self.priority,
                    # An explicit priority also applies to first lists and resyncs.
                    low_priority=LOW_PRIORITY if self.priority is None else self.priority,
                    caller=plugin.caller,
                    controller=scope.controller,
                )

            if mapping is None:
                return Attachment(informer)
            return LateAttachment(informer, enqueue) if self.late else Attachment(informer, enqueue())
        except BaseException:
            informer.release()
            raise

    def _add_indexes(self, plugin: PluginScope, informer: Informer) -> dict[str, str]:
        """Return the names that the indexes have in the informer, which all plugins share."""
        indexed, names = plugin.indexed(informer), {name: f"{plugin.name}/{name}" for name in self.indexes}
        for name, by in self.indexes.items():
            if name not in indexed:
                informer.add_indexers({names[name]: by}, caller=plugin.caller)
                indexed[name] = by
            elif indexed[name] != by:
                message = f"plugin `{plugin.name}`: two sources index {self.kind} by `{name}` differently"
                raise PluginLoadError(plugin.name, message, hint="rename one of the indexes")
        return names

    @abstractmethod
    def _mapping(self, scope: AttachScope) -> Any:
        """Return the mapping from objects to requests: one of the core, a function, or None for no requests."""

    def permissions(self, plural: Plural, limit: Sequence[str]) -> Iterator[Permission]:
        """Return the permissions to watch the kind, and those that its namespaces and its CRD require."""
        resource, namespaced = plural(self.api_version, self.kind)
        wanted = narrowed(self.namespaces, limit)
        if wanted == ():
            return
        permission = Permission(self.group, [resource], _READ, self._names())
        yield from permissions_in(permission, wanted, namespaced=namespaced)
        for subresource, verbs in self.writes:
            name = f"{resource}/{subresource}" if subresource else resource
            yield from permissions_in(Permission(self.group, [name], verbs), wanted, namespaced=namespaced)
        if builtin_plural(self.api_version, self.kind) is None:
            # CRDs are watched to notice at once when the kind is installed or removed.
            yield _READ_CRDS

    def _names(self) -> tuple[str, ...]:
        """Return the only name that the source selects, if it selects by name: RBAC allows such lists and watches."""
        parts = (part.replace("==", "=").partition("=") for part in (self.field_selector or "").split(","))
        return tuple(name.strip() for field, _, name in parts if field.strip() == "metadata.name")


def permissions_in(permission: Permission, namespaces: Namespaces, *, namespaced: bool) -> Iterator[Permission]:
    """Return `permission` for each of the namespaces; for all namespaces if they depend on a selector."""
    if namespaces is None or not namespaced:
        yield permission
    elif isinstance(namespaces, NamespaceSelector):
        # The host reads all namespaces to find those that the selector chooses.
        yield permission
        yield _READ_NAMESPACES
    else:
        for namespace in namespaces:
            yield replace(permission, namespace=namespace)


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
        if sum(one.is_primary for one in sources) > 1:
            return "it has more than one `For`; use `Watches` with a map for further kinds"
        return None

    def attach(self, scope: AttachScope) -> Attachment:
        """Attach, and set the informer as the controller's primary one."""
        attachment = KindSource.attach(self, scope)
        scope.primary = attachment.informer
        return attachment

    def _mapping(self, scope: AttachScope) -> Any:  # noqa: ARG002 - the object itself is the request
        return "object"


@dataclass(frozen=True, slots=True)
class Owns(KindSource):
    """A kind whose objects are owned by objects of `For`'s kind: a change enqueues the owner.

    Owners match by group and kind, in any version. With `controller` only the controlling owner is enqueued, otherwise
    every owner. In a controller of `ctrlhost.Plugin`, `ctx.ensure` writes the kind unless `ensure` is false, and
    `ctx.prune` may delete its objects with `prune`.
    """

    controller: bool = True
    ensure: bool = True
    prune: bool = False

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
            **options: Unpack[SourceOptions],
        ) -> None: ...
        def __init__(self, *_: Any, **_options: Any) -> None: ...  # noqa: D107

    def check(self, sources: Sequence[Source]) -> str | None:
        """Require a `For`."""
        return None if _has_primary(sources) else "`Owns` needs a `For`, whose objects are the owners"

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
    """

    map: Callable[..., Iterable[Request]] | ByLabel | ByIndex | None = None
    after_sync: bool = False

    if TYPE_CHECKING:

        @overload
        def __init__(
            self, kind: type[T], /, *, map: Map[T] = None, after_sync: bool = False, **options: Unpack[SourceOptions]
        ) -> None: ...
        @overload
        def __init__(
            self,
            kind: tuple[str, str] | str,
            /,
            *,
            map: Map[Object] = None,
            after_sync: bool = False,
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
        indexes = next((one.indexes for one in sources if isinstance(one, For)), {})
        if isinstance(self.map, ByIndex) and self.map.index not in indexes:
            return f"`ByIndex` needs the index `{self.map.index}` on the controller's `For`"
        return None

    def _mapping(self, scope: AttachScope) -> Any:
        if isinstance(self.map, ByIndex) and scope.primary is not None:
            return _by_index(f"{scope.plugin.name}/{self.map.index}", scope.primary)
        if callable(self.map) and (self.model is not None or takes_caches(self.map)):
            return MapFunction(self.map, self.model, scope)
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
                return [Request(found.name, found.namespace) for found in indexer.by_index(name, obj.key)]

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
    return any(one.is_primary for one in sources)
