"""`ctx.prune`: delete the owned objects of a kind that are no longer wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ctrlhost.client import Client
from ctrlhost.controller.caches import OWNERS, is_owned_by
from ctrlhost.controller.context import owned_lister
from ctrlhost.declarative import managed_fields
from ctrlhost.declarative.tracked import Tracked
from ctrlhost.errors import NotFound
from ctrlhost.models.kinds import kind_of
from ctrlhost.models.typed_objects import mapping_of
from ctrlhost.request import Request
from ctrlhost.transport.steps import steps_of

if TYPE_CHECKING:
    from ctrlhost.cache import Object
    from ctrlhost.controller.context import Context
    from ctrlhost.controller.sources import Owns
    from ctrlhost.declarative.owned_kinds import OwnedKinds
    from ctrlhost.models.kinds import Kind, KindRef
    from ctrlhost.models.typed_objects import AnyObject
    from ctrlhost.transport.steps import Steps


def prune(
    owned: OwnedKinds,
    context: Context[Any, Any],
    reconciled: Object | None,
    reference: KindRef[Any],
    keep: Iterable[AnyObject | str],
) -> Steps[list[Request]]:
    """Delete what the reconciled object controls of a kind and `keep` does not name; return what was deleted.

    UndeclaredRead or PluginError for a kind that may not be deleted, Stale if the cache does not show the plugin's own
    writes in time, Conflict if an object has changed since.
    """
    kind = kind_of(reference)
    source = owned.to_prune(kind.api_version, kind.kind)
    kept = _names(kind, keep)
    if reconciled is None:
        # The garbage collector deletes what the object owned, and its finalizer what it tracked.
        return []
    return (yield from _delete(context, reconciled, source, kept))


def delete_tracked(owned: OwnedKinds, context: Context[Any, Any], owner: Object) -> Steps[None]:
    """Delete all that the owner tracks, because it is being deleted. Raises as `prune` does."""
    for source in owned.tracked:
        yield from _delete(context, owner, source, {})


def _delete(
    context: Context[Any, Any], reconciled: Object, source: Owns, kept: dict[str | None, set[str]]
) -> Steps[list[Request]]:
    kind = source.reference
    lister = owned_lister(context, kind.api_version, kind.kind)
    yield from lister.catch_up()
    pruned = []
    for child in sorted(lister.without_waiting().by_index(OWNERS, reconciled.uid), key=lambda owned: owned.key):
        is_kept = child.name in kept.get(None, ()) or child.name in kept.get(child.namespace, ())
        is_owned = is_owned_by(child, reconciled.uid, reconciled.namespace)
        if is_kept or child.deletion_timestamp is not None or not is_owned:
            continue
        preconditions = {"uid": child.uid, "resourceVersion": child.resource_version}
        if isinstance(source, Tracked) and not (yield from _is_applied(context, child)):
            continue
        try:
            yield from steps_of(Client.delete)(
                context.client,
                kind.api_version,
                kind.kind,
                child.name,
                child.namespace or None,
                propagation="Background",
                preconditions=preconditions,
            )
        except NotFound:
            continue
        pruned.append(Request(child.name, child.namespace))
        note = f"deleted {kind.kind} {child.key}"
        context.log.info("%s", note)
        context.events.normal(reconciled, "Pruned", note, action="Delete", related=child)
    return pruned


def _is_applied(context: Context[Any, Any], child: Object) -> Steps[bool]:
    """Return whether the plugin has applied a tracked object: anybody can write its label."""
    manager = context.client.field_manager
    stored = yield from steps_of(Client.find)(
        context.client, child.api_version, child.kind, child.name, child.namespace or None
    )
    if stored is None or managed_fields.is_applied_by(stored, manager):
        return stored is not None
    context.log.warning("kept %s %s: %s has never applied it", child.kind, child.key, manager)
    return False


def _names(kind: Kind, keep: Iterable[AnyObject | str]) -> dict[str | None, set[str]]:
    """Return the names to keep by namespace, None for those of any; TypeError or ValueError for what names nothing."""
    if isinstance(keep, (str, Mapping)):
        raise TypeError(f"keep is a list of objects or names, not {keep!r}")
    names: dict[str | None, set[str]] = {}
    own = (_group(kind.api_version), kind.kind)
    for kept in keep:
        if isinstance(kept, str):
            namespace, _, name = kept.rpartition("/")
            names.setdefault(namespace or None, set()).add(name)
            continue
        try:
            obj = mapping_of(kept)
        except TypeError as error:
            raise TypeError(f"keep is a list of objects or names: {error}") from None
        if (_group(obj.get("apiVersion", kind.api_version)), obj.get("kind", kind.kind)) != own:
            continue
        metadata = obj.get("metadata") or {}
        if not metadata.get("name"):
            raise ValueError(f"keep has a {kind.kind} without metadata.name")
        names.setdefault(metadata.get("namespace") or None, set()).add(metadata["name"])
    return names


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]
