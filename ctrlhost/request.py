"""What a reconciler is asked to bring in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Request", "Result"]


class Request(NamedTuple):
    """The object to reconcile, and so the work queue's key: two events of one object are one request.

    A controller whose unit of work is not an object, a host name say, uses `name` alone.
    """

    name: str
    namespace: str = ""
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What a reconciler wants next; returning `None` or `Result()` is the usual answer: wait for the next event.

    `requeue_after` is in seconds, and at least 5 ms; zero, a negative number and None mean that no run is asked for.
    `priority` replaces the priority that the next run of the key would otherwise keep. It says nothing where no further
    run is asked for.
    """

    requeue_after: float | None = None
    priority: int | None = None

    def is_zero(self) -> bool:
        """Say whether no further run is asked for."""
        return self.requeue_after is None or self.requeue_after <= 0
