"""Create CRDs on the fake cluster one by one."""

from __future__ import annotations

from typing import Any


def settled(fake: Any, *spelled: str) -> None:
    """Create CRDs one by one, reconciling all before the next."""
    for crd in spelled:
        fake.create(crd)
        fake.settle()
