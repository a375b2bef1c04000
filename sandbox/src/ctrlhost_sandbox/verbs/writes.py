"""Create and update, the only way to store objects."""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING, Any, NoReturn

from ctrlhost_sandbox.admission import chain, objects, quotas
from ctrlhost_sandbox.admission.request import CREATE, UPDATE
from ctrlhost_sandbox.apimachinery import status, suspension
from ctrlhost_sandbox.apimachinery.names import name_causes
from ctrlhost_sandbox.apimachinery.status import Cause, Failure, Raced, bad_request
from ctrlhost_sandbox.kinds import strategy_of
from ctrlhost_sandbox.patch import managed
from ctrlhost_sandbox.registry import meta, views
from ctrlhost_sandbox.schema import go_text
from ctrlhost_sandbox.verbs import owner_rights

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.patch.managed import Manager
    from ctrlhost_sandbox.registry.operation import Operation
    from ctrlhost_sandbox.registry.registry import Kind
    from ctrlhost_sandbox.storage.store import Snapshot

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
_NAME_ATTEMPTS = 8
_ADMITTED_APART = ("binding", "scale")
"""Sub-resources with objects of their own, which their callers admit."""


@dataclasses.dataclass(slots=True)
class WriteResult:
    """The result of a write; `raw` is the stored JSON, if the client gets it unchanged."""

    code: int
    obj: Object
    raw: bytes | None = None


def decode_type(operation: Operation, obj: Any, *, found_first: bool = False) -> Object:
    """Check that the body is an object of the request's kind and version.

    `found_first` leaves another custom kind to the caller, which looks for the object first.
    """
    kind = operation.kind
    if type(obj) is not dict:
        raise bad_request(f"the request body must be an object of kind {kind.kind}")
    for key in ("apiVersion", "kind"):
        if type(value := obj.get(key)) not in (str, type(None)):
            why = f"json: cannot unmarshal {go_text.json_kind(value)} into Go struct field .{key} of type string"
            raise bad_request(f"couldn't get version/kind; json parse error: {why}")
    if kind.custom is not None and not obj.get("kind"):
        raise bad_request("Object 'Kind' is missing in the request body")
    if kind.custom is not None and not obj.get("apiVersion"):
        raise bad_request("Object 'apiVersion' is missing in the request body")
    version, name = obj.get("apiVersion") or kind.api_version, obj.get("kind") or kind.kind
    if version != kind.api_version and (version != "/" or kind.custom is not None):
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
        )
    if name != kind.kind and kind.custom is None:
        raise bad_request(f"the kind in the data ({name}) does not match the expected kind ({kind.kind})")
    if name != kind.kind and operation.subresource != "status" and not found_first:
        raise _wrong_kind(operation, obj, name)
    obj["apiVersion"], obj["kind"] = kind.api_version, kind.kind
    return obj


def _wrong_kind(operation: Operation, obj: Object, name: str) -> Failure:
    kind = operation.kind
    cause = status.invalid_value("kind", name, f"must be {kind.kind}")
    return status.invalid(name, kind.group, str(meta.ensure_metadata(obj).get("name", "")), [cause])


