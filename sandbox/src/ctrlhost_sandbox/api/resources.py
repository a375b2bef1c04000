"""Requests on resources: the URL grammar, and the verb behind each method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.api import components, responses, reviews, subresources
from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.status import Failure
from ctrlhost_sandbox.registry import views
from ctrlhost_sandbox.registry.operation import Operation
from ctrlhost_sandbox.verbs import deletes, patch, reads, tables, writes
from ctrlhost_sandbox.verbs.watches import Watch

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import User
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.encoding.negotiation import Accepted
    from ctrlhost_sandbox.http.messages import Request, Response, Stream

_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions", "DELETE": "DeleteOptions"}
_OBJECT_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_VERBS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}


def answer(
    context: ServerContext, request: Request, group: str, version: str, rest: list[str], user: User
) -> Response | Stream | None:
    """Handle a request under a group version; None for an unknown resource."""
    operation = _operation(context, request, group, version, rest, user)
    if operation is None:
        return None
    if operation.kind.deprecation:
        operation.warnings.append(operation.kind.deprecation)
    try:
        response = _dispatch(context, request, operation)
    except Failure as failure:
        failure.warnings = operation.warnings
        raise
    response.headers += responses.warnings(operation.warnings)
    return response


def _operation(
    context: ServerContext, request: Request, group: str, version: str, rest: list[str], user: User
) -> Operation | None:
    """Parse the path behind the group version."""
    namespace = ""
    scoped = rest[0] == "namespaces" and len(rest) >= 3 and not (not group and rest[2] in ("status", "finalize"))
    if scoped:
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3 or not all(rest):
        return None
    kind = context.registry.find(group, version, rest[0])
    name, sub = (rest[1] if len(rest) > 1 else ""), (rest[2] if len(rest) > 2 else "")
    if kind is None or (scoped and not kind.namespaced):
        return None
    if sub and kind.subresource(sub) is None and kind.custom is None:
        return None
    if kind.namespaced and not scoped and (name or request.method != "GET"):
        if name or kind.custom is not None or "list" not in kind.verbs:
            return None
        raise status.no_such_method()
    if not name and request.method == "GET" and request.query.flag("watch"):
        verb = "watch"
    elif sub:
        verb = {"POST": "create", **_OBJECT_VERBS}.get(request.method, "")
    else:
        verb = (_OBJECT_VERBS if name else _COLLECTION_VERBS).get(request.method, "")
    return Operation(verb, kind, namespace, name, sub, request.query, user=user, annotations=request.annotations)


def _dispatch(context: ServerContext, request: Request, operation: Operation) -> Response | Stream:
    kind = operation.kind
    if not operation.verb or (not operation.subresource and operation.verb not in kind.verbs):
        _refuse_verb(request, operation)
    if request.method in _OPTIONS:
        applies = request.method == "PATCH" and responses.media_type(request) == patch.APPLY_PATCH
        operation.read_write_options(_OPTIONS[request.method], request.headers.get("user-agent", ""), applies=applies)
    if operation.subresource and (answer := subresources.answer(context, request, operation)) is not None:
        return answer
    if kind.virtual and kind.kind == "Binding":
        return subresources.bind_posted(context, request, operation)
    if kind.virtual:
        return reviews.answer(context, request, operation)
    accepted = responses.accepted_by(request)
    if operation.verb == "watch":
        changed = accepted.form in ("Table", "PartialObjectMetadata")
        return Watch(context, operation, accepted, tables.Encoding(operation, accepted) if changed else None)
    if operation.verb == "get":
        if kind.table == components.TABLE:
            snapshot = components.find(context, operation)
        else:
            snapshot = reads.get(context, operation, request.received)
        return responses.respond(operation, accepted, 200, views.raw(kind, snapshot))
    if operation.verb in ("list", "deletecollection"):
        return _collection(context, request, operation, accepted)
    if operation.verb == "delete":
        written = deletes.delete(context, operation, deletes.read_options(operation, _delete_body(request)))
    elif operation.verb == "patch":
        written = patch.patch(context, operation, responses.media_type(request), request.body)
    else:
        write = writes.create if operation.verb == "create" else writes.update
        written = write(context, operation, responses.decode_body(request, operation))
    return responses.respond(operation, accepted, written.code, written.raw or views.encode(written.obj))


def _refuse_verb(request: Request, operation: Operation) -> None:
    kind = operation.kind
    if kind.custom is not None and kind.custom.terminating and operation.verb in ("create", "update", "patch"):
        # Which objects may still be written depends on their existence.
        return
    verb = operation.verb or request.method.lower()
    if kind.custom is not None and request.method == "PATCH" and not operation.name:
        raise status.bad_request("PATCH is not possible on a collection")
    if kind.custom is None:
        raise status.no_such_method()
    raise status.method_not_allowed(verb, kind.plural, kind.group)


def _collection(context: ServerContext, request: Request, operation: Operation, accepted: Accepted) -> Response:
    if accepted.form == "PartialObjectMetadata":
        raise Failure(406, "NotAcceptable", "cannot return a list as PartialObjectMetadata")
    if operation.kind.table == components.TABLE:
        page = components.page(context, operation)
    elif operation.verb == "list":
        page = reads.list_page(context, operation, request.received)
    else:
        body = _delete_body(request)
        reads.make_filter(operation.kind, operation)
        options = deletes.read_options(operation, body)
        page = deletes.delete_collection(context, operation, options, request.received)
    body = tables.present_list(operation, accepted, page) if accepted.form else reads.encode_list(operation.kind, page)
    return responses.encoded(accepted, 200, body)


def _delete_body(request: Request) -> Any:
    if not request.body.strip():
        return None
    return responses.decode(request, "DeleteOptions")
