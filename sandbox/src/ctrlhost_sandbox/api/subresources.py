"""Sub-resources: status, scale, finalize, and those of pods and service accounts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.admission import chain
from ctrlhost_sandbox.admission.request import CREATE
from ctrlhost_sandbox.api import evictions, pod_logs, responses, scaling, token_requests
from ctrlhost_sandbox.api.pod_connections import Exec, PodConnection, PortForward, Session
from ctrlhost_sandbox.apimachinery import status, times
from ctrlhost_sandbox.apimachinery.status import Failure, bad_request
from ctrlhost_sandbox.auth.authorizer import refusal
from ctrlhost_sandbox.http import websocket
from ctrlhost_sandbox.http.messages import Request, Response, Stream
from ctrlhost_sandbox.registry import meta, views
from ctrlhost_sandbox.schema.normalize import conform
from ctrlhost_sandbox.schema.shapes import builtin
from ctrlhost_sandbox.verbs import reads, writes

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation

_NOT_SERVED = ("ephemeralcontainers", "resize")
"""Sub-resources of pods that would change running containers."""
_LAST_PORT = 65535


def answer(context: ServerContext, request: Request, operation: Operation) -> Response | Stream | None:
    """Handle a request on a sub-resource; None if it is read and written like the object itself."""
    kind = operation.kind
    subresource = kind.subresource(operation.subresource)
    if subresource is None:
        raise status.not_found(kind.plural, kind.group, operation.name)
    if operation.verb not in subresource.verbs:
        raise status.method_not_allowed(operation.verb, kind.plural, kind.group)
    special = _SPECIAL.get(operation.subresource)
    if special is None and (subresource.kind.endswith("Options") or subresource.name in _NOT_SERVED):
        raise bad_request(f"{kind.plural}/{operation.subresource} is not supported by the sandbox")
    return None if special is None else special(context, request, operation)


def _scale(context: ServerContext, request: Request, operation: Operation) -> Response:
    if operation.verb == "get":
        scale = scaling.read(context, operation)
    elif operation.verb == "patch":
        scale = scaling.patch(context, operation, responses.media_type(request), request.body)
    else:
        scale = scaling.update(context, operation, responses.decode(request, "Scale"))
    return responses.respond(operation, responses.accepted_by(request), 200, views.encode(scale))


def _container(operation: Operation, pod: Object) -> str:
    """Return the container that a request names, by default the first one."""
    names = [container["name"] for container in pod["spec"]["containers"]]
    wanted = operation.query.first("container") or names[0]
    if wanted not in names:
        raise bad_request(f"container {wanted} is not valid for pod {operation.name}")
    return wanted


def _exec(context: ServerContext, request: Request, operation: Operation) -> Stream:
    """Run a program of the simulated kubelet in a container."""
    query = operation.query
    if not any(query.flag(name) for name in ("stdin", "stdout", "stderr")):
        raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
    if not query.first("command"):
        raise bad_request("you must specify at least 1 command")
    _container(operation, _running(context, request, operation))
    return _connected(context, request, operation, Exec(query["command"], stdin=query.flag("stdin")))


def _port_forward(context: ServerContext, request: Request, operation: Operation) -> Stream:
    """Connect to ports of a pod of the simulated kubelet."""
    pod = _running(context, request, operation)
    ports = [number for text in operation.query.get("ports", ()) for number in text.split(",")]
    if not ports:
        raise bad_request('query parameter "ports" is required: the sandbox forwards no ports over SPDY')
    for port in ports:
        if not port.isascii() or not port.isdigit() or not 0 < int(port[:6]) <= _LAST_PORT:
            raise bad_request(f'unable to parse "{port}" as a port')
    return _connected(context, request, operation, PortForward(pod, [int(port) for port in ports]))


def _running(context: ServerContext, request: Request, operation: Operation) -> Object:
    """Return the running pod of a connection; raise if there is none, or if the user has no right to connect."""
    # A WebSocket is opened by GET, but is used to write.
    if context.authorizer is not None and request.attributes is not None:
        attributes = replace(request.attributes, verb="create")
        decision = context.authorizer.authorize(operation.user, attributes)
        if not decision.allowed:
            raise refusal(operation.user, attributes, decision.reason)
        context.authorizer.note_use(operation.user, attributes)
    pod = views.load(operation.kind, reads.find(context, operation))
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {operation.name} does not have a host assigned")
    if (pod.get("status") or {}).get("phase") != "Running":
        name = pod["spec"]["containers"][0]["name"]
        raise Failure(500, "InternalError", f'unable to upgrade connection: container not found ("{name}")')
    return pod


def _connected(context: ServerContext, request: Request, operation: Operation, session: Session) -> Stream:
    if not websocket.is_requested(request):
        raise bad_request("Upgrade request required: the sandbox connects to pods over WebSockets only")
    return PodConnection(context, operation, session)


def _log(context: ServerContext, request: Request, operation: Operation) -> Response | Stream:
    """Return a few generated lines; a log that is followed continues until the container ends."""
    pod = views.load(operation.kind, reads.find(context, operation))
    wanted = _container(operation, pod)
    if not pod["spec"].get("nodeName"):
        return Response(204)
    started = (pod.get("status") or {}).get("startTime")
    if started is None:
        raise bad_request(f'container "{wanted}" in pod "{operation.name}" is waiting to start: ContainerCreating')
    lines = pod_logs.lines_of(pod, wanted)
    tail = request.query.number("tailLines")
    if tail is not None:
        lines = lines[len(lines) - tail :] if tail else []
    if request.query.flag("follow") and not pod_logs.has_ended(pod, wanted):
        return pod_logs.FollowedLog(context, operation, wanted, lines)
    return Response(200, pod_logs.text(lines), "text/plain")


def _admit(context: ServerContext, operation: Operation, body: Any) -> None:
    """Raise if admission refuses the object that is posted to a sub-resource."""
    if isinstance(body, dict):
        subresource = operation.kind.subresource(operation.subresource)
        kind = body.get("kind") or (subresource.kind if subresource is not None else "")
        chain.validate(context, operation, CREATE, {**body, "kind": kind}, None)


def _eviction(context: ServerContext, request: Request, operation: Operation) -> Response:
    body = responses.decode(request, "Eviction")
    _admit(context, operation, body)
    evictions.evict(context, operation, body)
    done = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return responses.json_answer(201, done)


def _binding(context: ServerContext, request: Request, operation: Operation) -> Response:
    body = responses.decode(request, "Binding")
    if isinstance(body, dict):
        body = conform(builtin("core.Binding"), body, "Binding", [])
    target = (body.get("target") or {}).get("name") if isinstance(body, dict) else None
    if not target:
        raise status.invalid("Binding", "", operation.name, [status.required("target.name")])
    _admit(context, operation, body)
    bind(context, operation, target)
    return responses.json_answer(201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})


def bind_posted(context: ServerContext, request: Request, operation: Operation) -> Response:
    """Handle a Binding that is posted to the collection of bindings: its name is the pod's."""
    body = responses.decode(request, "Binding")
    operation.kind, operation.subresource = context.registry.builtin("", "Pod"), "binding"
    operation.name = str(meta.ensure_metadata(body).get("name", "")) if isinstance(body, dict) else ""
    return _binding(context, request, operation)