def create(context: ServerContext, operation: Operation, body: Any) -> WriteResult:
    """Store a new object."""
    kind = operation.kind
    if context.authorizer is not None and operation.verb != "create":
        # An update or apply that creates the object also needs the right to create.
        context.authorizer.require_verb(operation, "create")
    obj = decode_type(operation, body)
    versioned = meta.is_versioned(meta.ensure_metadata(obj))
    meta.place(operation, obj)
    strategy = strategy_of(kind)
    ignored = kind.has_status and "status" in obj and not strategy.keeps_status
    obj = objects.conform_object(operation, obj)
    if ignored:
        # What is sent must fit its type, but is not stored.
        del obj["status"]
        obj = objects.conform_object(operation, obj)
    decoding = len(operation.warnings)
    metadata = obj["metadata"]
    if kind.custom is not None and kind.custom.terminating:
        why = "create not allowed while custom resource definition is terminating"
        raise status.forbidden(kind.plural, kind.group, metadata.get("name", ""), why)
    _check_namespace(context, operation, metadata)
    table = context.store.table(kind.table)
    wanted = copy.deepcopy(obj.get("spec") or {}) if strategy.allocates else None
    objects.default_object(operation, obj)
    if chain.mutates(context):
        obj = chain.mutate(context, operation, obj, None)
        meta.place(operation, obj)
        metadata = obj["metadata"]
    _name(context, operation, metadata)
    meta.initialize(metadata, generation=kind.generation)
    strategy.prepare_create(context, operation, obj)
    name = metadata.get("name", "")
    causes = [*name_causes(kind.name_rule, name, metadata.get("generateName", ""))]
    causes += meta.causes(kind, metadata, operation.warnings)
    causes += objects.causes(context, operation, obj, None, causes)
    if causes:
        raise _invalid(operation, name, causes, decoding)
    charges = chain.validate(context, operation, CREATE, obj, None)
    if suspension.possible():
        # Its namespace may have been deleted while webhooks were called.
        _check_namespace(context, operation, metadata)
    if versioned and not operation.dry_run:
        raise Failure(500, "", "resourceVersion should not be set on objects to be created")
    existing = table.get(metadata.get("namespace", ""), name)
    if existing is not None:
        prefix = "object is being deleted: " if "deletionTimestamp" in existing.decode()["metadata"] else ""
        raise status.already_exists(kind.plural, kind.group, name, prefix)
    if wanted is None:
        managed.track_create(operation, obj)
    else:
        tracked = strategy.tracked(obj, wanted)
        managed.track_create(operation, tracked)
        if "managedFields" in tracked["metadata"]:
            metadata["managedFields"] = tracked["metadata"]["managedFields"]
    obj = views.settled(kind, obj, with_nulls=operation.applies)
    owner_rights.note(context, operation, metadata, None)
    if operation.dry_run:
        return WriteResult(201, obj)
    snapshot = store(context, kind, obj)
    quotas.charge(context, charges)
    strategy.stored(context, obj, None)
    return WriteResult(201, obj, snapshot.raw if views.is_stored_form(kind, snapshot) else None)


def _invalid(operation: Operation, name: str, causes: list[Cause], decoding: int) -> Failure:
    """Return a 422; of the warnings only those of decoding remain, as in a real server."""
    del operation.warnings[decoding:]
    return status.invalid(operation.kind.kind, operation.kind.group, name, causes)


def _check_namespace(context: ServerContext, operation: Operation, metadata: dict[str, Any]) -> None:
    if not operation.kind.namespaced:
        return
    snapshot = context.store.table("namespaces").get("", operation.namespace)
    if snapshot is None:
        raise status.not_found("namespaces", "", operation.namespace)
    namespace = snapshot.decode()
    if "deletionTimestamp" in namespace["metadata"]:
        text = f"namespace {operation.namespace} is being terminated"
        cause = Cause("NamespaceTerminating", text, "metadata.namespace")
        why = f"unable to create new content in namespace {operation.namespace} because it is being terminated"
        raise status.forbidden(operation.kind.plural, operation.kind.group, metadata.get("name", ""), why, [cause])


def _name(context: ServerContext, operation: Operation, metadata: dict[str, Any]) -> None:
    """Generate a name, if only its prefix was given."""
    prefix = metadata.get("generateName", "")
    if metadata.get("name") or not prefix:
        return
    table = context.store.table(operation.kind.table)
    for _ in range(_NAME_ATTEMPTS):
        metadata["name"] = meta.generate(prefix)
        if table.get(metadata.get("namespace", ""), metadata["name"]) is None:
            return
    failure = status.already_exists(operation.kind.plural, operation.kind.group, metadata["name"])
    failure.retry_after = 1
    raise failure


