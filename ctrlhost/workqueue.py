"""The work queue and its rate limiters, as in client-go's `util/workqueue`.

    queue = WorkQueue("orders")
    queue.add("default/a")
    key = queue.get()
    try:
        process(key)
        queue.forget(key)
    except OSError:
        queue.add_rate_limited(key)
    finally:
        queue.done(key)

A key is queued once however often it is added, is processed by one worker at a time, and is processed again if it was
added meanwhile. Delays, back-off, priorities and fairness are options of the one `WorkQueue`. Keys are exact `str`,
exact `int`, or tuples (NamedTuples too) of keys; equal keys are one item. Everything may be called from any thread. A
waiting thread does not block the others, and a signal ends the wait of the main thread.

A thread that waits in `get` keeps the interpreter from exiting unless it is a daemon: shut the queue down first.
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
    "KeyState",
    "MaxOfRateLimiter",
    "ProcessingKey",
    "QueuePage",
    "QueueSnapshot",
    "QueueSummary",
    "QueuedKey",
    "RateLimiter",
    "ShutDown",
    "WithMaxWaitRateLimiter",
    "WorkQueue",
    "default_controller_rate_limiter",
]

Key: TypeAlias = str | int | tuple[Any, ...]
"""A key: an exact `str` or `int`, or a tuple of keys."""


class RateLimiter(Protocol):
    """A policy for the delay of failed keys: a limiter of this module, or your own.

        class Always:
            def when(self, key): return 1.0
            def forget(self, key): ...
            def num_requeues(self, key): return 0

        queue = WorkQueue(rate_limiter=Always())

    Called on the thread that calls `add_rate_limited`, `forget` or `num_requeues`, without the queue's lock.
    """

    def when(self, key: Any, /) -> float:
        """Return the seconds that `key` waits this time; infinity is forever."""
        ...

    def forget(self, key: Any, /) -> None:
        """Reset `key`, which succeeded or was given up."""
        ...

    def num_requeues(self, key: Any, /) -> int:
        """Return the number of calls of `when` for `key` since it was last forgotten."""
        ...


class QueuedKey(NamedTuple):
    """A queued key."""

    key: Any
    priority: int
    age: float
    """Seconds in the queue."""
    failures: int
    """The rate limiter's `num_requeues`."""


class ProcessingKey(NamedTuple):
    """A key in progress."""

    key: Any
    running: float
    """Seconds since a worker got it."""
    again: int | None
    """The priority with which it is queued again once done; None if it was not added meanwhile."""
    failures: int


class DelayedKey(NamedTuple):
    """A key added with a delay; it may be queued or processed at the same time."""

    key: Any
    due_in: float
    """Seconds to wait."""
    priority: int | None
    back_off: bool
    """Whether the rate limiter set the delay, and the key was not forgotten since."""
    failures: int


class QueueSnapshot(NamedTuple):
    """The content of a queue at one instant."""

    queued: list[QueuedKey]
    """By descending priority, then the oldest first."""
    processing: list[ProcessingKey]
    """The longest running first."""
    delayed: list[DelayedKey]
    """The next one first."""


class QueueSummary(NamedTuple):
    """The numbers of keys of a queue, and the first ones, at one instant."""

    queued: int
    processing: int
    delayed: int
    first: QueueSnapshot
    """The first keys of each part."""


class QueuePage(NamedTuple):
    """Some keys of one part of a queue."""

    keys: list[QueuedKey] | list[ProcessingKey] | list[DelayedKey]
    """Queued keys: the oldest first. Keys in progress: the longest running first. Delayed keys: the next one first."""
    next: str | None
    """The place of the next page; None after the last one. Keys that move meanwhile may be missing or occur twice."""
    total: int
    """The number of keys of the part."""


class KeyState(NamedTuple):
    """The state of one key; it may be delayed and also queued or processed."""

    queued: QueuedKey | None
    processing: ProcessingKey | None
    delayed: DelayedKey | None
    ahead: int | None
    """The number of keys that are handed out before it; None if it is not queued, in a fair queue, or over 4,096."""
