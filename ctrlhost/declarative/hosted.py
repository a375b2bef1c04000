"""A declared controller in one host: its sources and its caches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ctrlhost.controller.caches import OWNERS, CachedKind
from ctrlhost.controller.context import owned_lister
from ctrlhost.controller.sources import Every, For, Owns, Watches
from ctrlhost.controller.status_shape import shape_of
from ctrlhost.controller.undeclared import undeclared_hint
from ctrlhost.declarative.checks import resolve_options
from ctrlhost.declarative.conflicts import Conflicts
from ctrlhost.declarative.ensure import Ensure
from ctrlhost.declarative.events import OnceMemory
from ctrlhost.declarative.finalizers import Finalizer, ObjectFinalizers, collect_finalizers
from ctrlhost.declarative.leftovers import Leftovers, leftover_source
from ctrlhost.declarative.owned_kinds import OwnedKinds, writes_of, writes_of_owner
from ctrlhost.declarative.status_patch import StatusPatches
from ctrlhost.declarative.tracked import mark_of, tracked_source
from ctrlhost.errors import PluginLoadError, UndeclaredRead
from ctrlhost.models.kinds import kind_of
from ctrlhost.models.model import decode
from ctrlhost.predicates import and_, desired_state_changed, or_

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctrlhost.cache import Object
    from ctrlhost.controller.context import Context
    from ctrlhost.controller.index import Index
    from ctrlhost.controller.source import KindSource, Source, Writes
    from ctrlhost.declarative.declaration import Declaration, DeclaredController
    from ctrlhost.models.kinds import KindRef
    from ctrlhost.plugin.context import PluginContext


class HostedController:
    """One declared controller in one host. Its state is here and in the context of the plugin, not in the plugin."""

    def __init__(
        self,
        controller: DeclaredController,
        host: PluginContext,
        declaration: Declaration,
        crds: Sequence[Mapping[str, Any]],
    ) -> None:
        """Read the declaration; errors are those of `ctrlhost.For` and its like.

        `crds` are those of the plugin. PluginLoadError if the CRD of a model with a status has no status subresource.
        """
        self.host = host
        self.controller = controller
        self.options = resolve_options(controller.declared, host)
        declared_kind = self.options["kind"]
        self.kind = declared_kind.reference if isinstance(declared_kind, For) else kind_of(declared_kind)
        #: Whether the function is also called for objects that are gone or being deleted.
        self.gone = bool(self.options.get("gone", False))
        #: The status of the runs, their finalizers, and the events that they record once.
        reads = declared_kind.reads if isinstance(declared_kind, For) else None
        cached = reads is None or (reads != "metadata" and "status" in reads)
        where = self.options.get("status", "subresource")
        if where not in ("subresource", "object"):
            problem = f'controller {controller.name}: status must be "subresource" or "object", got {where!r:.80}'
            raise PluginLoadError(host.name, problem)
        in_object = where == "object"
        shape = shape_of(host.name, *self.kind, crds, in_object=in_object)
        observed = shape.observed_generation and not in_object
        self.shape = replace(shape, cached=cached, in_object=in_object, observed_generation=observed)
        self.statuses = StatusPatches(self.shape)
        declared_finalizers = collect_finalizers(controller, declaration.finalizers)
        #: Whether the author's functions finalize objects.
        self.finalizes = bool(declared_finalizers)
        self._owns = [own if isinstance(own, Owns) else Owns(own) for own in self.options.get("owns") or ()]
        #: The finalizer of the host itself, which deletes what the objects track; its function is never called.
        self.tracking: Finalizer | None = None
        if any(own.track for own in self._owns):
            self.tracking = Finalizer(mark_of(host.name, controller.name), controller.declared)
        # Last: as with owner references, the author's functions run before the objects go.
        own = () if self.tracking is None else (self.tracking,)
        self.finalizers = ObjectFinalizers((*declared_finalizers, *own))
        self.events = OnceMemory()
        self.conflicts = Conflicts()
        self._indexes = declaration.indexes
        #: The sources that watch a kind.
        self.kinds = [_indexed(source, self._indexes) for source in self._kinds()]
        self.owned = OwnedKinds(host.name, f"{host.name}/{controller.name}", self.kinds)
        #: What has the finalizers though the controller does not select it.
        self.leftovers = Leftovers(self.finalizers.names, self.owned)
        self.ensure = Ensure(self.owned)
        self._caches: dict[tuple[str, str, type[Any] | None], CachedKind] = {}

    def read(self, source: Watches) -> None:
        """Read a kind that the controller does not declare itself; before it is registered."""
        self.kinds.append(_indexed(source, self._indexes))

    def sources(self) -> list[Source]:
        """Return the sources, with the timer of `every`, and what finds finalizers of objects that are not selected."""
        every = self.options.get("every")
        timers = [Every(every)] if every is not None else []
        return [*self.kinds, *timers, *([leftover_source(self.kinds[0], self.leftovers)] if self.finalizers else [])]

    def _kinds(self) -> list[KindSource]:
        owns = self._owns
        primary = self._primary()
        sources: list[KindSource] = [replace(primary, writes=(*primary.writes, *writes_of_owner(owns)))]
        for own in owns:
            indexes = {**own.indexes, OWNERS: "metadata.ownerReferences[*].uid"}
            writes = (*own.writes, *writes_of(own))
            suppress = True if own.suppress_echo is None else own.suppress_echo
            source = replace(own, indexes=indexes, writes=writes, suppress_echo=suppress)
            if own.track:
                source = tracked_source(source, mark_of(self.host.name, self.controller.name))
            sources.append(source)
        for watch in self.options.get("watches") or ():
            watches = watch if isinstance(watch, Watches) else Watches(watch)
            sources.append(replace(watches, after_sync=True, writes=(*watches.writes, *writes_of(watches))))
        return sources

    def _primary(self) -> For[Any]:
        declared, predicates = self.options["kind"], self.options.get("predicates")
        source = declared if isinstance(declared, For) else For(declared)
        if predicates is None:
            predicates = source.predicates or None
        if predicates is None:
            # The host's own changes of the finalizers wake nobody.
            own = tuple(sorted(self.finalizers.names))
            changed = replace(desired_state_changed, finalizers=own)
            # Without a Python function, the core decides alone.
            predicates = (or_(changed, self.finalizers.is_due) if self.finalizers.are_several else changed,)
        elif predicates and self.finalizers:
            # The author's own may drop that the object is being deleted, or leaves: it would stay forever.
            predicates = (or_(and_(*predicates), self.finalizers.is_due),)
        return replace(source, predicates=tuple(predicates), writes=(*source.writes, *self._writes()))

    def _writes(self) -> Writes:
        """Return what the host writes of the reconciled kind: its finalizers, and the status where it is declared."""
        finalizers: Writes = (("", ("patch",)),) if self.finalizers else ()
        if self.shape.in_object:
            return (("", ("patch",)),)
        return (*finalizers, ("status", ("patch",))) if self.shape.declared else finalizers

    def typed(self, obj: Object) -> Any:
        """Return an object of the reconciled kind as its struct."""
        return obj if self.kind.model is None else decode(obj, self.kind.model)

    def cached(self, reference: KindRef[Any], context: Context[Any, Any]) -> CachedKind:
        """Return the cache of a source's kind, as `owns` selects it if it is owned; UndeclaredRead for others."""
        kind = kind_of(reference)
        cached = self._caches.get(kind)
        if cached is None:
            if not any((source.api_version, source.kind) == kind[:2] for source in self.kinds):
                declared = ", ".join(dict.fromkeys(str(source.reference) for source in self.kinds))
                raise UndeclaredRead(
                    self.host.name,
                    f"controller `{context.controller}` reads {kind} without declaring it; it declares {declared}",
                    hint=undeclared_hint(
                        *kind[:2],
                        [source.reference[:2] for source in self.kinds],
                        'add it to `@plugin.controller(…, watches=["{api_version}/{kind}"])`, or to `owns=` for '
                        "`ctx.ensure`",
                    ),
                )
            cached = CachedKind(owned_lister(context, kind.api_version, kind.kind), kind, namespaced=True)
        # A CRD may be replaced by one with another scope.
        resource = self.host.client.resources.last_known(kind.api_version, kind.kind)
        namespaced = resource is None or resource.namespaced
        self._caches[kind] = cached = (
            replace(cached, namespaced=namespaced) if cached.namespaced != namespaced else cached
        )
        return cached


def _indexed(source: KindSource, indexes: Sequence[Index[Any]]) -> KindSource:
    """Return the source with the indexes of its kind."""
    own: dict[str, Any] = {
        index.name: index.over_objects for index in indexes if index.kind[:2] == source.reference[:2]
    }
    return replace(source, indexes={**source.indexes, **own}) if own else source
