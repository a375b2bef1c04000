"""Server-side apply."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import msgspec

from ctrlhost_sandbox.admission import objects
from ctrlhost_sandbox.apimachinery import status, times
from ctrlhost_sandbox.apimachinery.repeated import Repeated
from ctrlhost_sandbox.apimachinery.status import Cause, Failure, bad_request
from ctrlhost_sandbox.encoding import negotiation
from ctrlhost_sandbox.patch import managed, typed
from ctrlhost_sandbox.patch.apply import merge, remove
from ctrlhost_sandbox.patch.managed import APPLY, UPDATE, Manager
from ctrlhost_sandbox.registry import meta, views
from ctrlhost_sandbox.schema import fieldset, go_text
from ctrlhost_sandbox.schema.normalize import Undecodable
from ctrlhost_sandbox.schema.restored import restored
from ctrlhost_sandbox.verbs import writes

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation
    from ctrlhost_sandbox.schema.fieldset import FieldSet
    from ctrlhost_sandbox.storage.store import Snapshot

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def apply(context: ServerContext, operation: Operation, body: bytes) -> writes.WriteResult:
    """Apply a configuration to an object; 409 for conflicts with other managers."""
    repeated = Repeated() if operation.field_validation != "Ignore" else None
    applied = _decode(operation, body, repeated)
    kind = operation.kind
    snapshot = context.store.table(kind.table).get(operation.namespace, operation.name)
    if snapshot is None and operation.subresource:
        raise status.not_found(kind.plural, kind.group, operation.name)
    operation.applies = True
    wanted = _wanted(operation, applied)
    if kind.custom is None:
        applied = restored(managed.shape_of(kind), applied)
    if repeated is not None and repeated.lines:
        _report_repeated(operation, repeated.lines)
    # What is left to prune was not sent: a configuration has declared fields only.
    operation.field_validation = "Ignore"
    try:
        return _stored(context, operation, snapshot, applied, wanted)
    except Undecodable as error:
        metadata, name = applied["metadata"], f"{kind.group}/{kind.version}, Kind={kind.kind}"
        where = f"({metadata.get('namespace', '')}/{metadata.get('name', '')}; {name}) to proper version"
        text = f"unable to convert unstructured object to {name}: {error.why}"
        raise Failure(500, "", f"failed to convert new object {where}: {text}") from None


def _stored(
    context: ServerContext, operation: Operation, snapshot: Snapshot | None, applied: Object, wanted: FieldSet
) -> writes.WriteResult:
    kind = operation.kind
    if snapshot is None:
        _check_types(operation, applied)
        return _create(context, operation, applied, wanted)
    old = views.load(kind, snapshot)
    managers = managed.read(old["metadata"].get("managedFields"))
    everything = fieldset.fields_of(managed.shape_of(kind), managed.trackable(kind, old), strict=False) - {()}
    if not managers and everything:
        managers = [Manager("before-first-apply", UPDATE, kind.api_version, "", times.now(), everything)]
    merged, managers = _merge(operation, old, applied, wanted, managed.convertible(kind, managers))
    _check_types(operation, applied)
    meta.check_name(operation, merged["metadata"])
    meta.place(operation, merged)
    _refresh_last_applied(operation, merged, applied)
    return writes.replace(context, operation, snapshot, old, merged, managers=managers)


def _report_repeated(operation: Operation, lines: list[str]) -> None:
    """Refuse repeated keys, or warn about them, as the client asked."""
    if operation.field_validation == "Strict":
        text = objects.yaml_errors(lines)
        raise bad_request(f"error strict decoding YAML: error converting YAML to JSON: {text}")
    operation.warnings += lines


def _decode(operation: Operation, body: bytes, repeated: Repeated | None) -> Object:
    """Decode a configuration of the request's kind; 400 for another."""
    try:
        applied = negotiation.decode_yaml(body, repeated=repeated)
    except Failure as failure:
        raise bad_request(f"error decoding YAML: {failure.message}") from failure
    if type(applied) is not dict and applied is not None:
        text = f"json: cannot unmarshal {go_text.json_kind(applied)} into Go value of type map[string]interface {{}}"
        raise bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {text}")
    document: Object = applied or {}
    version, name = document.get("apiVersion") or "", document.get("kind") or ""
    if (version, name) != (operation.kind.api_version, operation.kind.kind):
        group, _, version = str(version).rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={name}")
    return document


def _wanted(operation: Operation, applied: Object) -> FieldSet:
    """Return the fields that a configuration sets; 500, as from a real server, if it does not fit the schema."""
    kind, shape = operation.kind, managed.shape_of(operation.kind)
    metadata = applied["metadata"] if type(applied.get("metadata")) is dict else {}
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    if why := typed.problem(shape, applied):
        named = "/".join(text if type(text := metadata.get(key)) is str else "" for key in ("namespace", "name"))
        of_kind = f"{kind.group}/{kind.version}, Kind={kind.kind}"
        raise Failure(500, "", f"failed to create typed patch object ({named}; {of_kind}): {why}")
    meta.ensure_metadata(applied)
    document = managed.trackable(kind, applied, operation.subresource if operation.subresource == "status" else "")
    return fieldset.fields_of(shape, document) if document else set()


