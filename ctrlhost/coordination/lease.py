"""The Lease that replicas share: the record in it, and the lock that reads and writes it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ctrlhost.clock import micro_time
from ctrlhost.errors import CtrlhostError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost.client import Client

API_VERSION = "coordination.k8s.io/v1"
#: The plugins that the holder cannot run, separated by commas.
_WAITING = "ctrlhost.dev/waiting"
_FIELDS: dict[str, tuple[str, type]] = {
    "holder_identity": ("holderIdentity", str),
    "lease_duration": ("leaseDurationSeconds", int),
    "acquire_time": ("acquireTime", str),
    "renew_time": ("renewTime", str),
    "lease_transitions": ("leaseTransitions", int),
    "strategy": ("strategy", str),
    "preferred_holder": ("preferredHolder", str),
}


@dataclass(frozen=True, slots=True)
class LeaderElectionRecord:
    """Content of a Lease; `lease_duration` is in seconds, the times are strings, for display only."""

    holder_identity: str = ""
    lease_duration: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0
    #: Set if the control plane assigns the lease instead of the candidates.
    strategy: str | None = None
    #: The next holder of an assigned lease; the current one stops renewing.
    preferred_holder: str | None = None

    @classmethod
    def of(cls, lease: Mapping[str, Any]) -> LeaderElectionRecord:
        """Read the `spec` of a Lease; malformed fields are treated as unset."""
        spec = lease.get("spec")
        if not isinstance(spec, dict):
            return cls()
        return cls(**{name: spec[key] for name, (key, kind) in _FIELDS.items() if type(spec.get(key)) is kind})

    def spec(self) -> dict[str, Any]:
        """Return the record as the `spec` of a Lease."""
        return {key: value for name, (key, _) in _FIELDS.items() if (value := getattr(self, name)) is not None}

    def renewed(self, identity: str, lease_duration: float, wall_time: float) -> LeaderElectionRecord:
        """Return the record after `identity` took or renewed the lease at `wall_time`, seconds since the epoch."""
        moment = micro_time(wall_time)
        mine = self.holder_identity == identity
        return replace(
            self,
            holder_identity=identity,
            # Rounded up, so that the lease never expires earlier for other replicas than for its holder.
            lease_duration=math.ceil(lease_duration),
            acquire_time=(self.acquire_time or moment) if mine else moment,
            renew_time=moment,
            lease_transitions=self.lease_transitions if mine else min(self.lease_transitions + 1, 2**31 - 1),
        )

    def released(self, wall_time: float) -> LeaderElectionRecord:
        """Return the record of a released lease, which any candidate may take at once."""
        moment = micro_time(wall_time)
        return replace(self, holder_identity="", lease_duration=1, acquire_time=moment, renew_time=moment)


class LeaseLock:
    """One Lease, by name. Keeps the object as last seen, whose version and foreign labels an update sends."""

    def __init__(
        self, client: Client, namespace: str, name: str, identity: str, labels: Mapping[str, str | None] | None = None
    ) -> None:
        """Prepare without a request. `labels` are added to those of the Lease."""
        self.name = name
        self.namespace = namespace
        self.identity = identity
        self._client = client
        self._lease: dict[str, Any] | None = None
        #: Labels and annotations for the next write; None removes one. Replace the mapping, do not change it.
        self.labels: Mapping[str, str | None] = dict(labels or {})
        self.annotations: Mapping[str, str | None] = {}
        #: The uid and the transitions of the Lease as this replica last wrote itself as its holder.
        self.held: tuple[str, int] | None = None
        #: The plugins that this replica cannot run, for the next write.
        self.waiting: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """Return the namespace and name of the Lease."""
        return f"{self.namespace}/{self.name}"

    @property
    def reference(self) -> dict[str, Any]:
        """The object reference of the Lease, for events."""
        metadata = (self._lease or {}).get("metadata") or {"namespace": self.namespace, "name": self.name}
        return {"apiVersion": API_VERSION, "kind": "Lease", "metadata": metadata}

    @property
    def holder_waits_for(self) -> list[str]:
        """The plugins that the holder cannot run, as the Lease was last seen."""
        lease = self._lease or {}
        annotations = (lease.get("metadata") or {}).get("annotations") or {}
        return str(annotations.get(_WAITING, "")).split(",")

    def get(self, *, timeout: float) -> LeaderElectionRecord | None:
        """Read the Lease within `timeout` seconds; None if it does not exist."""
        lease = self._client.find(API_VERSION, "Lease", self.name, self.namespace, timeout=timeout)
        self._lease = lease
        if lease is None:
            return None
        record = LeaderElectionRecord.of(lease)
        uid, transitions = self.held or ("", 0)
        if lease["metadata"].get("uid") == uid and record.lease_transitions < transitions:
            # Somebody has edited it: a number that was there before would name this holder, and one that is over.
            record = replace(record, lease_transitions=transitions)
        return record

    def create(self, record: LeaderElectionRecord, *, timeout: float) -> None:
        """Create the Lease; AlreadyExists if another replica created it first."""
        metadata = self._marked({"name": self.name, "namespace": self.namespace})
        lease = {"apiVersion": API_VERSION, "kind": "Lease", "metadata": metadata, "spec": record.spec()}
        self._written(self._client.create(lease, timeout=timeout))

    def update(self, record: LeaderElectionRecord, *, timeout: float) -> None:
        """Write the record over the Lease as last seen; Conflict if it has changed since."""
        if self._lease is None:
            raise CtrlhostError("lease not initialized, call get or create first")
        metadata = self._marked(self._lease.get("metadata") or {})
        lease = {**self._lease, "metadata": metadata, "spec": record.spec()}
        self._written(self._client.replace(lease, timeout=timeout))

    def _written(self, lease: dict[str, Any]) -> None:
        self._lease = lease
        record = LeaderElectionRecord.of(lease)
        if record.holder_identity == self.identity:
            self.held = (str(lease["metadata"].get("uid", "")), record.lease_transitions)

    def _marked(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Return the metadata with the labels and annotations of this replica, and which plugins it cannot run."""
        marked = dict(metadata)
        annotations = {_WAITING: ",".join(sorted(self.waiting)) or None, **self.annotations}
        for field, changes in (("labels", self.labels), ("annotations", annotations)):
            before = marked.get(field) or {}
            after = {name: value for name, value in {**before, **changes}.items() if value is not None}
            if after != before:
                marked[field] = after
        return marked
