"""The times of a leader election, and which of them fit together."""

from __future__ import annotations

from dataclasses import dataclass

JITTER_FACTOR = 1.2


@dataclass(frozen=True, slots=True)
class LeaderElectionConfig:
    """The times of an election in seconds; ValueError says which of them can not work together."""

    #: For so long after its last renewal nobody else takes a lease.
    lease_duration: float = 15.0
    #: A leader that could not renew for so long leads no more.
    renew_deadline: float = 10.0
    #: How often a leader renews, and at least how long a candidate waits between two tries.
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        """Refuse times with which two could lead, or nobody would for long."""
        for name in ("lease_duration", "renew_deadline", "retry_period"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be greater than zero")
        if self.lease_duration <= self.renew_deadline:
            raise ValueError("lease_duration must be greater than renew_deadline")
        if self.renew_deadline <= self.retry_period * JITTER_FACTOR:
            raise ValueError(f"renew_deadline must be greater than {JITTER_FACTOR} * retry_period")

    @property
    def request_timeout(self) -> float:
        """How long one request for the Lease may take: half the renew deadline, so that there is time for another."""
        return max(1.0, self.renew_deadline / 2)
