"""`ctrlhost.Backoff`: growing delays between the retries of a key, and the rate limiter of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ctrlhost.controller.context import current
from ctrlhost.duration import Duration

if TYPE_CHECKING:
    from ctrlhost.duration import DurationLike

#: The host's first and longest delay, in seconds: a short first one is for races with the cache.
FIRST, MAX = 0.005, 1000.0
#: The host's first delay after a run of more than so many seconds, which has waited for something else.
SLOW_FIRST, SLOW = 0.1, 0.01
#: The largest part of a delay that is added to it at random.
JITTER = 0.2


@dataclass(frozen=True, slots=True, init=False)
class Backoff:
    """The delays between the retries of a key that fails: `retry=` of a controller.

    ```python
    # a part of a plugin
    @plugin.controller(Memcached, retry=ctrlhost.Backoff(first="1s", max="5m"))
    def reconcile(ctx, mc):
        raise ConnectionError("no answer")
    ```

    The delay after the first failure is `first`, by default 5 ms, or 100 ms if the run took more than 10 ms. After
    each further one it is `factor` times as long, at most `max`. Up to the part `jitter` of it is added at random, so
    that keys that failed together are not retried together. A run that does not fail starts it over. The operator's
    `base_delay` and `max_delay` replace `first` and `max`.

    Durations are texts such as `"30s"`, or seconds. Raises ValueError for one that is not positive, a factor below 1, a
    jitter that is not from 0 to 1, and a `max` below `first`; TypeError for other types.
    """

    first: Duration | None
    factor: float
    max: Duration
    jitter: float

    def __init__(
        self,
        first: DurationLike | None = None,
        factor: float = 2.0,
        max: DurationLike = MAX,  # noqa: A002 - the name that a plugin's author reads
        jitter: float = JITTER,
    ) -> None:
        """Check the delays."""
        longest = _positive("max", max)
        shortest = None if first is None else _positive("first", first)
        if shortest is not None and shortest > longest:
            raise ValueError(f"the back-off's first delay ({shortest}) must not be longer than its max ({longest})")
        if not 1 <= _number("factor", factor) < math.inf:
            raise ValueError(f"the factor of a back-off must be at least 1, got {factor}")
        if not 0 <= _number("jitter", jitter) <= 1:
            raise ValueError(f"the jitter of a back-off must be from 0 to 1, got {jitter}")
        for name, value in (("first", shortest), ("factor", factor), ("max", longest), ("jitter", jitter)):
            object.__setattr__(self, name, value)

    def delay(self, failures: int, run_seconds: float = 0.0) -> float:
        """Return the seconds after so many failures in a row, without the jitter; the last run took `run_seconds`."""
        first = self.first or (SLOW_FIRST if run_seconds > SLOW else FIRST)
        try:
            # An integer would grow without a bound.
            return min(first * float(self.factor) ** (failures - 1), self.max)
        except OverflowError:
            return self.max

    def overridden(self, first: Duration | None, longest: Duration | None) -> Backoff:
        """Return this back-off with the operator's delays; one that does not fit them follows."""
        if longest is not None:
            own = self.first if first is None else first
            return replace(self, first=own and min(own, longest), max=longest)
        return self if first is None else replace(self, first=first, max=max(first, self.max))


class BackoffLimiter:
    """A rate limiter of a queue by a `Backoff`, asked at the end of a run.

    A key has one worker at a time; different keys may have any thread.
    """

    def __init__(self, backoff: Backoff) -> None:
        """Start without failures."""
        self.backoff = backoff
        self._failures: dict[Any, int] = {}

    def when(self, key: Any) -> float:
        """Count a failure, and return the seconds until the next run of its key."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        run = current.get()
        started = None if run is None else run.started
        return self.backoff.delay(failures, 0.0 if run is None or started is None else run.clock.now() - started)

    def forget(self, key: Any) -> None:
        """Forget the failures of a key."""
        self._failures.pop(key, None)

    def num_requeues(self, key: Any) -> int:
        """Return the failures of a key since it was forgotten."""
        return self._failures.get(key, 0)


def _positive(name: str, value: DurationLike) -> Duration:
    duration = Duration(value)
    if not duration:
        raise ValueError(f"the back-off's {name} must be longer than 0 s")
    return duration


def _number(name: str, value: float) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"the {name} of a back-off must be a number, got {value!r:.80}")
    return value
