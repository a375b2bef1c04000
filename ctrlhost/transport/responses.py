"""Read what the server answered: an object, or a failure with its `Status`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost.errors import ApiError, TransportError, from_status
from ctrlhost.typed_json import learn

if TYPE_CHECKING:
    from ctrlhost.transport.interface import Response

_TEXT_SHOWN = 200


class _Details(msgspec.Struct):
    causes: list[dict[str, Any]] | None = None
    retry_after: float | None = msgspec.field(default=None, name="retryAfterSeconds")


class _Status(msgspec.Struct):
    kind: str | None = None
    message: str | None = None
    reason: str | None = None
    details: _Details | None = None


learn(_Status)


def decode_object(response: Response, what: str) -> dict[str, Any]:
    """Give the object of a successful answer; ApiError if the server refused, TransportError for anything else."""
    if not 200 <= response.status < 300:
        raise error_from_answer(response, what)
    try:
        decoded = msgspec.json.decode(response.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TransportError(f"{what}: the answer is no JSON ({error}): {_shown(response.body)}") from error
    if not isinstance(decoded, dict):
        raise TransportError(f"{what}: the answer is no object: {_shown(response.body)}")
    return decoded


def error_from_answer(response: Response, what: str) -> ApiError:
    """Make the error for an answer that is no success, from its `Status` or from what can be read of it."""
    retry_after = _seconds(response.headers.get("retry-after"))
    try:
        status = msgspec.json.decode(response.body, type=_Status)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        status = _Status()
    if status.kind != "Status":
        shown = _shown(response.body)
        message = f"{what}: the server answered {response.status}" + (f": {shown}" if shown else "")
        return from_status(response.status, "", message, (), retry_after)
    details = status.details or _Details()
    if retry_after is None:
        retry_after = details.retry_after
    return from_status(response.status, status.reason or "", status.message or "", details.causes or (), retry_after)


def error_from_status(status: dict[str, Any]) -> ApiError:
    """Make the error for a `Status` object that arrived inside a stream."""
    details = status.get("details")
    details = details if isinstance(details, dict) else {}
    causes = [cause for cause in details.get("causes") or () if isinstance(cause, dict)]
    code = status.get("code")
    after = details.get("retryAfterSeconds")
    return from_status(
        code if isinstance(code, int) else 500,
        str(status.get("reason") or ""),
        str(status.get("message") or ""),
        causes,
        float(after) if isinstance(after, int | float) and after > 0 else None,
    )


def _seconds(value: str | None) -> float | None:
    """Read `Retry-After` in seconds; the API server never sends a date."""
    if value is None or not re.fullmatch(r"[0-9]{1,9}", value.strip()):
        return None
    return float(value)


def _shown(body: bytes) -> str:
    """Give the beginning of a body as one line of plain text, for a message."""
    text = body[: 4 * _TEXT_SHOWN].decode("utf-8", "replace")
    text = re.sub(r"(?is)<(script|style)\b.*?(</\1>|$)|<[^>]*>", " ", text)
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line[:_TEXT_SHOWN] + ("…" if len(line) > _TEXT_SHOWN else "")