def bind(context: ServerContext, operation: Operation, node: str) -> None:
    """Assign a pod to a node; 409 if it is assigned."""
    snapshot = reads.find(context, operation)
    old, pod = views.load(operation.kind, snapshot), views.load(operation.kind, snapshot)
    if pod["spec"].get("nodeName"):
        why = f'pod {operation.name} is already assigned to node "{node}"'
        raise status.conflict("pods/binding", "", operation.name, why)
    pod["spec"]["nodeName"] = node
    conditions = [item for item in pod["status"].get("conditions") or () if item["type"] != "PodScheduled"]
    now = {"lastProbeTime": None, "lastTransitionTime": times.now()}
    pod["status"]["conditions"] = [*conditions, {"type": "PodScheduled", "status": "True", **now}]
    operation.subresource = "binding"
    writes.replace(context, operation, snapshot, old, pod)


def _token(context: ServerContext, request: Request, operation: Operation) -> Response:
    accepted = responses.accepted_by(request, forms=False)
    body = responses.decode(request, "TokenRequest")
    _admit(context, operation, body)
    review = token_requests.request(context, operation, body)
    return responses.respond(operation, accepted, 201, views.encode(review))


_SPECIAL: dict[str, Callable[[ServerContext, Request, Operation], Response | Stream]] = {
    "scale": _scale,
    "log": _log,
    "exec": _exec,
    "portforward": _port_forward,
    "eviction": _eviction,
    "binding": _binding,
    "token": _token,
}
