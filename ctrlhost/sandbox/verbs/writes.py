"""Create and update, the one way in which objects get into the store."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.apimachinery import status
from ctrlhost.sandbox.apimachinery.names import metadata_causes, name_causes
from ctrlhost.sandbox.apimachinery.status import Cause, Failure, bad_request
from ctrlhost.sandbox.kinds import strategy_of
from ctrlhost.sandbox.patch import managed
from ctrlhost.sandbox.registry import meta, views
from ctrlhost.sandbox.verbs import admission

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.context import Engine
    from ctrlhost.sandbox.registry.operation import Call
    from ctrlhost.sandbox.registry.registry import Kind
    from ctrlhost.sandbox.storage.store import Snapshot

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
_NAME_ATTEMPTS = 8


@dataclass(slots=True)
class Written:
    """What a write answers with; `raw` is the stored JSON where it is what the client gets."""

    code: int
    obj: Object
    raw: bytes | None = None


def decode_type(call: Call, obj: Any) -> Object:
    """Check that the body is an object of the request's kind and version."""
    kind = call.kind
    if type(obj) is not dict:
        raise bad_request(f"the request body must be an object of kind {kind.kind}")
    if kind.custom is not None and not obj.get("kind"):
        raise bad_request("Object 'Kind' is missing in the request body")
    if kind.custom is not None and not obj.get("apiVersion"):
        raise bad_request("Object 'apiVersion' is missing in the request body")
    version, name = obj.get("apiVersion") or kind.api_version, obj.get("kind") or kind.kind
    if version != kind.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
        )
    if name != kind.kind:
        if kind.custom is not None:
            cause = status.invalid_value("kind", name, f"must be {kind.kind}")
            raise status.invalid(kind.kind, kind.group, str(meta.metadata_of(obj).get("name", "")), [cause])
        raise bad_request(f"the kind in the data ({name}) does not match the expected kind ({kind.kind})")
    obj["apiVersion"], obj["kind"] = kind.api_version, kind.kind
    return obj


def create(engine: Engine, call: Call, body: Any) -> Written:
    """Store a new object."""
    kind = call.kind
    if engine.authorizer is not None and call.verb != "create":
        # An update or an apply of what is not there: whoever may change need not have the right to make.
        engine.authorizer.require_call(call, "create")
    obj = decode_type(call, body)
    sent = meta.metadata_of(obj)
    if sent.get("resourceVersion"):
        raise Failure(500, "", "resourceVersion should not be set on objects to be created")
    meta.place(call, obj)
    if kind.has_status:
        obj.pop("status", None)
    obj = admission.conform_object(call, obj)
    metadata = obj["metadata"]
    _check_namespace(engine, call, metadata)
    table = engine.store.table(kind.table)
    _name(engine, call, metadata)
    meta.begin(metadata, generation=kind.generation)
    strategy = strategy_of(kind)
    asked = copy.deepcopy(obj.get("spec")) if strategy.allocates else None
    admission.default_object(call, obj)
    strategy.prepare_create(engine, call, obj)
    causes = name_causes(kind.name_rule, metadata.get("name", "")) + metadata_causes(metadata, call.warnings)
    causes += admission.causes(engine, call, obj, None)
    name = metadata.get("name", "")
    if causes:
        raise status.invalid(kind.kind, kind.group, name, causes)
    existing = table.get(metadata.get("namespace", ""), name)
    if existing is not None:
        prefix = "object is being deleted: " if "deletionTimestamp" in existing.decode()["metadata"] else ""
        raise status.already_exists(kind.plural, kind.group, name, prefix)
    managed.track_create(call, obj if asked is None else strategy.tracked(obj, asked))
    if call.dry_run:
        return Written(201, obj)
    snapshot = _store(engine, kind, obj)
    strategy.created(engine, obj)
    return Written(201, obj, snapshot.raw if views.is_stored_form(kind, snapshot) else None)


def _check_namespace(engine: Engine, call: Call, metadata: dict[str, Any]) -> None:
    if not call.kind.namespaced:
        return
    found = engine.store.table("namespaces").get("", call.namespace)
    if found is None:
        raise status.not_found("namespaces", "", call.namespace)
    namespace = found.decode()
    if "deletionTimestamp" in namespace["metadata"]:
        text = f"namespace {call.namespace} is being terminated"
        cause = Cause("NamespaceTerminating", text, "metadata.namespace")
        why = f"unable to create new content in namespace {call.namespace} because it is being terminated"
        raise status.forbidden(call.kind.plural, call.kind.group, metadata.get("name", ""), why, [cause])


