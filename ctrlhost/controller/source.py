"""The base classes of sources: what every source does, and what those do that watch a kind.

A source checks its declaration, attaches to informers and the queue, describes itself, and names the permissions that
it needs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypedDict

from ctrlhost.client.builtin_kinds import builtin_plural
from ctrlhost.controller.attachment import LOW_PRIORITY, Attachment, AttachScope, LateAttachment
from ctrlhost.errors import CtrlhostError, PluginLoadError
from ctrlhost.models.kinds import Kind, kind_of
from ctrlhost.own_writes.lister import PluginLister
from ctrlhost.permissions import Permission
from ctrlhost.selectors import fields
from ctrlhost.selectors.namespaces import NamespaceSelector, narrowed, read

if TYPE_CHECKING:
    from ctrlhost.cache import Object
    from ctrlhost.client import Client
    from ctrlhost.config.settings import ShardBy
    from ctrlhost.controller.services import PluginScope, PluginServices
    from ctrlhost.coordination.ownership import Span
    from ctrlhost.informers import Informer
    from ctrlhost.informers.caller import Caller
    from ctrlhost.informers.handle import Handle
    from ctrlhost.selectors.namespaces import Namespaces

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

    def declare(  # noqa: B027 - most need not
        self, scope: PluginScope, limit: Sequence[str], shard_by: ShardBy | None = None
    ) -> None:
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
    shared: bool


@dataclass(frozen=True, slots=True)
class KindSource(Source):
    """Base class of sources that watch a kind: `("apps/v1", "Deployment")`, or a `KindRef` in first place.

    `namespaces` None means all of them; otherwise names, globs and `label:SELECTOR` choose among those that exist at
    any time. Selectors have the syntax of the API. A change triggers the controller only if all `predicates` pass it;
    they never hide an object from its lister. `priority` is the priority of the queued keys; None means 0, and -100 for
    the first list and resyncs. `reads` is the part of each object that the controller needs, so that the host caches no
    more than that. `indexes` are private to the plugin. With `shared` a source of a sharded controller is read whole on
    every replica; then `reads` is by default the metadata. ValueError or TypeError for an invalid value.
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
    #: Whether every replica reads all of it, although the controller is sharded.
    shared: bool = False

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
        if self.shared and self.reads is None:
            object.__setattr__(self, "reads", "metadata")
        if isinstance(self.reads, str) and self.reads != "metadata":
            raise ValueError(f'reads must be None, "metadata" or a sequence of paths, not {self.reads!r}')

    @property
    def owned(self) -> bool:
        """Whether each of its objects names the reconciled object as its controller."""
        return False

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

    def declare(self, scope: PluginScope, limit: Sequence[str], shard_by: ShardBy | None = None) -> None:
        """Declare the reads of the kind, so that a shared informer keeps enough for all of its users."""
        services = scope.services
        wanted = self._scope(services.client, limit, shard_by, discover=False)
        services.factory.declare(self.api_version, self.kind, **wanted, owner=scope)

    def informer(
        self,
        services: PluginServices,
        limit: Sequence[str],
        shard_by: ShardBy | None = None,
        *,
        discover: bool,
        transform: Any = None,
        caller: Caller | None = None,
    ) -> Informer:
        """Return the shared informer, or that of the plugin of `caller` if there is a `transform`; release it later.

        With `discover` this may ask the server whether the kind is namespaced; an unknown kind counts as namespaced.
        """
        scope = self._scope(services.client, limit, shard_by, discover=discover)
        return services.factory.informer(self.api_version, self.kind, **scope, transform=transform, caller=caller)

    def _scope(
        self, client: Client, limit: Sequence[str], shard_by: ShardBy | None, *, discover: bool
    ) -> dict[str, Any]:
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
            "shard_by": self._shard_by(shard_by),
        }

    def _shard_by(self, by: ShardBy | None) -> Literal["namespace", "name", "uid", "owner"] | None:
        """Return what the part of its objects that a replica reads goes by; None for all of them."""
        if by is None or self.shared:
            return None
        return "owner" if by == "uid" and not self.is_primary else by

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
        informer = self.informer(plugin.services, scope.limit, scope.shard_by, discover=True)
        try:
            indexes = self._add_indexes(plugin, informer)
            pending = plugin.own_writes.follow(self.api_version, self.kind, informer)
            predicates = list(self.predicates)
            suppress = scope.suppress_echo if self.suppress_echo is None else self.suppress_echo
            if scope.self_events is not None and suppress:
                scope.self_events.listen((self.api_version, self.kind), pending)
                predicates.append(scope.self_events.predicate(pending, existence=bool(self.suppress_echo)))
            lister = PluginLister(informer, pending, indexes)
            self.add_lister(scope, lister)
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
            attachment = LateAttachment(informer, enqueue) if self.late else Attachment(informer, enqueue())
            if scope.shard_by is not None:
                attachment.opened = self._opener(scope, attachment, enqueue)
            return attachment
        except BaseException:
            informer.release()
            raise

    def _opener(
        self, scope: AttachScope, attachment: Attachment, enqueue: Callable[[], Handle]
    ) -> Callable[[Sequence[Span]], None]:
        """Return what queues the requests of ranges that open: of all cached objects, unless `For` has those to run."""
        return (lambda _: None) if scope.primary is not None else (lambda _: attachment.renew(enqueue))

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

    def add_lister(self, scope: AttachScope, lister: PluginLister) -> None:
        """Make the lister the one of its kind, unless an earlier source of the controller or of the plugin did."""
        scope.listers.setdefault((self.api_version, self.kind), lister)
        scope.plugin.listers.setdefault((self.api_version, self.kind), lister)

    @abstractmethod
    def _mapping(self, scope: AttachScope) -> Any:
        """Return the mapping from objects to requests: one of the core, a function, or None for no requests."""

    def permissions(self, plural: Plural, limit: Sequence[str]) -> Iterator[Permission]:
        """Return the permissions to watch the kind, and those that its namespaces and its CRD require."""
        resource, namespaced = plural(self.api_version, self.kind)
        wanted = narrowed(self.namespaces, limit)
        if wanted == ():
            return
        permission = Permission(self.group, [resource], _READ, self.selected_names())
        yield from permissions_in(permission, wanted, namespaced=namespaced)
        for subresource, verbs in self.writes:
            name = f"{resource}/{subresource}" if subresource else resource
            yield from permissions_in(Permission(self.group, [name], verbs), wanted, namespaced=namespaced)
        if builtin_plural(self.api_version, self.kind) is None:
            # CRDs are watched to notice at once when the kind is installed or removed.
            yield _READ_CRDS

    def selected_names(self) -> tuple[str, ...]:
        """Return the only name that the source selects, if it selects by name: RBAC allows such lists and watches."""
        try:
            requirements = fields.parse(self.field_selector or "")
        except ValueError:
            # The server says so.
            return ()
        return tuple(part.value for part in requirements if part.path == "metadata.name" and not part.negated)


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
