"""What makes a built-in object invalid."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost.sandbox.call import Object
    from ctrlhost.sandbox.kinds import Kind
    from ctrlhost.sandbox.status import Cause


def causes(kind: Kind, obj: Object, old: Object | None) -> list[Cause]:
    """Check what is not metadata."""
    return []
