"""PATCH: each media type turns the stored object into the wanted one; storing it is an ordinary update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox import applying, meta, negotiation, reads, status, views, writes
from ctrlhost.sandbox.call import Call, Object, bad_option
from ctrlhost.sandbox.patches import PatchError, json_patch, merge_patch
from ctrlhost.sandbox.shapes import ANY, of_kind
from ctrlhost.sandbox.status import Failure, bad_request
from ctrlhost.sandbox.strategic import strategic_merge

if TYPE_CHECKING:
    from ctrlhost.sandbox.engine import Engine
    from ctrlhost.sandbox.kinds import Kind

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


def patch(engine: Engine, call: Call, media: str, body: bytes) -> writes.Written:
    """Change one object."""
    types = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
    if call.kind.custom is None:
        types.insert(2, STRATEGIC_PATCH)
    if media not in types:
        raise negotiation.unsupported(", ".join(types))
    if media == APPLY_PATCH:
        return applying.apply(engine, call, body)
    if call.query.flag("force"):
        text = "may not be specified for non-apply patch"
        raise bad_option("PatchOptions", status.forbidden_field("force", text))
    document = negotiation.decode_json(body)
    if media != JSON_PATCH and type(document) is not dict:
        raise bad_request("json: cannot unmarshal array into Go value of type map[string]interface {}")
    snapshot = reads.find(engine, call)
    old = views.load(call.kind, snapshot)
    # The patch works on a copy of its own, since it shares what it leaves alone with the result.
    obj = changed(call.kind, views.load(call.kind, snapshot), media, document)
    if type(obj) is not dict:
        raise bad_request("the patch does not leave an object")
    writes.decode_type(call, obj)
    _check_names(call, meta.metadata_of(obj))
    return writes.replace(engine, call, snapshot, old, obj)


def _check_names(call: Call, metadata: Object) -> None:
    """Refuse another name or namespace than the object has; a namespace that the patch took away comes back."""
    name = metadata.get("name")
    if not name:
        text = f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        raise bad_request(text)
    if name != call.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
    if call.kind.namespaced and not metadata.get("namespace"):
        metadata["namespace"] = call.namespace
    elif metadata.get("namespace", "") != call.namespace:
        text = "the namespace of the provided object does not match the namespace sent on the request"
        raise bad_request(text)


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
    return strategic_merge(of_kind(kind.group, kind.kind) or ANY, old, document)
