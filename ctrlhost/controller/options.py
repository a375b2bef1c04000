"""How a controller runs: what its plugin asked for, as the operator's settings changed it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ctrlhost.workqueue import MaxOfRateLimiter

if TYPE_CHECKING:
    from ctrlhost.config.settings import ControllerOverrides

#: The host's back-off, in seconds: 5 ms, doubled by each failure, to 1000 s.
BASE_DELAY, MAX_DELAY = 0.005, 1000.0


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """Times are in seconds. A `rate_limiter` of the plugin's own makes the two delays meaningless."""

    workers: int = 1
    rate_limiter: Any = None
    timeout: float | None = None
    needs_leader: bool = True
    suppress_echo: bool = False
    base_delay: float = BASE_DELAY
    max_delay: float = MAX_DELAY
    #: The namespaces that the operator limits this controller to; None for what its sources say.
    namespaces: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Take fewer than one worker as one and no positive timeout as none, as upstream does; TypeError for others."""
        if not isinstance(self.workers, int) or isinstance(self.workers, bool):
            raise TypeError(f"workers is a whole number, not {self.workers!r}")
        if not isinstance(self.timeout, int | float | None) or self.timeout != self.timeout:
            raise TypeError(f"timeout is a number of seconds, not {self.timeout!r}")
        if self.rate_limiter is not None:
            # Takes what a queue takes. The queue itself is made later, when nobody could say whose mistake it was.
            MaxOfRateLimiter(self.rate_limiter)
        if self.workers < 1:
            object.__setattr__(self, "workers", 1)
        if self.timeout is not None and self.timeout <= 0:
            object.__setattr__(self, "timeout", None)

    def overridden(self, overrides: ControllerOverrides | None) -> ControllerOptions:
        """Give these options with what the operator set instead."""
        if overrides is None:
            return self
        changed = {
            name: value
            for name in ("workers", "timeout", "namespaces", "base_delay", "max_delay")
            if (value := getattr(overrides, name)) is not None
        }
        if "base_delay" in changed or "max_delay" in changed:
            changed["rate_limiter"] = None
        return replace(self, **changed)
