"""The recursion limit, which a plugin may lower for all threads of the process."""

from __future__ import annotations

import sys

_LIMIT = sys.getrecursionlimit()


def restore_recursion_limit() -> None:
    """Set the limit back to what it was at the start, unless it is higher. Safe from any thread."""
    if sys.getrecursionlimit() < _LIMIT:
        sys.setrecursionlimit(_LIMIT)
