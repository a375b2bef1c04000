"""Checks of fields that several kinds share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.apimachinery import status
from ctrlhost.sandbox.apimachinery.objects import at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.apimachinery.status import Cause

PROTOCOLS = ("SCTP", "TCP", "UDP")
"""The protocols of a port."""


def port_causes(value: Any, field: str) -> list[Cause]:
    """Check the number of a port; names are not checked."""
    if type(value) is int and not 1 <= value <= 65535:
        return [status.invalid_value(field, value, "must be between 1 and 65535, inclusive")]
    return []


def not_negative(spec: Mapping[str, Any], field: str) -> list[Cause]:
    """Check an optional count or duration of a spec."""
    value = spec.get(field)
    if type(value) is int and value < 0:
        return [status.invalid_value(f"spec.{field}", value, "must be greater than or equal to 0")]
    return []


def immutable(obj: Object, old: Object | None, *path: str) -> list[Cause]:
    """Check that an update does not change a field."""
    value = at(obj, path)
    if old is None or value == at(old, path):
        return []
    return [status.invalid_value(".".join(path), value, "field is immutable")]