def update(context: ServerContext, operation: Operation, body: Any) -> WriteResult:
    """Replace an object."""
    kind = operation.kind
    sent = body.get("kind") if type(body) is dict else None
    obj, managers = _conform(operation, decode_type(operation, body, found_first=True))
    metadata = obj["metadata"]
    meta.check_name(operation, metadata)
    meta.place(operation, obj)
    old = context.store.table(kind.table).get(operation.namespace, operation.name)
    if old is None:
        if kind.creates_on_update and operation.subresource in ("", "status"):
            metadata.pop("resourceVersion", None)
            if uid := metadata.get("uid"):
                why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: "
                raise status.conflict(kind.plural, kind.group, operation.name, why)
            # It is a creation like any other, also below /status, but there nothing is allocated.
            allocates = not operation.subresource
            return create(context, dataclasses.replace(operation, subresource="", allocates=allocates), obj)
        raise status.not_found(kind.plural, kind.group, operation.name)
    if not metadata.get("resourceVersion") and kind.needs_version:
        check_preconditions(kind, old, metadata)
        require_version(operation)
    if sent not in (None, "", kind.kind) and operation.subresource != "status":
        raise _wrong_kind(operation, obj, sent)
    return _replace(context, operation, old, views.load(kind, old), obj, sent_managers=managers)


def require_version(operation: Operation) -> NoReturn:
    """Raise 422 for an update without a version, of a kind that needs one."""
    cause = status.invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
    raise status.invalid(operation.kind.plural, operation.kind.group, operation.name, [cause])


def _conform(operation: Operation, obj: Object) -> tuple[Object, Any]:
    """Return the object as decoding leaves it, without a version that means none, and managedFields as sent."""
    metadata = meta.ensure_metadata(obj)
    if metadata.get("resourceVersion") == "0":
        del metadata["resourceVersion"]
    entries = metadata.pop("managedFields", None)
    return objects.conform_object(operation, obj), entries


def check_preconditions(kind: Kind, snapshot: Snapshot, metadata: dict[str, Any]) -> None:
    """Compare the sent uid and resourceVersion with the stored ones; 409 if they differ."""
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    if uid and uid != snapshot.uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {snapshot.uid}"
        raise status.conflict(kind.plural, kind.group, snapshot.name, why)
    if version and not (version.isascii() and version.isdigit()):
        raise Failure(500, "", f"strconv.ParseUint: parsing {status.show(version)}: invalid syntax")
    if version and version != str(snapshot.revision):
        raise status.conflict(kind.plural, kind.group, snapshot.name, MODIFIED)


def check_current(context: ServerContext, kind: Kind, snapshot: Snapshot) -> None:
    """Raise Raced if the object is another one by now: other requests go on while webhooks are called."""
    if suspension.possible() and context.store.table(kind.table).get(snapshot.namespace, snapshot.name) is not snapshot:
        name = status.qualified(kind.plural, kind.group)
        raise Raced(409, "Conflict", f'Operation cannot be fulfilled on {name} "{snapshot.name}": {MODIFIED}')


def replace(
    context: ServerContext,
    operation: Operation,
    snapshot: Snapshot,
    old: Object,
    obj: Object,
    *,
    managers: list[Manager] | None = None,
    check: Callable[[Operation, Object], None] | None = None,
) -> WriteResult:
    """Replace `old` by `obj`, as far as the sub-resource allows; `managers` are its new entries, if known.

    `check` is called with the metadata of a patched object. Another uid is no failed precondition.
    """
    obj, sent = _conform(operation, obj)
    if check is not None:
        check(operation, obj["metadata"])
    uid = obj["metadata"].pop("uid", None) or snapshot.uid
    # A real server checks it twice.
    causes = [] if uid == snapshot.uid else [status.invalid_value("metadata.uid", uid, "field is immutable")] * 2
    return _replace(context, operation, snapshot, old, obj, sent_managers=sent, managers=managers, causes=causes)


