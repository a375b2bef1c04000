"""The scale sub-resource: a small object that reads and writes one number of its parent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.admission import chain
from ctrlhost_sandbox.admission.request import UPDATE
from ctrlhost_sandbox.apimachinery import selectors, status
from ctrlhost_sandbox.apimachinery.objects import at
from ctrlhost_sandbox.apimachinery.status import Failure, bad_request
from ctrlhost_sandbox.encoding import negotiation
from ctrlhost_sandbox.registry import meta, views
from ctrlhost_sandbox.schema.normalize import Undecodable, conform
from ctrlhost_sandbox.schema.shapes import of_kind
from ctrlhost_sandbox.verbs import reads, writes
from ctrlhost_sandbox.verbs.patch import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, changed

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation
    from ctrlhost_sandbox.registry.registry import Kind

API_VERSION = "autoscaling/v1"


def read(context: ServerContext, operation: Operation) -> Object:
    """Return the Scale of an object."""
    return scale_of(operation.kind, views.load(operation.kind, reads.find(context, operation)))


def scale_of(kind: Kind, obj: Object) -> Object:
    """Return the Scale of an object; 500 if it has no replicas."""
    paths = kind.scale
    assert paths is not None
    replicas = at(obj, paths.replicas)
    if not isinstance(replicas, int):
        raise status.internal(f"the spec replicas field {'.'.join(paths.replicas)!r} does not exist")
    metadata = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    state: dict[str, Any] = {"replicas": at(obj, paths.status_replicas) or 0}
    selector = at(obj, paths.selector) if paths.selector else None
    text = selectors.selector_text(selector) if isinstance(selector, dict) else selector
    if text:
        state["selector"] = text
    return {
        "kind": "Scale",
        "apiVersion": API_VERSION,
        "metadata": {name: metadata[name] for name in kept if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": state,
    }


def update(context: ServerContext, operation: Operation, body: Any) -> Object:
    """Replace the Scale of an object."""
    if type(body) is not dict or body.get("kind", "Scale") != "Scale":
        raise bad_request("the request body must be a Scale")
    if body.get("apiVersion", API_VERSION) != API_VERSION:
        raise bad_request(f"the API version in the data must be {API_VERSION}")
    try:
        scale = _decoded(body)
    except Undecodable as error:
        raise error.of("Scale", "v1") from None
    meta.check_name(operation, scale["metadata"])
    return _write(context, operation, scale)


def patch(context: ServerContext, operation: Operation, media: str, body: bytes) -> Object:
    """Patch the Scale of an object."""
    types = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
    if operation.kind.custom is None:
        types.insert(2, STRATEGIC_PATCH)
    if media not in types:
        raise negotiation.unsupported(", ".join(types))
    old = read(context, operation)
    old["spec"].setdefault("replicas", 0)
    if media == APPLY_PATCH:
        return _write(context, operation, _decoded(negotiation.decode_yaml(body)))
    document = negotiation.decode_json(body)
    if media != JSON_PATCH and type(document) is not dict:
        raise bad_request("the patch must be an object")
    scale = changed(operation.kind, old, media, document)
    try:
        scale = _decoded(scale)
        meta.check_name(operation, scale["metadata"])
        return _write(context, operation, scale)
    except Undecodable as error:
        cause = status.invalid_value("patch", views.encode(scale).decode(), error.why)
        raise status.invalid("", "", "", [cause]) from None


def _decoded(scale: Any) -> Object:
    """Return a Scale as decoding leaves it; Undecodable if it does not fit the type."""
    shape = of_kind("autoscaling", "v1", "Scale")
    if type(scale) is not dict or shape is None:
        raise bad_request("the body or the patch does not leave an object")
    return conform(shape, scale, "Scale", [])


def _write(context: ServerContext, operation: Operation, scale: Object) -> Object:
    kind = operation.kind
    assert kind.scale is not None
    snapshot = reads.find(context, operation)
    replicas = scale.get("spec", {}).get("replicas", 0)
    if replicas < 0 and kind.custom is None:
        text = "must be greater than or equal to 0"
        raise status.invalid(
            "Scale", "autoscaling", operation.name, [status.invalid_value("spec.replicas", replicas, text)]
        )
    writes.check_preconditions(kind, snapshot, meta.ensure_metadata(scale))
    old = views.load(kind, snapshot)
    obj = views.load(kind, snapshot)
    *parents, last = kind.scale.replicas
    node = obj
    for part in parents:
        node = node.setdefault(part, {})
        if type(node) is not dict:
            raise Failure(500, "InternalError", "the parent of the replicas field is not an object")
    node[last] = replicas
    chain.validate(context, operation, UPDATE, scale_of(kind, obj), scale_of(kind, old))
    return scale_of(kind, writes.replace(context, operation, snapshot, old, obj).obj)
