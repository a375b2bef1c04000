"""A reconciler's request and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ctrlhost.duration import DurationLike, in_seconds

__all__ = ["Request", "Result"]


class Request(NamedTuple):
    """The object to reconcile. It is the work queue's key, so two events of one object are one request.

    A controller whose unit of work is not an object, but a host name for example, uses `name` alone.
    """

    name: str
    namespace: str = ""
    cluster: str = ""

    def __str__(self) -> str:
        """Return `namespace/name`, as in upstream's log lines; the name alone without a namespace."""
        return "/".join(filter(None, (self.cluster, self.namespace, self.name)))


@dataclass(frozen=True, slots=True, init=False)
class Result:
    """The result of a reconcile. `None` and `Result()`, the usual ones, wait for the next event.

    `requeue_after` is a duration such as `"30s"` or a number of seconds, and at least 5 ms; None, zero and negative
    numbers request no further run. `priority` replaces the priority that the next run of the key would otherwise keep;
    it has no effect without one. ValueError or TypeError for an invalid duration.
    """

    #: In seconds.
    requeue_after: float | None = None
    priority: int | None = None

    def __init__(self, requeue_after: DurationLike | None = None, priority: int | None = None) -> None:
        """Read the duration."""
        if requeue_after is not None and type(requeue_after) is not float:
            requeue_after = in_seconds(requeue_after)
        object.__setattr__(self, "requeue_after", requeue_after)
        object.__setattr__(self, "priority", priority)

    def is_zero(self) -> bool:
        """Return whether no further run is requested."""
        return self.requeue_after is None or self.requeue_after <= 0
