"""Checks of fields that several kinds share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.apimachinery import status
from ctrlhost.sandbox.apimachinery.objects import at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.apimachinery.status import Cause

PROTOCOLS = ("SCTP", "TCP", "UDP")
"""The protocols of a port."""


def port_causes(value: Any, field: str) -> Iterator[Cause]:
    """Check the number of a port; names are not checked."""
    if type(value) is int and not 1 <= value <= 65535:
        yield status.invalid_value(field, value, "must be between 1 and 65535, inclusive")


def not_negative(spec: Mapping[str, Any], *fields: str) -> Iterator[Cause]:
    """Check optional counts and durations of a spec."""
    for field in fields:
        value = spec.get(field)
        if type(value) is int and value < 0:
            yield status.invalid_value(f"spec.{field}", value, "must be greater than or equal to 0")


def immutable(obj: Object, old: Object | None, *path: str) -> Iterator[Cause]:
    """Check that an update does not change a field."""
    value = at(obj, path)
    if old is not None and value != at(old, path):
        yield status.invalid_value(".".join(path), value, "field is immutable")
