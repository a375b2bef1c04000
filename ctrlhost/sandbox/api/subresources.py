"""Sub-resources: status, scale, finalize, and what pods and service accounts have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.api import responses, scaling, token_requests
from ctrlhost.sandbox.apimachinery import status, times
from ctrlhost.sandbox.apimachinery.status import bad_request
from ctrlhost.sandbox.encoding import negotiation
from ctrlhost.sandbox.http.messages import Request, Response
from ctrlhost.sandbox.registry import views
from ctrlhost.sandbox.verbs import deletes, patch, reads, writes

if TYPE_CHECKING:
    from ctrlhost.sandbox.context import ServerContext
    from ctrlhost.sandbox.registry.operation import Operation

CONNECTS = ("exec", "attach", "portforward", "proxy", "ephemeralcontainers", "resize")


def answer(context: ServerContext, request: Request, operation: Operation) -> Response:
    """Answer a request on a sub-resource."""
    kind = operation.kind
    found = kind.subresource(operation.subresource)
    if found is None and kind.plural != "pods":
        raise status.not_found(kind.plural, kind.group, operation.name)
    if found is None:
        raise bad_request(f"pods/{operation.subresource} is not supported by the sandbox")
    if operation.verb not in found.verbs:
        raise status.method_not_allowed(operation.verb, kind.plural, kind.group)
    special = _SPECIAL.get(operation.subresource)
    if special is not None:
        return special(context, request, operation)
    accepted = negotiation.accept(request.headers.get("accept", ""))
    if operation.verb == "get":
        snapshot = reads.get(context, operation, request.received)
        return responses.respond(operation, accepted, 200, views.raw(kind, snapshot))
    if operation.verb == "patch":
        media = negotiation.media_type(request.headers.get("content-type", ""))
        written = patch.patch(context, operation, media, request.body)
    else:
        written = writes.update(context, operation, responses.decode_body(request, operation))
    return responses.respond(operation, accepted, written.code, written.raw or views.encode(written.obj))


def _scale(context: ServerContext, request: Request, operation: Operation) -> Response:
    if operation.verb == "get":
        scale = scaling.read(context, operation)
    elif operation.verb == "patch":
        media = negotiation.media_type(request.headers.get("content-type", ""))
        scale = scaling.patch(context, operation, media, request.body)
    else:
        scale = scaling.update(context, operation, _body(request, "Scale"))
    accepted = negotiation.accept(request.headers.get("accept", ""))
    return responses.respond(operation, accepted, 200, views.encode(scale))


def _body(request: Request, kind: str) -> Any:
    return negotiation.decode(request.headers.get("content-type", ""), request.body, kind)


def _log(context: ServerContext, request: Request, operation: Operation) -> Response:
    """Make up a few lines."""
    pod = views.load(operation.kind, reads.find(context, operation))
    names = [container["name"] for container in pod["spec"]["containers"]]
    wanted = request.query.first("container") or names[0]
    if wanted not in names:
        raise bad_request(f"container {wanted} is not valid for pod {operation.name}")
    if not pod["spec"].get("nodeName"):
        return Response(200, b"", "text/plain")
    started = (pod.get("status") or {}).get("startTime")
    if started is None:
        raise bad_request(f'container "{wanted}" in pod "{operation.name}" is waiting to start: ContainerCreating')
    lines = [f"{started} {wanted} started", f"{started} {wanted} runs nothing: this is a sandbox"]
    tail = request.query.number("tailLines")
    if tail is not None:
        lines = lines[len(lines) - tail :] if tail else []
    return Response(200, "".join(f"{line}\n" for line in lines).encode(), "text/plain")


def _eviction(context: ServerContext, request: Request, operation: Operation) -> Response:
    body = _body(request, "Eviction")
    options = body.get("deleteOptions") if isinstance(body, dict) else None
    deletes.delete(context, operation, deletes.read_options(operation, options))
    done = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return responses.json_answer(201, done)


def _binding(context: ServerContext, request: Request, operation: Operation) -> Response:
    body = _body(request, "Binding")
    target = (body.get("target") or {}).get("name") if isinstance(body, dict) else None
    if not target:
        raise status.invalid("Binding", "", operation.name, [status.required("target.name")])
    bind(context, operation, target)
    return responses.json_answer(201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})


def bind(context: ServerContext, operation: Operation, node: str) -> None:
    """Place a pod on a node; 409 if it is on one."""
    snapshot = reads.find(context, operation)
    old, pod = views.load(operation.kind, snapshot), views.load(operation.kind, snapshot)
    if pod["spec"].get("nodeName"):
        why = f'pod {operation.name} is already assigned to node "{node}"'
        raise status.conflict("pods/binding", "", operation.name, why)
    pod["spec"]["nodeName"] = node
    conditions = [item for item in pod["status"].get("conditions") or () if item["type"] != "PodScheduled"]
    conditions.append(
        {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": times.now()}
    )
    pod["status"]["conditions"] = conditions
    operation.subresource = "binding"
    writes.replace(context, operation, snapshot, old, pod)


def _token(context: ServerContext, request: Request, operation: Operation) -> Response:
    made = token_requests.request(context, operation, _body(request, "TokenRequest"))
    accepted = negotiation.accept(request.headers.get("accept", ""))
    return responses.respond(operation, accepted, 201, views.encode(made))


_SPECIAL = {"scale": _scale, "log": _log, "eviction": _eviction, "binding": _binding, "token": _token}
