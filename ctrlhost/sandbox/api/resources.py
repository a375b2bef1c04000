"""Requests on resources: the URL grammar, and the verb behind each method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.api import responses, reviews, subresources
from ctrlhost.sandbox.apimachinery import status
from ctrlhost.sandbox.apimachinery.status import Failure
from ctrlhost.sandbox.encoding import negotiation
from ctrlhost.sandbox.registry import views
from ctrlhost.sandbox.registry.operation import Call
from ctrlhost.sandbox.verbs import deletes, patch, reads, tables, writes
from ctrlhost.sandbox.verbs.watches import Watch

if TYPE_CHECKING:
    from ctrlhost.sandbox.apimachinery.objects import User
    from ctrlhost.sandbox.context import Engine
    from ctrlhost.sandbox.encoding.negotiation import Accepted
    from ctrlhost.sandbox.http.messages import Request, Response, Stream

_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions", "DELETE": "DeleteOptions"}
_OBJECT_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_VERBS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}


def answer(
    engine: Engine, request: Request, group: str, version: str, rest: list[str], user: User
) -> Response | Stream | None:
    """Answer a request under a group version; None if nothing is served there."""
    call = _call(engine, request, group, version, rest, user)
    if call is None:
        return None
    if call.kind.custom is not None and call.kind.custom.warning:
        call.warnings.append(call.kind.custom.warning)
    response = _dispatch(engine, request, call)
    for text in call.warnings[:20]:
        shown = text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", " ").replace("\n", " ")
        response.headers.append(("Warning", f'299 - "{shown}"'))
    return response


def _call(engine: Engine, request: Request, group: str, version: str, rest: list[str], user: User) -> Call | None:
    """Read the path behind the group version."""
    namespace = ""
    scoped = rest[0] == "namespaces" and len(rest) >= 3 and not (not group and rest[2] in ("status", "finalize"))
    if scoped:
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3 or not all(rest):
        return None
    kind = engine.registry.find(group, version, rest[0])
    name, sub = (rest[1] if len(rest) > 1 else ""), (rest[2] if len(rest) > 2 else "")
    if kind is None or (scoped and not kind.namespaced):
        return None
    if sub and kind.subresource(sub) is None and kind.custom is None and sub not in subresources.CONNECTS:
        return None
    if kind.namespaced and not scoped and (name or request.method == "POST"):
        return None
    if not name and request.method == "GET" and request.query.flag("watch"):
        verb = "watch"
    elif sub:
        verb = {"POST": "create", **_OBJECT_VERBS}.get(request.method, "")
    else:
        verb = (_OBJECT_VERBS if name else _COLLECTION_VERBS).get(request.method, "")
    return Call(verb, kind, namespace, name, sub, request.query, user=user)


def _dispatch(engine: Engine, request: Request, call: Call) -> Response | Stream:
    kind = call.kind
    if not call.verb or (not call.subresource and call.verb not in kind.verbs):
        _refuse_verb(request, call)
    if request.method in _OPTIONS:
        call.read_write_options(_OPTIONS[request.method], request.headers.get("user-agent", ""))
    if call.subresource:
        return subresources.answer(engine, request, call)
    if kind.virtual:
        return reviews.answer(engine, request, call)
    if call.verb == "watch":
        accepted = negotiation.accept(request.headers.get("accept", ""))
        return Watch(engine, call, tables.form_of(kind, call, accepted), negotiation.JSON)
    accepted = negotiation.accept(request.headers.get("accept", ""))
    if call.verb == "get":
        snapshot = reads.get(engine, call, request.received)
        return responses.respond(call, accepted, 200, views.raw(kind, snapshot))
    if call.verb in ("list", "deletecollection"):
        return _collection(engine, request, call, accepted)
    if call.verb == "delete":
        written = deletes.delete(engine, call, deletes.read_options(call, _delete_body(request)))
    elif call.verb == "patch":
        media = negotiation.media_type(request.headers.get("content-type", ""))
        written = patch.patch(engine, call, media, request.body)
    else:
        body = responses.decode_body(request, call)
        written = writes.create(engine, call, body) if call.verb == "create" else writes.update(engine, call, body)
    return responses.respond(call, accepted, written.code, written.raw or views.encode(written.obj))


def _refuse_verb(request: Request, call: Call) -> None:
    kind = call.kind
    if kind.custom is not None and kind.custom.terminating and call.verb in ("create", "update", "patch"):
        why = "create not allowed while custom resource definition is terminating"
        if call.verb == "create":
            raise status.forbidden(kind.plural, kind.group, call.name, why)
        return
    verb = call.verb or request.method.lower()
    if kind.custom is not None and request.method == "PATCH" and not call.name:
        raise status.bad_request("PATCH is not possible on a collection")
    raise status.method_not_allowed(verb, kind.plural, kind.group)


def _collection(engine: Engine, request: Request, call: Call, accepted: Accepted) -> Response:
    if accepted.form == "PartialObjectMetadata":
        raise Failure(406, "NotAcceptable", "a list can not be answered as PartialObjectMetadata")
    if call.verb == "list":
        page = reads.list_page(engine, call, request.received)
    else:
        options = deletes.read_options(call, _delete_body(request))
        page = deletes.delete_collection(engine, call, options, request.received)
    body = tables.present_list(call, accepted, page) if accepted.form else reads.encode_list(call.kind, page)
    return responses.encoded(accepted, 200, body)


def _delete_body(request: Request) -> Any:
    if not request.body.strip():
        return None
    return negotiation.decode(request.headers.get("content-type", ""), request.body, "DeleteOptions")
