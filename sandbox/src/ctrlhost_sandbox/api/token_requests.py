"""The sub-resource `token` of service accounts, and reviews of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status, times
from ctrlhost_sandbox.apimachinery.status import Cause, bad_request
from ctrlhost_sandbox.auth.tokens import AUDIENCES, BOUND
from ctrlhost_sandbox.registry import meta
from ctrlhost_sandbox.schema.normalize import conform
from ctrlhost_sandbox.schema.shapes import builtin
from ctrlhost_sandbox.verbs import reads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation
    from ctrlhost_sandbox.storage.store import Snapshot

_DEFAULT_SECONDS, _LEAST_SECONDS, _MOST_SECONDS = 3600, 600, 2**32
_KIND, _GROUP = "TokenRequest", "authentication.k8s.io"


def request(context: ServerContext, operation: Operation, body: Any) -> Object:
    """Issue a token for the operation's service account."""
    account = reads.find(context, operation)
    if not isinstance(body, dict):
        raise bad_request("the request body must be an object of kind TokenRequest")
    named = (body.get("apiVersion") or f"{_GROUP}/v1", body.get("kind") or _KIND)
    if named != (f"{_GROUP}/v1", _KIND):
        raise bad_request(f"the body is a {named[1]} of {named[0]}, expected a {_KIND} of {_GROUP}/v1")
    if meta.ensure_metadata(body).get("namespace") not in (None, "", operation.namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    body = conform(builtin("authentication.TokenRequest"), body, _KIND, [])
    spec = body.get("spec") or {}
    spec.setdefault("expirationSeconds", _DEFAULT_SECONDS)
    if causes := list(_causes(operation, meta.ensure_metadata(body), spec)):
        raise status.invalid(_KIND, _GROUP, "", causes)
    audiences = spec["audiences"] = spec.get("audiences") or list(AUDIENCES)
    bound = _bound(context, operation, spec.get("boundObjectRef"))
    token, until = context.tokens.issue(account, spec["expirationSeconds"], audiences, bound)
    metadata = {"name": account.name, "namespace": account.namespace, "creationTimestamp": times.now()}
    ends = {"token": token, "expirationTimestamp": times.seconds(until)}
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": _KIND,
        "metadata": metadata,
        "spec": {"boundObjectRef": None, **spec},
        "status": ends,
    }


def _causes(operation: Operation, metadata: dict[str, Any], spec: dict[str, Any]) -> Iterator[Cause]:
    sent = metadata.get("name")
    if sent and sent != operation.name:
        yield status.invalid_value("metadata.name", sent, "must match the service account name if specified")
    seconds = spec["expirationSeconds"]
    if not _LEAST_SECONDS <= seconds <= _MOST_SECONDS:
        bound = "less than 10 minutes" if seconds < _LEAST_SECONDS else "larger than 2^32 seconds"
        yield status.invalid_value("spec.expirationSeconds", seconds, f"may not specify a duration {bound}")


def _bound(context: ServerContext, operation: Operation, reference: Any) -> tuple[str, Snapshot] | None:
    """Return the object that the token is bound to."""
    if reference is None:
        return None
    kind, version = reference.get("kind", ""), reference.get("apiVersion", "")
    member = kind.lower()
    if member not in BOUND or kind != member.capitalize() or version != "v1":
        group, _, version = version.rpartition("/")
        raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
    name, table = reference.get("name", ""), BOUND[member]
    snapshot = context.store.table(table).get("" if member == "node" else operation.namespace, name)
    if snapshot is None:
        raise status.not_found(table, "", name)
    uid = reference.get("uid")
    if uid and uid != snapshot.uid:
        raise status.conflict(
            table, "", name, f"the UID in the bound object reference ({uid}) is not that of the object"
        )
    if member == "pod" and snapshot.decode()["spec"].get("serviceAccountName") != operation.name:
        raise bad_request(
            f"cannot bind token for serviceaccount {operation.name!r} to a pod of another service account"
        )
    return member, snapshot


def review(context: ServerContext, body: Object) -> Object:
    """Return the spec and status of a TokenReview."""
    spec = body.get("spec") or {}
    token = spec.get("token")
    if not token:
        raise bad_request("token is required for TokenReview in authentication")
    wanted = spec.get("audiences") or AUDIENCES
    owner = context.identity.authenticate_token(token, wanted)
    if owner is None:
        return {"spec": spec, "status": {"user": {}, "error": "invalid bearer token"}}
    user, audiences = owner
    return {"spec": spec, "status": {"authenticated": True, "user": user.as_dict(), "audiences": audiences}}
