"""Reviews: kinds that are POSTed and answered but not stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.admission import objects
from ctrlhost_sandbox.api import responses, token_requests
from ctrlhost_sandbox.apimachinery import status, times
from ctrlhost_sandbox.apimachinery.objects import User
from ctrlhost_sandbox.apimachinery.status import bad_request, invalid_value
from ctrlhost_sandbox.auth.rbac_rules import EVERYTHING
from ctrlhost_sandbox.http.messages import Attributes
from ctrlhost_sandbox.registry import views
from ctrlhost_sandbox.verbs import writes

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.http.messages import Request, Response
    from ctrlhost_sandbox.registry.operation import Operation

_GROUP = "authorization.k8s.io"


def answer(context: ServerContext, request: Request, operation: Operation) -> Response:
    """Handle a review."""
    accepted = responses.accepted_by(request, forms=False)
    obj = objects.conform_object(operation, writes.decode_type(operation, responses.decode_body(request, operation)))
    review = {"apiVersion": operation.kind.api_version, "kind": operation.kind.kind, "metadata": {}}
    review |= _ANSWERS[operation.kind.kind](context, operation, obj)
    return responses.respond(operation, accepted, 201, views.encode(review))


def _who(_context: ServerContext, operation: Operation, _obj: Object) -> Object:
    return {"metadata": {"creationTimestamp": times.now()}, "status": {"userInfo": operation.user.as_dict()}}


def _own_access(context: ServerContext, operation: Operation, obj: Object) -> Object:
    spec = obj.get("spec") or {}
    return {"spec": spec, "status": _decide(context, operation.user, _attributes(spec))}


def _access(context: ServerContext, operation: Operation, obj: Object) -> Object:
    spec = obj.get("spec") or {}
    attributes = _attributes(spec)
    if not spec.get("user") and not spec.get("groups"):
        raise _invalid("spec.user", "", "at least one of user or group must be specified")
    answer: Object = {"spec": spec}
    if operation.namespace:
        if "nonResourceAttributes" in spec:
            why = "disallowed on this kind of request"
            raise _invalid("spec.nonResourceAttributes", spec["nonResourceAttributes"], why)
        if attributes.namespace != operation.namespace:
            raise _invalid("spec.resourceAttributes.namespace", attributes.namespace, "must match metadata.namespace")
        answer["metadata"] = {"namespace": operation.namespace}
    extra = tuple((key, tuple(values)) for key, values in (spec.get("extra") or {}).items())
    user = User(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""), extra)
    return {**answer, "status": _decide(context, user, attributes)}


def _own_rules(context: ServerContext, operation: Operation, obj: Object) -> Object:
    namespace = (obj.get("spec") or {}).get("namespace", "")
    if not namespace:
        raise bad_request("no namespace on request")
    if context.authorizer is None:
        rules, errors = list(EVERYTHING), list[str]()
    else:
        rules, errors = context.authorizer.collect_rules(operation.user, namespace)
    granted: dict[str, Any] = {
        "resourceRules": [rule.as_dict() for rule in rules if rule.resources],
        "nonResourceRules": [rule.as_dict() for rule in rules if rule.urls],
        "incomplete": False,
    }
    if errors:
        granted["evaluationError"] = status.joined(errors)
    return {"spec": {}, "status": granted}


def _attributes(spec: dict[str, Any]) -> Attributes:
    """Return the attributes that a review asks about; 422 unless there is exactly one kind of them."""
    on_resource: dict[str, str] | None = spec.get("resourceAttributes")
    on_path: dict[str, str] | None = spec.get("nonResourceAttributes")
    if on_resource is None and on_path is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise _invalid("spec.resourceAttributes", None, why)
    if on_resource is not None and on_path is not None:
        why = "cannot be specified in combination with resourceAttributes"
        raise _invalid("spec.nonResourceAttributes", on_path, why)
    if on_resource is None:
        assert on_path is not None
        return Attributes(on_path.get("verb", ""), on_path.get("path", ""))
    keys = ("group", "version", "resource", "subresource", "namespace", "name")
    return Attributes(on_resource.get("verb", ""), "", *(on_resource.get(key, "") for key in keys))


def _decide(context: ServerContext, user: User, attributes: Attributes) -> dict[str, Any]:
    if context.authorizer is None:
        return {"allowed": True, "reason": "sandbox"}
    decision = context.authorizer.authorize(user, attributes)
    verdict: dict[str, Any] = {"allowed": decision.allowed}
    if decision.reason:
        verdict["reason"] = decision.reason
    return verdict


def _invalid(field: str, value: Any, why: str) -> status.Failure:
    return status.invalid("", _GROUP, "", [invalid_value(field, value, why)])


_ANSWERS: dict[str, Callable[[ServerContext, Operation, Object], Object]] = {
    "SelfSubjectReview": _who,
    "SelfSubjectAccessReview": _own_access,
    "SubjectAccessReview": _access,
    "LocalSubjectAccessReview": _access,
    "SelfSubjectRulesReview": _own_rules,
    "TokenReview": lambda context, _, obj: token_requests.review(context, obj),
}
