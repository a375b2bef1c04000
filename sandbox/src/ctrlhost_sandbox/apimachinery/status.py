"""Failures as the `Status` objects that clients branch on."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: The usual reason for each code.
REASONS: Final[dict[int, str]] = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
    507: "InsufficientStorage",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of `details.causes`: an invalid field, and why."""

    reason: str
    message: str
    field: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return the entry in wire form."""
        entry = {"reason": self.reason, "message": self.message} if self.reason else {"message": self.message}
        if self.field:
            entry["field"] = self.field
        return entry


@dataclass(eq=False)
class Failure(Exception):
    """Raised anywhere below the request handler; becomes the response's `Status`."""

    code: int
    reason: str
    message: str
    _: KW_ONLY
    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: Sequence[Cause] = ()
    retry_after: int | None = None
    continue_: str = ""
    warnings: Sequence[str] = ()
    """Sent beside the response."""

    def __str__(self) -> str:
        """Return the message."""
        return self.message

    def as_dict(self) -> dict[str, Any]:
        """Return the `Status` object."""
        members: dict[str, Any] = {key: getattr(self, key) for key in ("name", "group", "kind", "uid")}
        members |= {"causes": [cause.as_dict() for cause in self.causes], "retryAfterSeconds": self.retry_after}
        details = {key: value for key, value in members.items() if value not in ("", [], None)}
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.continue_} if self.continue_ else {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if details:
            status["details"] = details
        status["code"] = self.code
        return status


class Raced(Failure):
    """The object was written while the request waited for a webhook: begin again."""


def qualified(resource: str, group: str) -> str:
    """Return a resource's name as messages show it: `pods`, `deployments.apps`."""
    return f"{resource}.{group}" if group else resource


def joined(texts: Iterable[str]) -> str:
    """Join messages as Go's aggregated errors do: several are in brackets."""
    first, *others = texts
    return f"[{', '.join((first, *others))}]" if others else first


def not_found(resource: str, group: str, name: str) -> Failure:
    """Return a 404: the object does not exist."""
    text = f'{qualified(resource, group)} "{name}" not found'
    return Failure(404, "NotFound", text, name=name, group=group, kind=resource)


def already_exists(resource: str, group: str, name: str, prefix: str = "") -> Failure:
    """Return a 409: the name is in use."""
    text = f'{prefix}{qualified(resource, group)} "{name}" already exists'
    return Failure(409, "AlreadyExists", text, name=name, group=group, kind=resource)


def conflict(resource: str, group: str, name: str, why: str) -> Failure:
    """Return a 409: the write is based on outdated state."""
    text = f'Operation cannot be fulfilled on {qualified(resource, group)} "{name}": {why}'
    return Failure(409, "Conflict", text, name=name, group=group, kind=resource)


def forbidden(resource: str, group: str, name: str, why: str, causes: Sequence[Cause] = ()) -> Failure:
    """Return a 403: the server refuses the operation."""
    text = f'{qualified(resource, group)} "{name}" is forbidden: {why}'
    return Failure(403, "Forbidden", text, name=name, group=group, kind=resource, causes=causes)


def bad_request(message: str) -> Failure:
    """Return a 400: the request is malformed."""
    return Failure(400, "BadRequest", message)


def invalid(kind: str, group: str, name: str, causes: Iterable[Cause]) -> Failure:
    """Return a 422 that names every rule the object breaks."""
    listed = list(causes)
    # The message has each text once, as Go's aggregated errors do; the causes may repeat.
    texts = dict.fromkeys(f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in listed)
    text = joined(texts)
    message = f'{qualified(kind, group)} "{name}" is invalid: {text}'
    return Failure(422, "Invalid", message, name=name, group=group, kind=kind, causes=listed)


def method_not_allowed(verb: str, resource: str, group: str) -> Failure:
    """Return a 405: the resource does not support the verb."""
    text = f'{verb} is not supported on resources of kind "{qualified(resource, group)}"'
    return Failure(405, "MethodNotAllowed", text, group=group, kind=resource)


def no_such_method() -> Failure:
    """Return a 405: the path has other methods."""
    return Failure(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def expired(message: str, continue_: str = "") -> Failure:
    """Return a 410: the requested revision was compacted."""
    return Failure(410, "Expired", message, continue_=continue_)


def timeout(message: str, *, too_large: bool = False) -> Failure:
    """Return a 504: the requested state was not reached in time."""
    causes = [Cause("ResourceVersionTooLarge", "Too large resource version")] if too_large else []
    return Failure(504, "Timeout", f"Timeout: {message}", causes=causes, retry_after=1)


def internal(message: str) -> Failure:
    """Return a 500: a defect of the server."""
    text = f"Internal error occurred: {message}"
    return Failure(500, "InternalError", text, causes=[Cause("", message)])


def number(value: float) -> str:
    """Format a number like Go's `%v`: the shortest digits, with an exponent from 1e+06 on if it is a float."""
    if isinstance(value, int):
        return str(value)
    sign, digits, point = Decimal(repr(value)).normalize().as_tuple()
    exponent = len(digits) - 1 + int(point)
    if not any(digits) or -4 <= exponent < 6:
        return f"{Decimal(repr(value)).normalize():f}"
    fraction = "".join(map(str, digits[1:]))
    return f"{'-' * sign}{digits[0]}{'.' * bool(fraction)}{fraction}e{exponent:+03d}"


def limit(count: int, unit: str) -> str:
    """Return a limit with its unit: `1 item`, `2 items`."""
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


def show(value: Any) -> str:
    """Format a value as cause messages show it, as JSON of at most 1000 characters."""
    text = number(value) if isinstance(value, float) else msgspec.json.encode(value).decode()
    return text if len(text) <= 1000 else text[:1000] + "..."


def required(field: str, detail: str = "") -> Cause:
    """Return the cause of a missing field."""
    return Cause("FieldValueRequired", "Required value" + (f": {detail}" if detail else ""), field)


def invalid_value(field: str, value: Any, detail: str) -> Cause:
    """Return the cause of a value that breaks a rule."""
    return Cause("FieldValueInvalid", f"Invalid value: {show(value)}: {detail}", field)


def invalid_values(field: str, value: Any, details: Iterable[str]) -> list[Cause]:
    """Return a cause for each rule that a value breaks."""
    return [invalid_value(field, value, detail) for detail in details]


def wrong_type(field: str, value: Any, detail: str) -> Cause:
    """Return the cause of a value with the wrong JSON type."""
    return Cause("FieldValueTypeInvalid", f"Invalid value: {show(value)}: {detail}", field)


def not_supported(field: str, value: Any, allowed: Iterable[str]) -> Cause:
    """Return the cause of a value that is not among the allowed ones."""
    values = ", ".join(f'"{item}"' for item in allowed)
    return Cause("FieldValueNotSupported", f"Unsupported value: {show(value)}: supported values: {values}", field)


def forbidden_field(field: str, detail: str) -> Cause:
    """Return the cause of a field that must not be set or changed."""
    return Cause("FieldValueForbidden", f"Forbidden: {detail}", field)


def duplicate(field: str, value: Any) -> Cause:
    """Return the cause of a duplicate value."""
    return Cause("FieldValueDuplicate", f"Duplicate value: {show(value)}", field)


def too_long(field: str, most: int) -> Cause:
    """Return the cause of a text that is too long."""
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit(most, 'byte')}", field)


def too_many(field: str, count: int, most: int) -> Cause:
    """Return the cause of a list or map with too many members."""
    return Cause("FieldValueTooMany", f"Too many: {count}: must have at most {limit(most, 'item')}", field)
