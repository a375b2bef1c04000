"""Waits for conditions that another process or thread meets."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ctrlhost import ApiError, Client


def eventually(condition: Callable[[], Any], timeout: float = 30.0, what: str = "", pause: float = 0.001) -> Any:
    """Wait until the condition is true and return its value; `what` describes it in the failure."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {timeout:g} s: {what or condition}"
        time.sleep(pause)
    return value


def create_eventually(client: Client, obj: dict[str, Any]) -> None:
    """Create an object once its kind is served and its namespace has a ServiceAccount."""

    def created() -> bool:
        try:
            client.create(obj)
        except ApiError:
            return False
        return True

    eventually(created)


def eventually_equal(look: Callable[[], Any], wanted: Any, timeout: float = 60.0) -> None:
    """Wait until `look` returns the wanted value; fail with its last value."""
    values: list[Any] = []

    def equal() -> bool:
        values[:] = [look()]
        return bool(values[0] == wanted)

    try:
        eventually(equal, timeout, pause=0.02)
    except AssertionError:
        assert values[0] == wanted, f"not equal after {timeout:g} s"
        raise
