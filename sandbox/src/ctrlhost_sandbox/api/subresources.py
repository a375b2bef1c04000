"""Sub-resources: status, scale, finalize, and those of pods and service accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.admission import chain
from ctrlhost_sandbox.admission.request import CREATE
from ctrlhost_sandbox.api import evictions, pod_logs, responses, scaling, token_requests
from ctrlhost_sandbox.apimachinery import status, times
from ctrlhost_sandbox.apimachinery.status import bad_request
from ctrlhost_sandbox.http.messages import Request, Response, Stream
from ctrlhost_sandbox.registry import meta, views
from ctrlhost_sandbox.schema.normalize import conform
from ctrlhost_sandbox.schema.shapes import builtin
from ctrlhost_sandbox.verbs import reads, writes

if TYPE_CHECKING:
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation

_NOT_SERVED = ("ephemeralcontainers", "resize")
"""Sub-resources of pods that would change running containers."""


def answer(context: ServerContext, request: Request, operation: Operation) -> Response | Stream | None:
    """Handle a request on a sub-resource; None if it is read and written like the object itself."""
    kind = operation.kind
    subresource = kind.subresource(operation.subresource)
    if subresource is None:
        raise status.not_found(kind.plural, kind.group, operation.name)
    if operation.verb not in subresource.verbs:
        raise status.method_not_allowed(operation.verb, kind.plural, kind.group)
    if subresource.kind.endswith("Options") or subresource.name in _NOT_SERVED:
        raise bad_request(f"{kind.plural}/{operation.subresource} is not supported by the sandbox")
    special = _SPECIAL.get(operation.subresource)
    return None if special is None else special(context, request, operation)


def _scale(context: ServerContext, request: Request, operation: Operation) -> Response:
    if operation.verb == "get":
        scale = scaling.read(context, operation)
    elif operation.verb == "patch":
        scale = scaling.patch(context, operation, responses.media_type(request), request.body)
    else:
        scale = scaling.update(context, operation, responses.decode(request, "Scale"))
    return responses.respond(operation, responses.accepted_by(request), 200, views.encode(scale))


def _log(context: ServerContext, request: Request, operation: Operation) -> Response | Stream:
    """Return a few generated lines; a log that is followed continues until the container ends."""
    pod = views.load(operation.kind, reads.find(context, operation))
    names = [container["name"] for container in pod["spec"]["containers"]]
    wanted = request.query.first("container") or names[0]
    if wanted not in names:
        raise bad_request(f"container {wanted} is not valid for pod {operation.name}")
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


_SPECIAL = {"scale": _scale, "log": _log, "eviction": _eviction, "binding": _binding, "token": _token}