def _check_types(operation: Operation, applied: Object) -> None:
    """Raise `Undecodable` unless all that is sent fits its type, even what is not stored."""
    if operation.kind.custom is None:
        objects.conform_object(operation, copy.deepcopy(applied))


def _create(context: ServerContext, operation: Operation, applied: Object, wanted: FieldSet) -> writes.WriteResult:
    kind = operation.kind
    meta.check_name(operation, applied["metadata"])
    meta.place(operation, applied)
    if uid := applied["metadata"].get("uid"):
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise status.conflict(kind.plural, kind.group, operation.name, why)
    applied["metadata"].pop("resourceVersion", None)
    operation.applied = wanted
    return writes.create(context, operation, applied)


def _merge(
    operation: Operation, old: Object, applied: Object, wanted: FieldSet, managers: list[Manager]
) -> tuple[Object, list[Manager]]:
    """Return the merged object and entries; 409 if another manager owns a changed field."""
    shape, kind = managed.shape_of(operation.kind), operation.kind
    subresource = operation.subresource if operation.subresource == "status" else ""
    entry = Manager(operation.manager, APPLY, kind.api_version, subresource, times.now(), wanted)
    previous = next((item for item in managers if item.identity == entry.identity), None)
    others = [item for item in managers if item.identity != entry.identity]
    live = copy.deepcopy(old)
    merged = merge(shape, live, _without_status(operation, applied))
    merged["apiVersion"], merged["kind"] = kind.api_version, kind.kind
    changed, _ = fieldset.differences(
        shape, managed.trackable(kind, old, subresource), managed.trackable(kind, merged, subresource)
    )
    _resolve(operation, others, changed, _from_client_side(operation, old))
    if previous is not None:
        kept = set().union(*(item.fields for item in others)) | wanted | {("f:metadata", "f:name")}
        gone = previous.fields - wanted
        if gone:
            merged = remove(shape, merged, gone, kept) or merged
            _, removed = fieldset.differences(shape, managed.trackable(kind, old), managed.trackable(kind, merged))
            for item in others:
                item.fields = item.fields - removed
    return merged, [*others, entry] if wanted else others


def _without_status(operation: Operation, applied: Object) -> Object:
    """Omit the parts of the applied document that the endpoint does not write."""
    if operation.subresource == "status":
        keys = {"apiVersion", "kind", "metadata", "status"}
        return {key: value for key, value in applied.items() if key in keys}
    if operation.kind.has_status:
        return {key: value for key, value in applied.items() if key != "status"}
    return applied


def _resolve(operation: Operation, others: list[Manager], changed: FieldSet, allowed: FieldSet) -> None:
    causes: list[Cause] = []
    for item in others:
        clashing = item.fields & changed
        if operation.query.flag("force") or clashing <= allowed:
            item.fields = item.fields - clashing
            continue
        for path in sorted(clashing - allowed):
            text = f"conflict with {_described(item)}"
            causes.append(Cause("FieldManagerConflict", text, fieldset.dotted(path)))
    if not causes:
        return
    if len(causes) == 1:
        text = f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}"
    else:
        lines: list[str] = []
        for cause in causes:
            if f"{cause.message}:" not in lines:
                lines.append(f"{cause.message}:")
            lines.append(f"- {cause.field}")
        text = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    raise Failure(409, "Conflict", text, causes=causes)


def _from_client_side(operation: Operation, old: Object) -> FieldSet:
    """Return the fields that kubectl set by client-side apply and may take over when it switches to server-side."""
    text = (old["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    if operation.manager != "kubectl" or not text:
        return set()
    try:
        document = msgspec.json.decode(text)
        fields = fieldset.fields_of(managed.shape_of(operation.kind), managed.trackable(operation.kind, document))
    except (msgspec.DecodeError, fieldset.DuplicateItem, AttributeError, TypeError):
        return set()
    return {*fields, ("f:metadata", "f:annotations", f"f:{LAST_APPLIED}")}


def _described(item: Manager) -> str:
    text = msgspec.json.encode(item.name).decode()
    if item.subresource:
        text += f' with subresource "{item.subresource}"'
    return f"{text} using {item.api_version}" if item.operation == UPDATE else text


def _refresh_last_applied(operation: Operation, merged: Object, applied: Object) -> None:
    """Update kubectl's annotation when kubectl applies, so that it can return to client-side apply."""
    annotations = merged["metadata"].get("annotations") or {}
    if operation.manager == "kubectl" and LAST_APPLIED in annotations:
        text = msgspec.json.encode(applied, order="sorted").decode() + "\n"
        merged["metadata"]["annotations"] = {**annotations, LAST_APPLIED: text}
