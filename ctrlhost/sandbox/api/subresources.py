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
    from ctrlhost.sandbox.context import Engine
    from ctrlhost.sandbox.registry.operation import Call

CONNECTS = ("exec", "attach", "portforward", "proxy", "ephemeralcontainers", "resize")


def answer(engine: Engine, request: Request, call: Call) -> Response:
    """Answer a request on a sub-resource."""
    kind = call.kind
    found = kind.subresource(call.subresource)
    if found is None and kind.plural != "pods":
        raise status.not_found(kind.plural, kind.group, call.name)
    if found is None:
        raise bad_request(f"pods/{call.subresource} is not supported by the sandbox")
    if call.verb not in found.verbs:
        raise status.method_not_allowed(call.verb, kind.plural, kind.group)
    special = _SPECIAL.get(call.subresource)
    if special is not None:
        return special(engine, request, call)
    accepted = negotiation.accept(request.headers.get("accept", ""))
    if call.verb == "get":
        snapshot = reads.get(engine, call, request.received)
        return responses.respond(call, accepted, 200, views.raw(kind, snapshot))
    if call.verb == "patch":
        media = negotiation.media_type(request.headers.get("content-type", ""))
        written = patch.patch(engine, call, media, request.body)
    else:
        written = writes.update(engine, call, responses.decode_body(request, call))
    return responses.respond(call, accepted, written.code, written.raw or views.encode(written.obj))


def _scale(engine: Engine, request: Request, call: Call) -> Response:
    if call.verb == "get":
        scale = scaling.read(engine, call)
    elif call.verb == "patch":
        media = negotiation.media_type(request.headers.get("content-type", ""))
        scale = scaling.patch(engine, call, media, request.body)
    else:
        scale = scaling.update(engine, call, _body(request, "Scale"))
    accepted = negotiation.accept(request.headers.get("accept", ""))
    return responses.respond(call, accepted, 200, views.encode(scale))


def _body(request: Request, kind: str) -> Any:
    return negotiation.decode(request.headers.get("content-type", ""), request.body, kind)


def _log(engine: Engine, request: Request, call: Call) -> Response:
    """Make up a few lines."""
    pod = views.load(call.kind, reads.find(engine, call))
    names = [container["name"] for container in pod["spec"]["containers"]]
    wanted = request.query.first("container") or names[0]
    if wanted not in names:
        raise bad_request(f"container {wanted} is not valid for pod {call.name}")
    if not pod["spec"].get("nodeName"):
        return Response(200, b"", "text/plain")
    started = (pod.get("status") or {}).get("startTime")
    if started is None:
        raise bad_request(f'container "{wanted}" in pod "{call.name}" is waiting to start: ContainerCreating')
    lines = [f"{started} {wanted} started", f"{started} {wanted} runs nothing: this is a sandbox"]
    tail = request.query.number("tailLines")
    if tail is not None:
        lines = lines[len(lines) - tail :] if tail else []
    return Response(200, "".join(f"{line}\n" for line in lines).encode(), "text/plain")


def _eviction(engine: Engine, request: Request, call: Call) -> Response:
    body = _body(request, "Eviction")
    options = body.get("deleteOptions") if isinstance(body, dict) else None
    deletes.delete(engine, call, deletes.read_options(call, options))
    done = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return responses.json_answer(201, done)


def _binding(engine: Engine, request: Request, call: Call) -> Response:
    body = _body(request, "Binding")
    target = (body.get("target") or {}).get("name") if isinstance(body, dict) else None
    if not target:
        raise status.invalid("Binding", "", call.name, [status.required("target.name")])
    bind(engine, call, target)
    return responses.json_answer(201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})


def bind(engine: Engine, call: Call, node: str) -> None:
    """Place a pod on a node; 409 if it is on one."""
    snapshot = reads.find(engine, call)
    old, pod = views.load(call.kind, snapshot), views.load(call.kind, snapshot)
    if pod["spec"].get("nodeName"):
        why = f'pod {call.name} is already assigned to node "{node}"'
        raise status.conflict("pods/binding", "", call.name, why)
    pod["spec"]["nodeName"] = node
    conditions = [item for item in pod["status"].get("conditions") or () if item["type"] != "PodScheduled"]
    conditions.append(
        {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": times.now()}
    )
    pod["status"]["conditions"] = conditions
    call.subresource = "binding"
    writes.replace(engine, call, snapshot, old, pod)


def _token(engine: Engine, request: Request, call: Call) -> Response:
    made = token_requests.request(engine, call, _body(request, "TokenRequest"))
    accepted = negotiation.accept(request.headers.get("accept", ""))
    return responses.respond(call, accepted, 201, views.encode(made))


_SPECIAL = {"scale": _scale, "log": _log, "eviction": _eviction, "binding": _binding, "token": _token}
