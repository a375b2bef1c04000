"""Waiting in tests: for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def eventually(condition: Callable[[], Any], timeout: float = 10.0) -> Any:
    """Wait until the condition is true, and give what it returned."""
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        assert time.monotonic() < deadline, "not true in time"
        time.sleep(0.001)
    return found
