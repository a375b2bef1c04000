"""Finalizers of objects that a controller no longer selects: found by a watch of metadata, and taken off.

A controller that selects objects by label or field, or whose namespaces are selected by label or glob, loses objects
that still have its finalizers. Nobody would call their functions, and the deletion of the objects would never end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctrlhost.controller.attachment import LOW_PRIORITY, Attachment
from ctrlhost.controller.source import KindSource
from ctrlhost.declarative.finalizers import write_finalizers
from ctrlhost.declarative.owned_kinds import OwnedKinds
from ctrlhost.declarative.prune import delete_tracked
from ctrlhost.selectors.namespaces import NamespaceSelector, narrowed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ctrlhost.cache import Object
    from ctrlhost.client import Client
    from ctrlhost.config.settings import ShardBy
    from ctrlhost.controller.attachment import AttachScope
    from ctrlhost.controller.context import Context
    from ctrlhost.controller.services import PluginScope
    from ctrlhost.controller.source import Plural
    from ctrlhost.informers import Informer
    from ctrlhost.permissions import Permission
    from ctrlhost.request import Request
    from ctrlhost.transport.steps import Steps


class Leftovers:
    """The finalizers of one controller on objects that it does not select. Callable from any thread."""

    def __init__(self, names: frozenset[str], owned: OwnedKinds) -> None:
        """Know the names of the finalizers, and the tracked kinds; `watch` says where the objects are."""
        self.names = names
        self._owned = owned
        self._source: LeftoverSource | None = None
        self._informer: Informer | None = None
        self._namespaces: NamespaceSelector | None = None

    def watch(self, source: LeftoverSource, informer: Informer, namespaces: NamespaceSelector | None) -> None:
        """Read the objects from `informer`; `source` and `namespaces` tell which ones the controller selects."""
        self._source, self._informer, self._namespaces = source, informer, namespaces

    @property
    def _tracking(self) -> frozenset[str]:
        """The finalizer of an object whose children are deleted with it."""
        return frozenset(source.mark for source in self._owned.tracked)

    def held_by(self, obj: Object) -> bool:
        """Return whether an object has one of the finalizers that is to come off."""
        names = self.names if obj.deletion_timestamp is not None else self.names - self._tracking
        return any(name in names for name in obj.finalizers)

    def release(self, context: Context[Any, Any]) -> Steps[None]:
        """Take the finalizers off the object of the run, which the controller's cache does not have.

        The server decides whether the controller selects it: one cache may be ahead of the other. Raises Conflict.
        """
        if self._source is None or self._informer is None:
            return
        key, source, client = context.request, self._source, context.client
        cached = self._informer.lister.get(key.name, key.namespace)
        if cached is None or not self.held_by(cached):
            return
        obj = yield from self._find(client, key, None, None)
        if obj is None or not self.held_by(obj):
            return
        if (yield from self._is_in_selected_namespace(client, key)) and (
            yield from self._find(client, key, source.selected_labels, source.selected_fields)
        ):
            return
        names = self.names
        if obj.deletion_timestamp is None:
            # What it tracks stays as long as it does.
            names -= self._tracking
        else:
            yield from delete_tracked(self._owned, context, obj)
        removed = [name for name in obj.finalizers if name in names]
        yield from write_finalizers(client, obj, [name for name in obj.finalizers if name not in names])
        record_removal(context, obj, removed, "the controller no longer selects the object")

    def _find(
        self, client: Client, key: Request, label_selector: str | None, field_selector: str | None
    ) -> Steps[Object | None]:
        """Return the server's object if the selectors select it; a list, which the rights of the controller allow."""
        from ctrlhost.cache import Object

        source = self._source
        if source is None:
            return None
        by_name = f"metadata.name={key.name}"
        fields = f"{by_name},{field_selector}" if field_selector else by_name
        page = yield from client.page_steps(
            source.api_version,
            source.kind,
            key.namespace or None,
            None,
            label_selector=label_selector,
            field_selector=fields,
        )
        return next((Object(item) for item in page["items"]), None)

    def _is_in_selected_namespace(self, client: Client, key: Request) -> Steps[bool]:
        if self._namespaces is None or not key.namespace:
            return True
        fields = f"metadata.name={key.namespace}"
        page = yield from client.page_steps("v1", "Namespace", None, None, field_selector=fields)
        return any(
            self._namespaces.selects(key.namespace, item["metadata"].get("labels") or {}) for item in page["items"]
        )


