"""Sub-resources: status, scale, finalize, and what pods have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.sandbox import negotiation, patching, reads, resources, status, views, writes

if TYPE_CHECKING:
    from ctrlhost.sandbox.call import Call
    from ctrlhost.sandbox.engine import Engine
    from ctrlhost.sandbox.messages import Request, Response


def answer(engine: Engine, request: Request, call: Call) -> Response:
    """Answer a request on a sub-resource."""
    kind = call.kind
    found = kind.subresource(call.subresource)
    if found is None:
        raise status.not_found(kind.plural, kind.group, call.name)
    if call.verb not in found.verbs:
        raise status.method_not_allowed(call.verb, kind.plural, kind.group)
    accepted = negotiation.accept(request.headers.get("accept", ""))
    if call.verb == "get":
        snapshot = reads.get(engine, call, request.received)
        return resources.respond(call, accepted, 200, views.raw(kind, snapshot))
    if call.verb == "patch":
        media = negotiation.media_type(request.headers.get("content-type", ""))
        written = patching.patch(engine, call, media, request.body)
    else:
        written = writes.update(engine, call, resources.decode_body(request, call))
    return resources.respond(call, accepted, written.code, written.raw or views.encode(written.obj))
