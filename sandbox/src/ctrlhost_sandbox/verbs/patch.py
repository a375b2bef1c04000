"""PATCH: each media type computes the new object; storing it is an ordinary update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.repeated import Repeated
from ctrlhost_sandbox.apimachinery.status import Failure, bad_request
from ctrlhost_sandbox.encoding import negotiation
from ctrlhost_sandbox.patch.json_patch import PatchError, json_patch, merge_patch
from ctrlhost_sandbox.patch.strategic import strategic_merge
from ctrlhost_sandbox.registry import meta, views
from ctrlhost_sandbox.schema import go_text
from ctrlhost_sandbox.schema.normalize import Undecodable
from ctrlhost_sandbox.schema.restored import restored
from ctrlhost_sandbox.schema.shapes import ANY, of_kind
from ctrlhost_sandbox.verbs import reads, writes
from ctrlhost_sandbox.verbs.apply import apply

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation
    from ctrlhost_sandbox.registry.registry import Kind

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
#: The members of a JSON patch operation.
_MEMBERS = {"op", "path", "from", "value"}
_ORDER = "$setElementOrder/"
APPLY_PATCH = "application/apply-patch+yaml"


def patch(context: ServerContext, operation: Operation, media: str, body: bytes) -> writes.WriteResult:
    """Patch one object."""
    types = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
    if operation.kind.custom is None:
        types.insert(2, STRATEGIC_PATCH)
    if media not in types:
        plain = Failure(415, "UnsupportedMediaType", "415: Unsupported Media Type")
        raise plain if operation.kind.custom is None else negotiation.unsupported(", ".join(types))
    if media == APPLY_PATCH:
        return apply(context, operation, body)
    snapshot = reads.find(context, operation)
    document = _document(operation, media, body)
    old = views.load(operation.kind, snapshot)
    # The patch gets its own copy, since the result shares unchanged parts with it.
    obj = changed(operation.kind, views.load(operation.kind, snapshot), media, document)
    if type(obj) is not dict:
        raise bad_request("the patch does not leave an object")
    if media == STRATEGIC_PATCH:
        # A strategic patch cannot change the type, but it must fit.
        obj.update({key: old[key] for key in ("apiVersion", "kind") if type(obj.get(key)) in (str, type(None))})
    if obj.get("apiVersion") in (None, "", "/"):
        if operation.kind.custom is not None:
            raise status.internal("Object 'apiVersion' is missing in 'object has no apiVersion field'")
        raise meta.unnamed(operation)
    try:
        _decode(operation, obj)
        return writes.replace(context, operation, snapshot, old, obj, check=_check_names)
    except Undecodable as error:
        strategic = media == STRATEGIC_PATCH
        text = go_text.show(_unordered(document)) if strategic else views.encode(obj).decode()
        cause = status.invalid_value("patch", text, error.restored if strategic else error.why)
        raise status.invalid("", "", "", [cause]) from None


def _document(operation: Operation, media: str, body: bytes) -> Any:
    """Decode a patch; merge patches must be objects. Record duplicate and unknown fields."""
    twice = Repeated() if operation.counts_fields else None
    document = negotiation.decode_json(body, repeated=twice)
    prefix = "json patch " if media == JSON_PATCH else ""
    operation.problems += [f'{prefix}duplicate field "{path}"' for path in (twice.paths if twice else ())]
    if media == JSON_PATCH and type(document) is list:
        unknown = [(index, set(step) - _MEMBERS) for index, step in enumerate(document) if type(step) is dict]
        operation.problems += [
            f'json patch unknown field "[{at}].{key}"' for at, keys in unknown for key in sorted(keys)
        ]
    if media == JSON_PATCH or type(document) is dict:
        return document
    if document is None:
        if media == STRATEGIC_PATCH:
            return {}
        raise bad_request("Invalid JSON Patch")
    kind = go_text.json_kind(document)
    prefix = "error decoding patch: " if media == MERGE_PATCH else ""
    raise bad_request(f"{prefix}json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")


def _unordered(document: Any) -> Any:
    """Return a strategic patch without the lists whose order it sets, as upstream does before decoding."""
    if type(document) is not dict:
        return document
    marks = {key for key in document if key.startswith(_ORDER)}
    dropped = marks | {key.removeprefix(_ORDER) for key in marks}
    return {key: _unordered(value) for key, value in document.items() if key not in dropped}


def _decode(operation: Operation, obj: Object) -> None:
    """Check the type of a patched object, and that it has metadata."""
    if type(metadata := obj.get("metadata")) not in (dict, type(None)):
        what = go_text.json_kind(metadata)
        why = f"json: cannot unmarshal {what} into Go struct field {operation.kind.kind}.metadata of type v1.ObjectMeta"
        raise Undecodable(why)
    try:
        writes.decode_type(operation, obj)
    except Failure as failure:
        if failure.code != 400:
            raise
        raise Undecodable(failure.message) from failure


def _check_names(operation: Operation, metadata: Object) -> None:
    """Check that name and namespace are unchanged, and the version is there; restore a removed namespace."""
    meta.check_name(operation, metadata)
    if operation.kind.namespaced and not metadata.get("namespace"):
        metadata["namespace"] = operation.namespace
    elif metadata.get("namespace", "") != operation.namespace:
        text = "the namespace of the provided object does not match the namespace sent on the request"
        raise bad_request(text)
    if operation.kind.needs_version and not metadata.get("resourceVersion"):
        writes.require_version(operation)


def changed(kind: Kind, old: Object, media: str, document: Any) -> Any:
    """Apply a patch document to a copy of an object."""
    if media == JSON_PATCH:
        try:
            return json_patch(old, document)
        except (PatchError, RecursionError) as error:
            text = "the server rejected our request due to an error in our request"
            raise Failure(422, "Invalid", text) from error
    if media == MERGE_PATCH:
        return merge_patch(old, document)
    shape = of_kind(kind.group, kind.version, kind.kind) or ANY
    return restored(shape, strategic_merge(shape, old, document))