def _replace(
    context: ServerContext,
    operation: Operation,
    snapshot: Snapshot,
    old: Object,
    obj: Object,
    *,
    sent_managers: Any,
    managers: list[Manager] | None = None,
    causes: Sequence[Cause] = (),
) -> WriteResult:
    kind = operation.kind
    decoding = len(operation.warnings)
    check_preconditions(kind, snapshot, obj["metadata"])
    is_admitted = operation.subresource not in _ADMITTED_APART
    if is_admitted and chain.mutates(context):
        objects.default_object(operation, obj)
        obj = chain.mutate(context, operation, obj, old)
    metadata, before = obj["metadata"], old["metadata"]
    metadata["name"] = operation.name
    causes = [*causes, *meta.keep_identity(metadata, before)]
    if kind.custom is not None and operation.subresource == "status":
        # Such a write takes no metadata.
        causes = []
    metadata["resourceVersion"] = before["resourceVersion"]
    strategy = strategy_of(kind)
    if operation.subresource in ("status", "approval"):
        if kind.custom is not None:
            # The rest of the object gets no defaults of this version.
            objects.default_object(operation, obj)
        obj = strategy.only_status(kind, obj, old)
    elif kind.has_status and operation.subresource != "binding":
        obj["status"] = old.get("status")
        if obj["status"] is None:
            del obj["status"]
    if kind.custom is None or operation.subresource != "status":
        objects.default_object(operation, obj)
    strategy.prepare_update(context, operation, obj, old)
    metadata = obj["metadata"]
    causes += meta.causes(kind, metadata, operation.warnings)
    causes += objects.causes(context, operation, obj, old, causes)
    if causes:
        raise _invalid(operation, operation.name, causes, decoding)
    charges = chain.validate(context, operation, UPDATE, obj, old) if is_admitted else []
    check_current(context, kind, snapshot)
    if "managedFields" in before:
        metadata["managedFields"] = copy.deepcopy(before["managedFields"])
    if operation.subresource not in ("status", "binding") and objects.generation_grows(kind, obj, old):
        metadata["generation"] = before.get("generation", 0) + 1
    if managers is not None:
        managed.write(obj, managers)
    else:
        managed.track_update(operation, obj, old, sent_managers)
    owner_rights.note(context, operation, metadata, before)
    obj = views.settled(kind, obj, with_nulls=operation.applies)
    if managed.unchanged(obj, old) and not views.is_outdated(kind, snapshot):
        return WriteResult(200, old, snapshot.raw if views.is_stored_form(kind, snapshot) else None)
    finished = _is_finished(obj)
    if finished:
        remove(context, operation, snapshot, old)
    if finished or operation.dry_run:
        return WriteResult(200, obj)
    stored = store(context, kind, obj)
    quotas.charge(context, charges)
    strategy.stored(context, obj, old)
    return WriteResult(200, obj, stored.raw if views.is_stored_form(kind, stored) else None)


def _is_finished(obj: Object) -> bool:
    """Return whether nothing delays the deletion of a terminating object any longer."""
    metadata = obj["metadata"]
    return (
        "deletionTimestamp" in metadata
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not (obj["kind"] == "Namespace" and (obj.get("spec") or {}).get("finalizers"))
    )


def remove(context: ServerContext, operation: Operation, snapshot: Snapshot, old: Object) -> None:
    """Remove an object from the store, unless the operation is a dry run."""
    if not operation.dry_run:
        context.store.remove(context.store.table(operation.kind.table), snapshot)
        strategy_of(operation.kind).deleted(context, old)


def store(context: ServerContext, kind: Kind, obj: Object) -> Snapshot:
    """Store an object in its storage version."""
    stored, marker = views.to_storage(kind, obj)
    snapshot = context.store.write(context.store.table(kind.table), stored, marker)
    # The stored form may be another object.
    obj["metadata"]["resourceVersion"] = str(snapshot.revision)
    return snapshot
