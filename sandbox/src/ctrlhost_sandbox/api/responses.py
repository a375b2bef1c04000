"""Decoding of request bodies and encoding of responses, by the headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost_sandbox.apimachinery.status import Failure
from ctrlhost_sandbox.encoding import negotiation
from ctrlhost_sandbox.http.messages import Request, Response
from ctrlhost_sandbox.verbs import tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost_sandbox.apimachinery.repeated import Repeated
    from ctrlhost_sandbox.encoding.negotiation import Accepted
    from ctrlhost_sandbox.registry.operation import Operation

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_SHOWN_TO_PEOPLE = ("Mozilla/5.0", "Wget", "curl")

_LONGEST_WARNINGS, _LONGEST_CUT_WARNING = 4096, 256


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


def warnings(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return the headers for warnings, at most 20; if they are long together, the beginnings of the first."""
    escaped = str.maketrans({"\\": "\\\\", '"': '\\"', "\r": " ", "\n": " "})
    shown = list(texts[:20])
    if sum(map(len, shown)) > _LONGEST_WARNINGS:
        shown = [text[:_LONGEST_CUT_WARNING] for text in shown][: _LONGEST_WARNINGS // _LONGEST_CUT_WARNING]
    return [("Warning", f'299 - "{text.translate(escaped)}"') for text in shown]


def is_pretty(request: Request) -> bool:
    """Return whether the client wants JSON in lines: it says so, or it is a browser or a tool for terminals."""
    wanted = request.query.first("pretty")
    if wanted:
        return wanted in _TRUE
    return request.headers.get("user-agent", "").startswith(_SHOWN_TO_PEOPLE)


def in_lines(answer: Response) -> None:
    """Format JSON in lines, without a newline at the end."""
    if answer.content_type == negotiation.JSON:
        answer.body = msgspec.json.format(answer.body, indent=2)


def json_answer(code: int, value: Any) -> Response:
    """Respond with a value as JSON, which ends with a newline as that of objects does."""
    return Response(code, msgspec.json.encode(value) + b"\n")


def document(request: Request, value: Any, code: int = 200) -> Response:
    """Respond with a document that is no object, as YAML if the client prefers that, else as JSON."""
    accepted = (media for media, _ in negotiation.clauses(request.headers.get("accept", "")))
    if next((media for media in accepted if media in (negotiation.JSON, negotiation.YAML)), "") == negotiation.YAML:
        return Response(code, negotiation.encode_yaml(msgspec.json.encode(value)), negotiation.YAML)
    return json_answer(code, value)
