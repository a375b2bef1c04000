"""Which of the handlers that are due are called in one pass."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ctrlhost_kopf.registry import Handler

Handlers: TypeAlias = Sequence[Handler]


def all_at_once(handlers: Handlers, **_: Any) -> Handlers:
    """Call all, in their order."""
    return handlers


def one_by_one(handlers: Handlers, **_: Any) -> Handlers:
    """Call the first one."""
    return handlers[:1]


def randomized(handlers: Handlers, **_: Any) -> Handlers:
    """Call one of them at random."""
    return [random.choice(handlers)] if handlers else []  # noqa: S311 - no secret


def shuffled(handlers: Handlers, **_: Any) -> Handlers:
    """Call all in a random order."""
    return random.sample(handlers, k=len(handlers))


def asap(handlers: Handlers, *, state: Any, **_: Any) -> Handlers:
    """Call one of those with the fewest attempts."""
    return sorted(handlers, key=lambda handler: state[handler.id].retries or 0)[:1]


_default: Callable[..., Handlers] = asap


def get_default_lifecycle() -> Callable[..., Handlers]:
    """Return the lifecycle of operators that have none of their own."""
    return _default


def set_default_lifecycle(lifecycle: Callable[..., Handlers] | None) -> None:
    """Use a lifecycle for operators that have none of their own; None for `asap`."""
    global _default
    _default = lifecycle or asap