def _name(engine: Engine, call: Call, metadata: dict[str, Any]) -> None:
    """Make a name where only its beginning was given."""
    prefix = metadata.get("generateName", "")
    if metadata.get("name") or not prefix:
        return
    table = engine.store.table(call.kind.table)
    for _ in range(_NAME_ATTEMPTS):
        metadata["name"] = meta.generate(prefix)
        if table.get(metadata.get("namespace", ""), metadata["name"]) is None:
            return
    failure = status.already_exists(call.kind.plural, call.kind.group, metadata["name"])
    failure.retry_after = 1
    raise failure


def update(engine: Engine, call: Call, body: Any) -> Written:
    """Replace an object."""
    kind = call.kind
    obj = decode_type(call, body)
    meta.place(call, obj)
    metadata = meta.metadata_of(obj)
    named = metadata.get("name") or call.name
    if named != call.name:
        raise bad_request(f"the name of the object ({named}) does not match the name on the URL ({call.name})")
    metadata["name"] = call.name
    old = engine.store.table(kind.table).get(call.namespace, call.name)
    if old is None:
        if kind.creates_on_update and not call.subresource:
            metadata.pop("resourceVersion", None)
            return create(engine, call, obj)
        raise status.not_found(kind.plural, kind.group, call.name)
    if not metadata.get("resourceVersion") and kind.needs_version:
        cause = status.invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
        failure = status.invalid(kind.plural, kind.group, call.name, [cause])
        raise failure
    return replace(engine, call, old, views.load(kind, old), obj)


def check_preconditions(kind: Kind, snapshot: Snapshot, metadata: dict[str, Any]) -> None:
    """Compare uid and resourceVersion of what was sent with what is stored; 409 where they differ."""
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    if uid and uid != snapshot.uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {snapshot.uid}"
        raise status.conflict(kind.plural, kind.group, snapshot.name, why)
    if version and version != str(snapshot.revision):
        raise status.conflict(kind.plural, kind.group, snapshot.name, MODIFIED)


def replace(
    engine: Engine,
    call: Call,
    snapshot: Snapshot,
    old: Object,
    obj: Object,
    *,
    manage: Callable[[Object, Object], None] | None = None,
) -> Written:
    """Commit `obj` in place of `old`, as far as the sub-resource lets it change anything."""
    kind = call.kind
    sent_metadata = meta.metadata_of(obj)
    check_preconditions(kind, snapshot, sent_metadata)
    sent_managed = sent_metadata.pop("managedFields", None)
    obj = admission.conform_object(call, obj)
    metadata, before = obj["metadata"], old["metadata"]
    metadata["name"] = call.name
    causes = meta.keep_identity(metadata, before)
    metadata["resourceVersion"] = before["resourceVersion"]
    strategy = strategy_of(kind)
    if call.subresource == "status":
        obj = strategy.only_status(kind, obj, old)
    elif kind.has_status and call.subresource != "binding":
        _put(obj, "status", old.get("status"))
    admission.default_object(call, obj)
    strategy.prepare_update(engine, call, obj, old)
    metadata = obj["metadata"]
    causes += metadata_causes(metadata, call.warnings)
    causes += admission.causes(engine, call, obj, old)
    if causes:
        raise status.invalid(kind.kind, kind.group, call.name, causes)
    if "managedFields" in before:
        metadata["managedFields"] = copy.deepcopy(before["managedFields"])
    if call.subresource not in ("status", "binding") and admission.generation_grows(kind, obj, old):
        metadata["generation"] = before.get("generation", 0) + 1
    if manage is not None:
        manage(obj, old)
    else:
        managed.track_update(call, obj, old, sent_managed)
    if managed.unchanged(obj, old):
        return Written(200, old, snapshot.raw if views.is_stored_form(kind, snapshot) else None)
    if _is_finished(obj):
        if not call.dry_run:
            engine.store.remove(engine.store.table(kind.table), snapshot)
            strategy.deleted(engine, old)
        return Written(200, obj)
    if call.dry_run:
        return Written(200, obj)
    stored = _store(engine, kind, obj)
    strategy.updated(engine, obj, old)
    return Written(200, obj, stored.raw if views.is_stored_form(kind, stored) else None)


def _put(obj: Object, key: str, value: Any) -> None:
    if value is None:
        obj.pop(key, None)
    else:
        obj[key] = value


def _is_finished(obj: Object) -> bool:
    """Tell whether nothing keeps a terminating object any more."""
    metadata = obj["metadata"]
    return (
        "deletionTimestamp" in metadata
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not (obj["kind"] == "Namespace" and (obj.get("spec") or {}).get("finalizers"))
    )


def _store(engine: Engine, kind: Kind, obj: Object) -> Snapshot:
    stored, marker = views.to_storage(kind, obj)
    return engine.store.write(engine.store.table(kind.table), stored, marker)
