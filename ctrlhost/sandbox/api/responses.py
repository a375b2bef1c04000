"""Decoding of request bodies and encoding of responses, by the headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost.sandbox.apimachinery.status import Failure
from ctrlhost.sandbox.encoding import negotiation
from ctrlhost.sandbox.http.messages import Request, Response
from ctrlhost.sandbox.verbs import tables

if TYPE_CHECKING:
    from ctrlhost.sandbox.apimachinery.repeated import Repeated
    from ctrlhost.sandbox.encoding.negotiation import Accepted
    from ctrlhost.sandbox.registry.operation import Operation


def accepted_by(request: Request, *, forms: bool = True) -> Accepted:
    """Return the encoding that the client accepts; without `forms`, 406 for a Table or PartialObjectMetadata."""
    return negotiation.accept(request.headers.get("accept", ""), forms=forms)


def decode(request: Request, kind: str, repeated: Repeated | None = None) -> Any:
    """Decode a request's body, which may be protobuf unless `kind` is ""."""
    return negotiation.decode(request.headers.get("content-type", ""), request.body, kind, repeated)


def media_type(request: Request) -> str:
    """Return the media type of a request's body."""
    return negotiation.media_type(request.headers.get("content-type", ""))


def decode_body(request: Request, operation: Operation) -> Any:
    """Decode the object in a request's body."""
    repeated = operation.repeated if operation.counts_fields else None
    return decode(request, "" if operation.kind.custom is not None else operation.kind.kind, repeated)


def respond(operation: Operation, accepted: Accepted, code: int, raw: bytes) -> Response:
    """Respond with one object in the requested form."""
    if accepted.form == "PartialObjectMetadataList":
        raise Failure(406, "NotAcceptable", "cannot return an object as a list")
    if accepted.form:
        raw = tables.present_object(operation, accepted, raw)
    return encoded(accepted, code, raw)


def encoded(accepted: Accepted, code: int, raw: bytes) -> Response:
    """Respond with JSON in the accepted encoding."""
    return Response(code, accepted.encode(raw), accepted.media)


def json_answer(code: int, value: Any) -> Response:
    """Respond with a value as JSON."""
    return Response(code, msgspec.json.encode(value))
