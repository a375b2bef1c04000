"""Bodies of requests and answers: decoded and encoded as the headers say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost.sandbox.apimachinery.status import Failure
from ctrlhost.sandbox.encoding import negotiation
from ctrlhost.sandbox.http.messages import Request, Response
from ctrlhost.sandbox.verbs import tables

if TYPE_CHECKING:
    from ctrlhost.sandbox.encoding.negotiation import Accepted
    from ctrlhost.sandbox.registry.operation import Operation
    from ctrlhost.sandbox.registry.registry import Kind


def decode_body(request: Request, operation: Operation) -> Any:
    """Read the object in a request's body."""
    duplicates: list[str] | None = [] if operation.counts_fields else None
    content_type = request.headers.get("content-type", "")
    kind: Kind = operation.kind
    obj = negotiation.decode(content_type, request.body, "" if kind.custom is not None else kind.kind, duplicates)
    if duplicates:
        operation.problems += [f'duplicate field "{key}"' for key in duplicates]
    return obj


def respond(operation: Operation, accepted: Accepted, code: int, raw: bytes) -> Response:
    """Answer with one object in the form that was asked for."""
    if accepted.form == "PartialObjectMetadataList":
        raise Failure(406, "NotAcceptable", "an object can not be answered as a list")
    if accepted.form:
        raw = tables.present_object(operation, accepted, raw)
    return encoded(accepted, code, raw)


def encoded(accepted: Accepted, code: int, raw: bytes) -> Response:
    """Answer with JSON, or with YAML if the client asked for it."""
    if accepted.media == negotiation.YAML:
        return Response(code, negotiation.encode_yaml(raw), negotiation.YAML)
    return Response(code, raw)


def json_answer(code: int, value: Any) -> Response:
    """Answer with a value."""
    return Response(code, msgspec.json.encode(value))
