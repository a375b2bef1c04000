"""Fields that several kinds have: ports and counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.apimachinery import status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost.sandbox.apimachinery.status import Cause


PROTOCOLS = ("SCTP", "TCP", "UDP")
"""What a port may speak."""


def port_causes(value: Any, field: str) -> list[Cause]:
    """Check the number of a port; names are left alone."""
    if type(value) is int and not 1 <= value <= 65535:
        return [status.invalid_value(field, value, "must be between 1 and 65535, inclusive")]
    return []


def not_negative(spec: Mapping[str, Any], field: str, prefix: str = "spec") -> list[Cause]:
    """Check a count or a time that may be missing."""
    value = spec.get(field)
    if type(value) is int and value < 0:
        return [status.invalid_value(f"{prefix}.{field}", value, "must be greater than or equal to 0")]
    return []
