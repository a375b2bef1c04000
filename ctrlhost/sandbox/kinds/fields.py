"""Checks of fields that several kinds share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.apimachinery import status
from ctrlhost.sandbox.apimachinery.objects import at

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.apimachinery.status import Cause

PROTOCOLS = ("SCTP", "TCP", "UDP")
"""The protocols of a port."""
KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_PORT_NAME = (
    (r"[\s\S]{16}", "must be no more than 15 characters"),
    (r"[^-a-z0-9]", "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
    (r"\A[^a-z]*\Z", "must contain at least one letter (a-z)"),
    (r"--", "must not contain consecutive hyphens"),
    (r"\A-|-\Z", "must not begin or end with a hyphen"),
)


def is_key(text: str) -> bool:
    """Return whether `text` may be a key of a ConfigMap or Secret."""
    return 0 < len(text) <= 253 and ".." not in text and all(char.isalnum() or char in "-_." for char in text)


def port_causes(value: Any, field: str) -> list[Cause]:
    """Check the number or the name of a port."""
    if type(value) is int:
        problems = [] if 1 <= value <= 65535 else ["must be between 1 and 65535, inclusive"]
    else:
        problems = [text for pattern, text in _PORT_NAME if re.search(pattern, value or "a")]
    return [status.invalid_value(field, value, text) for text in problems]


def counts(spec: Mapping[str, Any], path: str, names: Iterable[str]) -> list[Cause]:
    """Check counts or durations that must not be negative."""
    text = "must be greater than or equal to 0"
    return [
        status.invalid_value(f"{path}.{name}", value, text)
        for name in names
        if type(value := spec.get(name)) is int and value < 0
    ]


def immutable(obj: Object, old: Object | None, *path: str) -> list[Cause]:
    """Check that an update does not change a field."""
    value = at(obj, path)
    if old is None or value == at(old, path):
        return []
    return [status.invalid_value(".".join(path), value, "field is immutable")]
