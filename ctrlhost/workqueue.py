"""The work queue and its rate limiters.

A key is queued once however often it is added, is never handed out twice at a time, and runs once more if it was added
while it ran. Delays, back-off, priorities and fairness are options of the one `WorkQueue`. Keys are exact `str`, exact
`int`, or tuples (NamedTuples too) of keys; equal keys are one item. Everything may be called from any thread; a thread
that waits lets the others run, and a signal ends the wait of the main thread.

A thread that waits in `get` keeps the interpreter from ending unless it is a daemon: shut the queue down first.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeAlias

from ctrlhost._core import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    ItemFastSlowRateLimiter,
    MaxOfRateLimiter,
    WithMaxWaitRateLimiter,
    WorkQueue,
    default_controller_rate_limiter,
)
from ctrlhost.errors import ShutDown

__all__ = [
    "BucketRateLimiter",
    "DelayedKey",
    "ItemExponentialFailureRateLimiter",
    "ItemFastSlowRateLimiter",
    "Key",
    "MaxOfRateLimiter",
    "ProcessingKey",
    "QueueSnapshot",
    "QueuedKey",
    "RateLimiter",
    "ShutDown",
    "WithMaxWaitRateLimiter",
    "WorkQueue",
    "default_controller_rate_limiter",
]

Key: TypeAlias = str | int | tuple[Any, ...]
"""What a queue takes: an exact `str` or `int`, or a tuple of keys."""


class RateLimiter(Protocol):
    """What says how long a failed key has to wait; the limiters of this module, or one of your own.

    Called from the thread that calls `add_rate_limited`, `forget` or `num_requeues`, without the queue's lock.
    """

    def when(self, key: Any, /) -> float:
        """Say how many seconds `key` has to wait this time; infinity is for ever."""
        ...

    def forget(self, key: Any, /) -> None:
        """Start over with `key`: it is fine, or given up."""
        ...

    def num_requeues(self, key: Any, /) -> int:
        """Count how often `key` was asked about since it was last forgotten."""
        ...


class QueuedKey(NamedTuple):
    """A key in line."""

    key: Any
    priority: int
    age: float
    """Seconds in line."""
    failures: int
    """How often the rate limiter was asked about it."""


class ProcessingKey(NamedTuple):
    """A key that was handed out."""

    key: Any
    running: float
    """Seconds since it was handed out."""
    again: int | None
    """The priority it will be queued with once it is done, None if it was not added again meanwhile."""
    failures: int


class DelayedKey(NamedTuple):
    """A key that waits for its time; it may be queued or processed at the same time."""

    key: Any
    due_in: float
    """Seconds to wait."""
    priority: int | None
    back_off: bool
    """Whether the wait is the rate limiter's."""
    failures: int


class QueueSnapshot(NamedTuple):
    """What was in a queue at one instant."""

    queued: list[QueuedKey]
    """By falling priority, then by age."""
    processing: list[ProcessingKey]
    """The longest running first."""
    delayed: list[DelayedKey]
    """The next one first."""
