"""Reviews: questions that are POSTed and answered, and not stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.sandbox import negotiation, resources, views

if TYPE_CHECKING:
    from ctrlhost.sandbox.call import Call, Object
    from ctrlhost.sandbox.engine import Engine
    from ctrlhost.sandbox.messages import Request, Response


def answer(engine: Engine, request: Request, call: Call) -> Response:
    """Answer a review."""
    obj = resources.decode_body(request, call)
    accepted = negotiation.accept(request.headers.get("accept", ""))
    kind = call.kind
    body: Object = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"creationTimestamp": None}}
    if isinstance(obj, dict) and "spec" in obj:
        body["spec"] = obj["spec"]
    if kind.kind == "SelfSubjectReview":
        user = {"username": call.user.name, "groups": list(call.user.groups)}
        if call.user.uid:
            user["uid"] = call.user.uid
        body["status"] = {"userInfo": user}
    elif kind.kind == "SelfSubjectAccessReview":
        body["status"] = {"allowed": True, "reason": "sandbox"}
    else:
        everything = ["*"]
        body["status"] = {
            "resourceRules": [{"verbs": everything, "apiGroups": everything, "resources": everything}],
            "nonResourceRules": [{"verbs": everything, "nonResourceURLs": everything}],
            "incomplete": False,
        }
    return resources.respond(call, accepted, 201, views.encode(body))
