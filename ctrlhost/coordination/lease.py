"""The Lease that replicas agree on: what it says of the holder, and the lock that reads and writes it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import CtrlhostError
from ctrlhost.events.recorder import micro_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost.client import Client

API_VERSION = "coordination.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class LeaderElectionRecord:
    """What a Lease says; `lease_duration` is in seconds, the times are texts that only people read."""

    holder_identity: str = ""
    lease_duration: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0
    #: Set where the control plane assigns the lease instead of leaving it to the candidates.
    strategy: str | None = None
    #: Whom an assigned lease is meant for next; its holder stops renewing.
    preferred_holder: str | None = None

    @classmethod
    def of(cls, lease: Mapping[str, Any]) -> LeaderElectionRecord:
        """Read the `spec` of a Lease; what a hand has garbled counts as absent."""
        spec = lease.get("spec")
        if not isinstance(spec, dict):
            return cls()
        return cls(
            holder_identity=_text(spec.get("holderIdentity")) or "",
            lease_duration=_number(spec.get("leaseDurationSeconds")),
            acquire_time=_text(spec.get("acquireTime")),
            renew_time=_text(spec.get("renewTime")),
            lease_transitions=_number(spec.get("leaseTransitions")),
            strategy=_text(spec.get("strategy")),
            preferred_holder=_text(spec.get("preferredHolder")),
        )

    def spec(self) -> dict[str, Any]:
        """Write the record as the `spec` of a Lease."""
        spec = {
            "holderIdentity": self.holder_identity,
            "leaseDurationSeconds": self.lease_duration,
            "acquireTime": self.acquire_time,
            "renewTime": self.renew_time,
            "leaseTransitions": self.lease_transitions,
            "strategy": self.strategy,
            "preferredHolder": self.preferred_holder,
        }
        return {name: value for name, value in spec.items() if value is not None}

    def renewed(self, identity: str, lease_duration: float, wall_time: float) -> LeaderElectionRecord:
        """Give the record after `identity` took or renewed the lease at `wall_time`, seconds since the epoch."""
        moment = micro_time(wall_time)
        mine = self.holder_identity == identity
        return replace(
            self,
            holder_identity=identity,
            # Rounded up: whoever reads it must not think that the lease ends before its holder does.
            lease_duration=math.ceil(lease_duration),
            acquire_time=(self.acquire_time or moment) if mine else moment,
            renew_time=moment,
            lease_transitions=self.lease_transitions if mine else min(self.lease_transitions + 1, 2**31 - 1),
        )

    def released(self, wall_time: float) -> LeaderElectionRecord:
        """Give the record of a lease that nobody holds, which anybody may take at once."""
        moment = micro_time(wall_time)
        return replace(self, holder_identity="", lease_duration=1, acquire_time=moment, renew_time=moment)


class LeaseLock:
    """One Lease, by name. Keeps the object as last seen, so that an update carries its version and foreign labels."""

    def __init__(
        self, client: Client, namespace: str, name: str, identity: str, labels: Mapping[str, str] | None = None
    ) -> None:
        """Prepare; sends nothing. `labels` are added to those that the Lease has."""
        self.name = name
        self.namespace = namespace
        self.identity = identity
        self._client = client
        self._labels = dict(labels or {})
        self._lease: dict[str, Any] | None = None

    def __str__(self) -> str:
        """Name the Lease with its namespace."""
        return f"{self.namespace}/{self.name}"

    @property
    def reference(self) -> dict[str, Any]:
        """The Lease as events name it."""
        metadata = (self._lease or {}).get("metadata") or {"namespace": self.namespace, "name": self.name}
        return {"apiVersion": API_VERSION, "kind": "Lease", "metadata": metadata}

    def get(self, *, timeout: float) -> LeaderElectionRecord | None:
        """Read the Lease within `timeout` seconds; None if there is none."""
        lease = self._client.find(API_VERSION, "Lease", self.name, self.namespace, timeout=timeout)
        self._lease = lease
        return None if lease is None else LeaderElectionRecord.of(lease)

    def create(self, record: LeaderElectionRecord, *, timeout: float) -> None:
        """Create the Lease; AlreadyExists if somebody was faster."""
        metadata: dict[str, Any] = {"name": self.name, "namespace": self.namespace}
        if self._labels:
            metadata["labels"] = dict(self._labels)
        lease = {"apiVersion": API_VERSION, "kind": "Lease", "metadata": metadata, "spec": record.spec()}
        self._lease = self._client.create(lease, timeout=timeout)

    def update(self, record: LeaderElectionRecord, *, timeout: float) -> None:
        """Write the record over the Lease as last seen; Conflict if it has changed since."""
        if self._lease is None:
            raise CtrlhostError("lease not initialized, call get or create first")
        metadata = dict(self._lease.get("metadata") or {})
        if self._labels:
            metadata["labels"] = {**(metadata.get("labels") or {}), **self._labels}
        self._lease = self._client.replace(
            {**self._lease, "metadata": metadata, "spec": record.spec()}, timeout=timeout
        )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