@dataclass(frozen=True, slots=True)
class LeftoverSource(KindSource):
    """All objects of the reconciled kind that may have a finalizer of the controller, as metadata.

    It attaches only where the controller selects some objects of a kind, or some namespaces that may change. Its own
    watch keeps the names of all objects, and the metadata of those that have such a finalizer. It needs no rights
    beyond those of the controller's `For`.
    """

    #: The selectors of the controller's `For`.
    selected_labels: str | None = None
    selected_fields: str | None = None
    leftovers: Leftovers = field(default_factory=lambda: Leftovers(frozenset(), OwnedKinds("", "", ())))
    #: The host drops what other replicas run.
    shared: bool = True

    def declare(self, scope: PluginScope, limit: Sequence[str], shard_by: ShardBy | None = None) -> None:
        """Declare nothing: the controller must not become a view of this watch, which keeps nearly nothing."""

    def permissions(self, plural: Plural, limit: Sequence[str]) -> Any:  # noqa: ARG002 - those of `For` are enough
        """Return nothing: `For` may read and patch all of these objects."""
        permissions: Iterable[Permission] = ()
        return permissions

    def attach(self, scope: AttachScope) -> Attachment:
        """Watch the objects, unless the controller selects all that it may see for good."""
        chosen = narrowed(self.namespaces, scope.limit)
        namespaces = chosen if isinstance(chosen, NamespaceSelector) else None
        if namespaces is None and not self.selected_labels and not self.selected_fields:
            return Attachment()
        plugin = scope.plugin
        informer = plugin.services.factory.informer(
            self.api_version,
            self.kind,
            namespaces=chosen if isinstance(chosen, tuple) else None,
            field_selector=self.field_selector,
            reads="metadata",
            transform=_kept(self.leftovers),
            caller=plugin.caller,
        )
        try:
            self.leftovers.watch(self, informer, namespaces)
            handle = informer.enqueue_to(
                scope.queue,
                key="object",
                predicates=(self._is_left(scope.primary),),
                low_priority=LOW_PRIORITY,
                caller=plugin.caller,
                controller=scope.controller,
            )
            return Attachment(informer, handle)
        except BaseException:
            informer.release()
            raise

    def _is_left(self, primary: Informer | None) -> Callable[[Object | None, Object | None], bool]:
        """Return the predicate: an object has a finalizer, and the controller's cache does not have it.

        If that cache has it still, the controller runs when the object leaves it.
        """

        def is_left(_old: Object | None, new: Object | None) -> bool:
            if new is None or not self.leftovers.held_by(new):
                return False
            return primary is None or primary.lister.get(new.name, new.namespace) is None

        return is_left

    def _mapping(self, scope: AttachScope) -> Any:  # noqa: ARG002 - `attach` is its own
        return "object"


def leftover_source(primary: KindSource, leftovers: Leftovers) -> LeftoverSource:
    """Return the source of objects that `primary` may no longer select."""
    # An object keeps its name, and the rights may be for this name only.
    names = primary.selected_names()
    return LeftoverSource(
        primary.api_version,
        primary.kind,
        namespaces=primary.namespaces,
        field_selector=f"metadata.name={names[0]}" if names else None,
        selected_labels=primary.label_selector,
        selected_fields=primary.field_selector,
        leftovers=leftovers,
    )


def record_removal(context: Context[Any, Any], obj: Object, names: Sequence[str], why: str) -> None:
    """Record the event about finalizers that were taken off without a call of their functions."""
    text = f"removed {', '.join(names)}: {why}"
    context.events.normal(obj, "FinalizerRemoved", text, action="Reconcile")


def _kept(leftovers: Leftovers) -> Callable[[Object], Object | Mapping[str, Any]]:
    def kept(obj: Object) -> Object | Mapping[str, Any]:
        if leftovers.held_by(obj):
            return obj
        metadata = {"name": obj.name, "uid": obj.uid, "resourceVersion": obj.resource_version}
        if obj.namespace:
            metadata["namespace"] = obj.namespace
        return {"apiVersion": obj.api_version, "kind": obj.kind, "metadata": metadata}

    return kept
