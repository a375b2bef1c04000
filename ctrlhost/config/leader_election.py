"""The times of a leader election, and their constraints."""

from __future__ import annotations

from dataclasses import dataclass

JITTER_FACTOR = 1.2


@dataclass(frozen=True, slots=True)
class LeaderElectionConfig:
    """The times of an election in seconds; ValueError for times that cannot work together."""

    #: How long after its last renewal no other replica takes a lease.
    lease_duration: float = 15.0
    #: How long after its last renewal a leader stops leading.
    renew_deadline: float = 10.0
    #: How often a leader renews, and the minimum between two attempts of a candidate.
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        """Reject times with which two replicas could lead, or none for long."""
        for name in ("lease_duration", "renew_deadline", "retry_period"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be greater than zero")
        if self.lease_duration <= self.renew_deadline:
            raise ValueError("lease_duration must be greater than renew_deadline")
        if self.renew_deadline <= self.retry_period * JITTER_FACTOR:
            raise ValueError(f"renew_deadline must be greater than {JITTER_FACTOR} * retry_period")

    @property
    def request_timeout(self) -> float:
        """Timeout of one request for the Lease: half the renew deadline, so that there is time for another."""
        return max(1.0, self.renew_deadline / 2)
