"""Server-side apply."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import msgspec

from ctrlhost.sandbox.admission import objects
from ctrlhost.sandbox.apimachinery import status, times
from ctrlhost.sandbox.apimachinery.repeated import Repeated
from ctrlhost.sandbox.apimachinery.status import Cause, Failure, bad_request
from ctrlhost.sandbox.encoding import negotiation
from ctrlhost.sandbox.patch import managed
from ctrlhost.sandbox.patch.apply import merge, remove
from ctrlhost.sandbox.patch.managed import APPLY, UPDATE, Manager
from ctrlhost.sandbox.registry import meta, views
from ctrlhost.sandbox.registry.operation import Operation, bad_option
from ctrlhost.sandbox.schema import fieldset
from ctrlhost.sandbox.schema.declared import undeclared
from ctrlhost.sandbox.verbs import writes

if TYPE_CHECKING:
    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.context import ServerContext
    from ctrlhost.sandbox.registry.registry import Kind
    from ctrlhost.sandbox.schema.fieldset import FieldSet

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def apply(context: ServerContext, operation: Operation, body: bytes) -> writes.WriteResult:
    """Apply a configuration to an object; 409 for conflicts with other managers."""
    if not operation.query.first("fieldManager"):
        raise bad_option("PatchOptions", status.required("fieldManager", "is required for apply patch"))
    repeated = Repeated() if operation.field_validation != "Ignore" else None
    applied = negotiation.decode_yaml(body, repeated=repeated)
    kind = operation.kind
    if type(applied) is not dict or not applied.get("apiVersion") or not applied.get("kind"):
        raise bad_request("the applied object must have apiVersion and kind")
    if applied["kind"] != kind.kind or applied["apiVersion"] != kind.api_version:
        raise bad_request(
            f"failed to create typed patch object: {applied['apiVersion']}, Kind={applied['kind']} is not what this "
            f"path serves ({kind.api_version}, Kind={kind.kind})"
        )
    metadata = applied.get("metadata")
    if type(metadata) is not dict or (metadata.get("name") or operation.name) != operation.name:
        raise bad_request("the name of the applied object does not match the name on the URL")
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    metadata["name"] = operation.name
    _check_declared(kind, applied)
    meta.place(operation, applied)
    wanted = _wanted(operation, applied)
    if repeated is not None and repeated.lines:
        _report_repeated(operation, repeated.lines)
    snapshot = context.store.table(kind.table).get(operation.namespace, operation.name)
    if snapshot is None:
        return _create(context, operation, applied, wanted)
    old = views.load(kind, snapshot)
    managers = managed.read(old["metadata"].get("managedFields"))
    if not managers:
        everything = fieldset.fields_of(managed.shape_of(kind), managed.trackable(kind, old))
        managers = [Manager("before-first-apply", UPDATE, kind.api_version, "", times.now(), everything)]
    merged, managers = _merge(operation, old, applied, wanted, managers)
    _refresh_last_applied(operation, merged, applied)
    return writes.replace(context, operation, snapshot, old, merged, managers=managers)


def _check_declared(kind: Kind, applied: Object) -> None:
    """Raise 500 without a reason for fields that the schema does not declare, like a real server."""
    found = [f"{path}: field not declared in schema" for path in undeclared(managed.shape_of(kind), applied)]
    if not found:
        return
    metadata = applied["metadata"]
    where = f"{metadata.get('namespace', '')}/{metadata['name']}; {kind.group}/{kind.version}, Kind={kind.kind}"
    text = found[0] if len(found) == 1 else "\n  ".join(("errors:", *found))
    raise Failure(500, "", f"failed to create typed patch object ({where}): {text}")


def _report_repeated(operation: Operation, lines: list[str]) -> None:
    """Refuse repeated keys, or warn about them, as the client asked."""
    if operation.field_validation == "Strict":
        text = objects.yaml_errors(lines)
        raise bad_request(f"error strict decoding YAML: error converting YAML to JSON: {text}")
    operation.warnings += lines


def _wanted(operation: Operation, applied: Object) -> FieldSet:
    subresource = operation.subresource if operation.subresource == "status" else ""
    document = managed.trackable(operation.kind, applied, subresource)
    try:
        return fieldset.fields_of(managed.shape_of(operation.kind), document) if document else set()
    except fieldset.DuplicateItem as twice:
        cause = status.duplicate(fieldset.dotted(twice.path).lstrip("."), twice.path[-1][2:])
        raise status.invalid(operation.kind.kind, operation.kind.group, operation.name, [cause]) from twice


def _create(context: ServerContext, operation: Operation, applied: Object, wanted: FieldSet) -> writes.WriteResult:
    kind = operation.kind
    if operation.subresource:
        raise status.not_found(kind.plural, kind.group, operation.name)
    if applied["metadata"].get("uid"):
        raise status.conflict(kind.plural, kind.group, operation.name, "uid mismatch: there is no object of that name")
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
        kept = set().union(*(item.fields for item in others)) | wanted
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
        found = fieldset.fields_of(managed.shape_of(operation.kind), managed.trackable(operation.kind, document))
    except (msgspec.DecodeError, fieldset.DuplicateItem, AttributeError, TypeError):
        return set()
    return {*found, ("f:metadata", "f:annotations", f"f:{LAST_APPLIED}")}


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
