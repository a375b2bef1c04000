"""Typed reads from the caches of a controller, relative to the object at hand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar, overload

from ctrlhost.controller.index import Index
from ctrlhost.errors import NotSynced, UndeclaredRead
from ctrlhost.models.kinds import kind_of
from ctrlhost.models.model import decode

if TYPE_CHECKING:
    import builtins

    from ctrlhost.cache import Object
    from ctrlhost.controller.attachment import AttachScope
    from ctrlhost.models.kinds import Kind
    from ctrlhost.own_writes.lister import PluginLister

T = TypeVar("T")

#: The name of the index over the uids of owners, which the sources of `owns` have.
OWNERS = "ctrlhost.owners"
#: The begin of labels with the uid of the owner of an object that has no owner reference.
TRACKED = "tracked.ctrlhost.dev/"


def is_owned_by(obj: Object, uid: str, namespace: str) -> bool:
    """Return whether an owner with this uid and namespace controls the object.

    References stay in their namespace; without one, a label ties an object of `Owns(…, track=True)` to its owner.
    """
    controller = obj.controller
    if controller is None:
        return any(value == uid for name, value in obj.labels.items() if name.startswith(TRACKED))
    return controller.uid == uid and namespace in ("", obj.namespace)


class Namespace(Enum):
    """The namespace of the object at hand."""

    OWN = "own"


OWN: Final = Namespace.OWN


@dataclass(frozen=True, slots=True)
class CachedKind:
    """The cache of one kind, for one plugin."""

    lister: PluginLister
    kind: Kind
    namespaced: bool

    def typed(self, obj: Object) -> Any:
        """Return the object as the kind was declared; InvalidObject if it does not fit the struct."""
        return obj if self.kind.model is None else decode(obj, self.kind.model)


class Cache(Generic[T]):
    """The cached objects of one kind, with the plugin's own writes. For the thread of the run that it belongs to.

    `namespace` is by default that of the object at hand, None means all. `list`, `by_index` and `owned` wait until the
    cache shows the plugin's own writes, and raise Stale after 2 seconds.
    """

    def __init__(self, cached: CachedKind, namespace: str, uid: str) -> None:
        """Read a kind for an object with this namespace and uid."""
        self._cached = cached
        self._owner_namespace = namespace
        self._namespace = namespace if cached.namespaced else ""
        self._uid = uid

    def get(self, name: str, namespace: str | Literal[Namespace.OWN] = OWN) -> T | None:
        """Return one object, or None.

        ValueError for a namespaced kind without a namespace, which a cluster-scoped object at hand does not have.
        """
        wanted = self._namespace if namespace is OWN else namespace
        if self._cached.namespaced and not wanted:
            raise ValueError(f"{self._cached.kind} is namespaced: `get({name!r}, namespace=…)`")
        obj = self._cached.lister.get(name, wanted)
        return None if obj is None else self._cached.typed(obj)

    def list(
        self, namespace: str | Literal[Namespace.OWN] | None = OWN, label_selector: str | None = None
    ) -> builtins.list[T]:
        """Return the objects of a namespace, unordered; ValueError for an invalid selector."""
        return self._typed(self._cached.lister.list(self.namespace(namespace), label_selector))

    def by_index(self, function: Index[T] | str, value: str) -> builtins.list[T]:
        """Return the objects of all namespaces that an index has under `value`; KeyError for another function.

        An index of a source's own `indexes` is given by its name.
        """
        if isinstance(function, Index) and function.kind[:2] != self._cached.kind[:2]:
            # One of its name may be over this kind, too.
            raise KeyError(f"{function!r} is not an index of {self._cached.kind}")
        return self._typed(self._cached.lister.by_index(_name_of(function), value))

    def owned(self) -> builtins.list[T]:
        """Return the objects that the object at hand controls. KeyError for a kind that is not in `owns`."""
        try:
            owned = self._cached.lister.by_index(OWNERS, self._uid)
        except KeyError:
            raise KeyError(f"{self._cached.kind} is not in `owns` of the controller") from None
        return self._typed([obj for obj in owned if is_owned_by(obj, self._uid, self._owner_namespace)])

    async def caught_up(self, namespace: str | None) -> Cache[T]:
        """Return this cache once it shows the plugin's own writes so far, without blocking the event loop.

        Its lists do not wait for later ones, which other tasks may write all the time. Stale after 2 s.
        """
        # Imported late: a plugin that is only declared needs no client.
        from ctrlhost.transport.steps import carry_out_async

        lister = self._cached.lister
        await carry_out_async(lister.catch_up(namespace))
        return Cache(replace(self._cached, lister=lister.without_waiting()), self._owner_namespace, self._uid)

    def namespace(self, namespace: str | Literal[Namespace.OWN] | None) -> str | None:
        """Return the namespace to list, None for all."""
        return (self._namespace or None) if namespace is OWN else namespace

    def _typed(self, objects: builtins.list[Object]) -> builtins.list[T]:
        return [self._cached.typed(obj) for obj in objects]


def _name_of(function: object) -> str:
    return str(getattr(function, "name", None) or getattr(function, "__name__", function))


class Caches:
    """The caches of a plugin, for a map: `caches[Memcached]`, `caches["v1/Secret"]`. For the thread of the map.

    The namespace and the owner of `Cache` are those of the object that is mapped. Its lists do not wait for
    writes of the plugin: Stale would lose the change, and the event of the write is mapped when it comes.
    """

    def __init__(self, scope: AttachScope, obj: Object) -> None:
        """Read what the controllers of a plugin declare, first of all the map's own."""
        self._scope = scope
        self._object = obj

    @property
    def state(self) -> Any:
        """What the plugin's `setup` returned for this host; None without one."""
        return self._scope.plugin.state

    @overload
    def __getitem__(self, kind: type[T]) -> Cache[T]: ...
    @overload
    def __getitem__(self, kind: tuple[str, str] | str) -> Cache[Object]: ...
    def __getitem__(self, kind: Any) -> Cache[Any]:
        """Return the cache of a kind.

        UndeclaredRead for a kind that is no source of the plugin; NotSynced if it is only one of another controller,
        whose cache is not full yet.
        """
        wanted, scope = kind_of(kind), self._scope
        lister = scope.owned.get(wanted[:2]) or scope.listers.get(wanted[:2]) or scope.plugin.listers.get(wanted[:2])
        if lister is None:
            from ctrlhost.controller.undeclared import undeclared_hint

            advice = 'add `ctrlhost.Watches("{api_version}/{kind}")` to `watches=[…]` of its controller'
            hint = undeclared_hint(*wanted[:2], scope.plugin.listers, advice)
            message = f"a map of controller `{scope.controller}` reads {wanted}, which the plugin does not declare"
            # The log of a map's error has no hint.
            raise UndeclaredRead(scope.plugin.name, f"{message}; {hint}", hint=hint)
        if not lister.has_synced:
            hint = f'add `ctrlhost.Watches("{wanted}")` to `watches=[…]` of its controller'
            raise NotSynced(f"controller `{scope.controller}` does not wait for the cache of {wanted}", hint=hint)
        resource = scope.plugin.services.client.resources.last_known(*wanted[:2])
        cached = CachedKind(lister.without_waiting(), wanted, resource is None or resource.namespaced)
        return Cache(cached, self._object.namespace, self._object.uid)
