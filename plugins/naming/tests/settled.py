"""CRDs that are settled one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    pass


def settled(world: Any, *spelled: str) -> None:
    """Create CRDs one after the other, each settled before the next."""
    for one in spelled:
        world.create(one)
        world.settle()
