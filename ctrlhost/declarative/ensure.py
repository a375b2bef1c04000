"""`ctx.ensure`: apply an object that the reconciled one owns, if and only if that changes something."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ctrlhost.cache import Object
from ctrlhost.client import Client
from ctrlhost.client.owner import owner_reference
from ctrlhost.controller.context import owned_lister
from ctrlhost.declarative import managed_fields
from ctrlhost.declarative.child import Child
from ctrlhost.declarative.desired import annotation_of, desired_of, encode, is_digest
from ctrlhost.declarative.rivals import Rivals
from ctrlhost.declarative.settled import Settled
from ctrlhost.declarative.tracked import Tracked, marked, owner_of
from ctrlhost.declarative.unchanged import Unchanged
from ctrlhost.errors import BadRequest, Forbidden, Invalid, NotFound, NotOwned, ServerError
from ctrlhost.models.typed_objects import mapping_of
from ctrlhost.transport.steps import steps_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import EllipsisType
    from typing import TypeAlias

    from ctrlhost.cache import OwnerReference
    from ctrlhost.controller.context import Context
    from ctrlhost.declarative.comparison import Leaf
    from ctrlhost.declarative.desired import Desired
    from ctrlhost.declarative.owned_kinds import OwnedKinds
    from ctrlhost.errors import ApiError
    from ctrlhost.models.typed_objects import AnyObject
    from ctrlhost.transport.steps import Steps

if TYPE_CHECKING:
    #: Whether to take over an object that nobody controls, or what decides that of the live one.
    Adopt: TypeAlias = bool | Callable[[Object], bool]

_OWNERS = "metadata.ownerReferences"
#: How a server refuses an object: a field, a right or a quota, a namespace or kind that does not exist.
_REFUSALS = (Invalid, BadRequest, Forbidden, NotFound)
#: How a server refuses, with status 500, an object that has a field which the kind lacks, or a value of another type.
_UNTYPED = "failed to create typed patch object"
#: What to do where the garbage collector takes no owner reference.
_TRACK = (
    'track it by a label with `owns=[ctrlhost.Owns("{desired.api_version}/{desired.kind}", track=True)]`, '
    "or pass `owner=None`"
)


class Ensure:
    """Applies what one controller owns. Callable from any thread."""

    def __init__(self, owned: OwnedKinds) -> None:
        """Apply objects of the kinds that `owned` allows."""
        self._owned = owned
        self._annotation = annotation_of(owned.plugin)
        self._settled = Settled()
        self._rivals = Rivals()
        self._unchanged = Unchanged()

    def steps(
        self,
        context: Context[Any, Any],
        reconciled: Object | None,
        obj: AnyObject,
        *,
        owner: AnyObject | EllipsisType | None = ...,
        adopt: Adopt = False,
    ) -> Steps[Object]:
        """Return the live object after at most one change; `owner` is the reconciled object by default.

        UndeclaredRead or PluginError for a kind that may not be written, ValueError for an invalid object or owner,
        NotOwned if somebody else controls the object, or nobody does and `adopt` is false.
        """
        encoded, key = encode(obj), None
        if reconciled is not None and owner is ... and adopt is False:
            key = Unchanged.key(reconciled, encoded)
            unchanged = self._unchanged.find(context, key)
            if unchanged is not None:
                return unchanged
        desired = desired_of(obj, encoded)
        source = self._owned.to_ensure(desired.api_version, desired.kind, owned=owner is not None)
        if isinstance(source, Tracked) and owner is not None:
            child = yield from self._tracked(context, reconciled, desired, source.mark, owner)
        else:
            child = yield from self._child(context, reconciled, desired, owner)
        live = yield from _live(context, child)
        if live is None:
            return (yield from self._create(context, child))
        adopted = self._check_owner(context, child, live, adopt=adopt)
        leaves = yield from _differing(context, child, live)
        if not leaves or self._settled.include(live.uid, child.left(leaves)):
            if key is not None:
                self._unchanged.keep(key, child, live)
            return live
        self._check_rivals(context, child, live)
        if child.owner is not None and not (yield from _is_kept(context, child.owner)):
            if child.is_orphan(live):
                raise NotOwned(f"{child} has no controller, and cannot be adopted: its owner is gone or being deleted")
            return live
        if not (yield from self._prepare(context, child, live, adopted=adopted)):
            return (yield from self._create(context, child))
        return (yield from self._apply(context, child, live, leaves))

    def _child(
        self,
        context: Context[Any, Any],
        reconciled: Object | None,
        desired: Desired,
        owner: AnyObject | EllipsisType | None,
    ) -> Steps[Child]:
        """Return the object with its owner and its namespace; ValueError if the owner cannot own it."""
        resources = context.client.resources
        resource = resources.known(desired.api_version, desired.kind)
        if resource is None:
            resource = yield from steps_of(Client.resource)(context.client, desired.api_version, desired.kind)
        owning: Mapping[str, Any] | None = reconciled
        if owner is ...:
            if reconciled is None:
                raise ValueError(f"{desired} has no owner: {context.request} is gone; pass `owner=`")
        else:
            owning = None if owner is None else mapping_of(owner)
        uid, owned_from = ("", "") if owning is None else _identity(owning)
        namespace = desired.namespace
        if not resource.namespaced and owned_from:
            # Perhaps its CRD was replaced by another one.
            resource = yield from context.client.refreshed(resource)
        if not resource.namespaced:
            if owned_from:
                raise ValueError(
                    f"{desired} is cluster-scoped and cannot be owned from namespace {owned_from}: the garbage "
                    f"collector would never delete it; {_TRACK.format(desired=desired)}"
                )
            return Child(desired, owning, uid, "", reconciled, self._annotation)
        if owned_from and namespace and namespace != owned_from:
            raise ValueError(
                f"{desired} in namespace {namespace} cannot be owned from namespace {owned_from}: the garbage "
                f"collector would delete it; {_TRACK.format(desired=desired)}"
            )
        namespace = namespace or owned_from or (context.request.namespace if context.request is not None else "")
        if not namespace:
            resource = yield from context.client.refreshed(resource)
            if not resource.namespaced:
                return Child(desired, owning, uid, "", reconciled, self._annotation)
            raise ValueError(f"{desired} needs metadata.namespace: its owner has none")
        return Child(desired, owning, uid, namespace, reconciled, self._annotation)

    def _tracked(
        self,
        context: Context[Any, Any],
        reconciled: Object | None,
        desired: Desired,
        mark: str,
        owner: AnyObject | EllipsisType,
    ) -> Steps[Child]:
        """Return the object that a label ties to the reconciled one; ValueError for another owner."""
        if reconciled is None or (owner is not ... and _identity(mapping_of(owner))[0] != reconciled.uid):
            raise ValueError(
                f"{desired} can be tracked by the reconciled object only, as `track=True` of its kind says"
            )
        child = yield from self._child(context, reconciled, marked(desired, mark, reconciled), None)
        return replace(child, mark=mark)

    def _check_owner(self, context: Context[Any, Any], child: Child, live: Object, *, adopt: Adopt) -> bool:
        """Return whether the live object is adopted; NotOwned if it may not be written."""
        controller = live.controller
        if controller is not None:
            if controller.uid not in child.owners:
                raise _not_owned(child, controller)
            return False
        other = child.tracked_by_other(live)
        tracker = owner_of(live, child.mark) if other else None
        cached = context.get(tracker) if tracker is not None else None
        if cached is not None and cached.uid == other:
            raise NotOwned(f"{child} is tracked by {cached.kind} {cached.key}")
        if adopt(live) if callable(adopt) else adopt:
            return True
        # Without an owner, the annotation tells that the object is the plugin's; `_prepare` proves it.
        if child.owner is None and not other and self._annotation in live.annotations:
            return False
        if other:
            hint = "`ctx.ensure(…, adopt=True)` takes it over"
            raise NotOwned(f"{child} is tracked by an owner that is gone: {tracker}, uid {other}", hint=hint)
        raise NotOwned(
            f"{child} exists and has no controller", hint="`ctx.ensure(…, adopt=True)` makes it an owned object"
        )

    def _check_rivals(self, context: Context[Any, Any], child: Child, live: Object) -> None:
        """Raise NotOwned if another host has applied something else over what this one has applied lately."""
        digest = live.annotations.get(self._annotation, "")
        if is_digest(digest) and self._rivals.have(live.uid, digest, context.clock.now()):
            raise NotOwned(
                f"{child} is applied otherwise by another version of plugin {self._owned.plugin}",
                hint="run both hosts with leader election, or stop one of them",
            )

    def _prepare(self, context: Context[Any, Any], child: Child, live: Object, *, adopted: bool) -> Steps[bool]:
        """Prove or move the ownership of fields before an apply; return whether the object still exists.

        The cache has no `managedFields`. NotOwned if only the annotation says that the object is the plugin's.
        """
        unproven = child.owner is None and live.controller is None and not adopted
        foreign = adopted and self._annotation not in live.annotations
        changed = child.desired.initial is not None and not child.is_applied(live)
        if not (unproven or foreign or changed):
            return True
        stored = yield from _find(context, child)
        if stored is None:
            return False
        manager = context.client.field_manager
        if unproven and not managed_fields.is_applied_by(stored, manager):
            raise NotOwned(
                f"{child} has the annotation {self._annotation}, but {manager} has never applied it",
                hint="`ctx.ensure(…, adopt=True)` takes it over",
            )
        if foreign:
            entries = managed_fields.taken_over(stored, child.desired.content, manager)
            stored = yield from _move_fields(context, child, stored, entries)
        if changed:
            yield from self._release(context, child, stored)
        return True

    def _create(self, context: Context[Any, Any], child: Child) -> Steps[Object]:
        """Apply an object that does not exist; with unmanaged values, these first and then without them.

        If the host ends in between, the annotation has no digest yet, so that the next run goes on.
        """
        if child.desired.initial is not None:
            answer = yield from self._send(context, child, child.content(initial=True))
            if context.dry_run:
                return Object(answer)
            yield from self._release(context, child, answer)
        return (yield from self._apply(context, child, None, []))

    def _release(self, context: Context[Any, Any], child: Child, stored: dict[str, Any]) -> Steps[None]:
        """Release the unmanaged fields: an apply without them would remove them."""
        managed, full = child.desired.content, child.desired.initial or {}
        try:
            entries = managed_fields.released(stored, managed, full, context.client.field_manager)
        except ValueError as error:
            raise ValueError(f"{child}: {error}") from None
        yield from _move_fields(context, child, stored, entries)

    def _send(self, context: Context[Any, Any], child: Child, content: dict[str, Any]) -> Steps[dict[str, Any]]:
        try:
            return (yield from steps_of(Client.apply)(context.client, content, force=True))
        except (*_REFUSALS, ServerError) as error:
            if isinstance(error, _REFUSALS) or _UNTYPED in error.message:
                yield from self._refused(context, child, error)
            raise

    def _apply(
        self, context: Context[Any, Any], child: Child, live: Object | None, leaves: list[Leaf]
    ) -> Steps[Object]:
        applied = Object((yield from self._send(context, child, child.content())))
        self._rivals.applied(applied.uid, child.desired.digest, context.clock.now())
        left = yield from _differing(context, child, applied)
        self._settled.keep(applied.uid, child.left(left) if left else None)
        if live is None:
            child.record(context, "Created", f"created {child}", applied)
        elif left != leaves:
            adopted, repaired = child.is_orphan(live), child.is_applied(live)
            reason = "Adopted" if adopted else "Repaired" if repaired else "Updated"
            changed = child.changed([leaf for leaf in leaves if leaf not in left])
            child.record(context, reason, f"{reason.lower()} {child}{changed}", applied)
        return applied

    def _refused(self, context: Context[Any, Any], child: Child, error: ApiError) -> Steps[None]:
        """Raise NotOwned if another owner was first; else record why the server refuses the object."""
        if child.owner is not None and any(str(cause.get("field", "")).startswith(_OWNERS) for cause in error.causes):
            stored = yield from _read(context, child)
            controller = None if stored is None else stored.controller
            if controller is not None and controller.uid != child.uid:
                raise _not_owned(child, controller) from error
        if child.reconciled is not None:
            note = f"{child}: {_first_cause(error)}"
            context.events.warning(child.reconciled, "ApplyFailed", note, action="Apply")


def _differing(context: Context[Any, Any], child: Child, live: Object) -> Steps[list[Leaf]]:
    """Return what differs in the live object; without the schema of its kind, more may seem to."""
    client, kind = context.client, (child.desired.api_version, child.desired.kind)
    schema = client.schemas.known(*kind)
    leaves = child.differing(live, schema)
    if leaves and schema is None:
        schema = yield from client.schemas.read(client.discovery, *kind)
        leaves = child.differing(live, schema) if schema is not None else leaves
    return leaves


def _live(context: Context[Any, Any], child: Child) -> Steps[Object | None]:
    """Return the object from the cache, else from the server: the cache may be narrowed, or behind."""
    desired = child.desired
    cached = owned_lister(context, desired.api_version, desired.kind).get(desired.name, child.namespace)
    return cached if cached is not None else (yield from _read(context, child))


def _read(context: Context[Any, Any], child: Child) -> Steps[Object | None]:
    stored = yield from _find(context, child)
    return None if stored is None else Object(stored)


def _find(context: Context[Any, Any], child: Child) -> Steps[dict[str, Any] | None]:
    """Return the object as the server has it, with its `managedFields`."""
    desired, namespace = child.desired, child.namespace or None
    return (
        yield from steps_of(Client.find)(context.client, desired.api_version, desired.kind, desired.name, namespace)
    )


def _move_fields(
    context: Context[Any, Any], child: Child, stored: dict[str, Any], entries: list[dict[str, Any]] | None
) -> Steps[dict[str, Any]]:
    """Write the entries of `managedFields`, if there are any; return the object as it is now. Raises Conflict."""
    if entries is None:
        return stored
    patch = {"metadata": {"managedFields": entries, "resourceVersion": stored["metadata"]["resourceVersion"]}}
    desired, namespace = child.desired, child.namespace or None
    return (
        yield from steps_of(Client.patch)(
            context.client, desired.api_version, desired.kind, desired.name, namespace, patch
        )
    )


def _is_kept(context: Context[Any, Any], owner: Mapping[str, Any]) -> Steps[bool]:
    """Return whether the server still has the owner and is not deleting it, which the cache may not show yet.

    A deletion that orphans takes the references away. With a new one, the object would be deleted after all. The owner
    is listed by its name: to list its kind is a right that every controller has.
    """
    reference = owner_reference(owner)
    page = yield from context.client.page_steps(
        reference["apiVersion"],
        reference["kind"],
        _identity(owner)[1] or None,
        None,
        field_selector=f"metadata.name={reference['name']}",
    )
    kept = (item["metadata"] for item in page.get("items") or () if not item["metadata"].get("deletionTimestamp"))
    return reference["uid"] in [metadata["uid"] for metadata in kept]


def _identity(owner: Mapping[str, Any]) -> tuple[str, str]:
    """Return uid and namespace of an owner; ValueError if it is not an object as the server sent it."""
    if isinstance(owner, Object) and owner.uid:
        return owner.uid, owner.namespace
    reference = owner_reference(owner)
    return reference["uid"], owner["metadata"].get("namespace") or ""


def _not_owned(child: Child, controller: OwnerReference) -> NotOwned:
    owner = child.owner or {}
    named = (owner.get("kind"), (owner.get("metadata") or {}).get("name"))
    # An owner that was made again: the garbage collector deletes what the former one owned.
    former = "a former " if named == (controller.kind, controller.name) else ""
    return NotOwned(f"{child} is controlled by {former}{controller.kind} {controller.name}")


def _first_cause(error: ApiError) -> str:
    if not error.causes:
        return error.message
    cause = error.causes[0]
    return ": ".join(str(cause[part]) for part in ("field", "message") if cause.get(part)) or error.message
