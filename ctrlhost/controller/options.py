"""Options of a controller: as its plugin declares them, and as the operator's settings override them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

from ctrlhost.config.settings import ShardBy
from ctrlhost.controller.backoff import Backoff
from ctrlhost.workqueue import MaxOfRateLimiter

if TYPE_CHECKING:
    from ctrlhost.config.settings import ControllerOverrides

#: Seconds after which a reconcile counts as stuck.
SLOW_AFTER = 60.0


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """Options of a controller; times are in seconds."""

    workers: int = 1
    #: The delays between the retries of a key, or a limiter in their place.
    retry: Backoff | None = None
    rate_limiter: Any = None
    timeout: float | None = None
    needs_leader: bool = True
    suppress_echo: bool = False
    #: What replicas share its keys by, with shards; None for a controller that runs on the leader.
    shard_by: ShardBy | None = None
    #: When a reconcile counts as stuck; 0: never.
    slow_after: float = SLOW_AFTER
    #: The namespaces that the operator limits this controller to; None for those of the host.
    namespaces: tuple[str, ...] | None = None
    #: Whether its workers begin no reconcile.
    paused: bool = False

    def __post_init__(self) -> None:
        """Treat fewer than one worker as one and a timeout up to 0 as none, as upstream; TypeError for other types."""
        if not isinstance(self.workers, int) or isinstance(self.workers, bool):
            raise TypeError(f"workers must be an integer, got {self.workers!r}")
        if not isinstance(self.timeout, int | float | None) or self.timeout != self.timeout:
            raise TypeError(f"timeout must be a number of seconds, got {self.timeout!r}")
        if self.shard_by not in (None, *get_args(ShardBy)):
            raise TypeError(f"shard_by must be one of {', '.join(get_args(ShardBy))}, got {self.shard_by!r}")
        if not isinstance(self.retry, Backoff | None):
            raise TypeError(f"retry must be a ctrlhost.Backoff, got {self.retry!r:.80}")
        if self.rate_limiter is not None:
            if self.retry is not None:
                raise TypeError("retry and rate_limiter are mutually exclusive")
            # A probe: the real queue is created later, when an error would not show the plugin's line.
            MaxOfRateLimiter(self.rate_limiter)
        if self.workers < 1:
            object.__setattr__(self, "workers", 1)
        if self.timeout is not None and self.timeout <= 0:
            object.__setattr__(self, "timeout", None)

    def overridden(self, overrides: ControllerOverrides | None) -> ControllerOptions:
        """Return these options with the operator's overrides applied."""
        if overrides is None:
            return self
        changed = {
            name: value
            for name in ("workers", "timeout", "slow_after", "namespaces", "paused", "shard_by")
            if (value := getattr(overrides, name)) is not None
        }
        if (overrides.base_delay, overrides.max_delay) != (None, None):
            retry = self.backoff.overridden(overrides.base_delay, overrides.max_delay)
            changed |= {"rate_limiter": None, "retry": retry}
        return replace(self, **changed)

    @property
    def backoff(self) -> Backoff:
        """The delays between the retries of a key where the plugin has no limiter."""
        return self.retry or Backoff()
