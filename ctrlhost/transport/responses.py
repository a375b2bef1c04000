"""Decode the server's responses: an object, or a failure with its `Status`."""

from __future__ import annotations

import re
import time
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from ctrlhost._core import status_from_protobuf
from ctrlhost.errors import ApiError, Forbidden, TransportError, from_status

if TYPE_CHECKING:
    from ctrlhost.transport.interface import Response

#: The longest time, in seconds, that a server may ask to wait before a retry.
LONGEST_RETRY_AFTER = 300.0
_EXCERPT = 200
#: What a server written in Go says to plain HTTP on a port for TLS.
_NOT_TLS = b"HTTP request to an HTTPS server"
#: As authorizers of Kubernetes say it.
_MISSED_RIGHT = re.compile(
    r' cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)
_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode_object(response: Response, what: str) -> dict[str, Any]:
    """Return the object of a successful response; ApiError for a failure, TransportError for anything else."""
    if not 200 <= response.status < 300:
        raise error_from_response(response, what)
    try:
        decoded = msgspec.json.decode(response.body)
    except _DECODE_ERRORS as error:
        problem = (
            "is HTML, as of a proxy or a login page, not JSON" if _is_html(response.body) else f"is not JSON ({error})"
        )
        raise TransportError(f"{what}: the response {problem}: {_excerpt(response.body)}") from error
    if not isinstance(decoded, dict):
        raise TransportError(f"{what}: the response is not an object: {_excerpt(response.body)}")
    return decoded


def error_from_response(response: Response, what: str) -> ApiError:
    """Return the error of a failed response, from its `Status` or from the text of its body."""
    retry_after = _retry_after(response.headers.get("retry-after", "").strip())
    if 300 <= response.status < 400:
        place = _host(response.headers.get("location", ""))
        message = f"{what}: the server answered {response.status} and points to {place}, where nothing is sent"
        return from_status(response.status, "", message, (), retry_after)
    try:
        status = msgspec.json.decode(_as_json(response))
    except (*_DECODE_ERRORS, ValueError):
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return error_from_status({**status, "code": response.status}, retry_after)
    page = " with HTML, as of a proxy or a login page" if _is_html(response.body) else ""
    excerpt = _excerpt(response.body)
    if _NOT_TLS in response.body[: 2 * _EXCERPT]:
        excerpt = "the server speaks TLS on this port: use an https URL"
    message = f"{what}: the server answered {response.status}{page}" + (f": {excerpt}" if excerpt else "")
    return from_status(response.status, "", message, (), retry_after)


def names_no_object(response: Response) -> bool:
    """Return whether a response says that the server does not serve the path or the verb, whatever the object."""
    if response.status not in (404, 405):
        return False
    try:
        status = msgspec.json.decode(_as_json(response))
    except (*_DECODE_ERRORS, ValueError):
        return True
    details = status.get("details") if isinstance(status, dict) else None
    return response.status == 405 or not (isinstance(details, dict) and details.get("name"))


def _as_json(response: Response) -> bytes:
    """Return the body of a failure, which is in the encoding that was asked for."""
    media = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return status_from_protobuf(response.body) if media == "application/vnd.kubernetes.protobuf" else response.body


def error_from_status(status: dict[str, Any], retry_after: float | None = None) -> ApiError:
    """Return the error of a `Status` object; malformed fields are treated as unset."""
    details = status.get("details")
    details = details if isinstance(details, dict) else {}
    causes = details.get("causes")
    code, after = status.get("code"), details.get("retryAfterSeconds")
    if retry_after is None and isinstance(after, int | float) and after > 0:
        retry_after = min(float(after), LONGEST_RETRY_AFTER)
    error = from_status(
        code if isinstance(code, int) else 500,
        str(status.get("reason") or ""),
        str(status.get("message") or ""),
        [cause for cause in causes if isinstance(cause, dict)] if isinstance(causes, list) else (),
        retry_after,
    )
    missed = _MISSED_RIGHT.search(error.message) if isinstance(error, Forbidden) else None
    if missed is not None and isinstance(error, Forbidden):
        error.right = missed["namespace"] or "", missed["group"], missed["resource"], missed["verb"]
        error.hint = _right_to_add(*error.right[1:])
    return error


def _right_to_add(group: str, resource: str, verb: str) -> str:
    """Return how an author declares a right."""
    right = f'"{group}", ["{resource}"], ["{verb}"]'
    return f"plugin.permission({right}), or with hooks ctrlhost.Permission({right}) in `ctrlhost_permissions`"


def _retry_after(header: str) -> float | None:
    """Return the seconds that the header asks for, at most `LONGEST_RETRY_AFTER`; None if it is absent or invalid."""
    if re.fullmatch(r"[0-9]+", header):
        # Longer numbers than these are too large to convert, and are the limit anyway.
        return min(float(header[:300]), LONGEST_RETRY_AFTER)
    try:
        # The API server sends seconds; a proxy before it may send a date.
        date = parsedate_to_datetime(header)
    except ValueError:
        return None
    left = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - time.time()
    return min(left, LONGEST_RETRY_AFTER) if left > 0 else None


def _host(location: str) -> str:
    """Return the host of a URL, without user and password."""
    try:
        return urlsplit(location).hostname or "no other host"
    except ValueError:
        return "an invalid URL"


def _is_html(body: bytes) -> bool:
    """Return whether a body begins as HTML does, whatever its content type says."""
    return re.match(rb"\s*<[a-zA-Z!?]", body) is not None


def _excerpt(body: bytes) -> str:
    """Return the beginning of a body as one line of plain text, for a message."""
    text = body[: 4 * _EXCERPT].decode("utf-8", "replace")
    text = re.sub(r"(?is)<(script|style)\b.*?(</\1>|$)|<[^>]*>", " ", text)
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line[:_EXCERPT] + ("…" if len(line) > _EXCERPT else "")
