"""What is known of nodes and networks between passes that the cluster does not have."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctrlhost_bitcoin.credentials import History

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost import Request
    from ctrlhost_bitcoin.rpc.client import Credentials

#: A node: the uid and the IP of its pod.
NodeKey = tuple[str, str]

#: Failures in a row before a node is reported, by reason; 0 for never. Others: `_DEFAULT_THRESHOLD`.
_THRESHOLDS = {"Unauthorized": 1, "Forbidden": 1, "WarmingUp": 0, "Busy": 0}
_DEFAULT_THRESHOLD = 3
#: First and longest wait after a failure, in seconds, by reason.
_WAITS = {"Unauthorized": (30.0, 30.0), "Forbidden": (30.0, 30.0), "WarmingUp": (1.0, 5.0), "Busy": (2.0, 30.0)}
_DEFAULT_WAITS = (1.0, 30.0)
_FIRST_DIAL, _LAST_DIAL = 1.0, 30.0


@dataclass(slots=True)
class NodeState:
    """One node, by the uid and the IP of its pod. Times are the clock's seconds."""

    #: The pod's containers at the last call; new ones are a reason to try again.
    containers: tuple[Any, ...] = ()
    #: The revision of the credentials at the last call.
    revision: int = 0
    reason: str | None = None
    failures: int = 0
    next_try: float = 0.0
    #: Whether the failure was reported.
    reported: bool = False
    #: When the node dials unreached peers again, and the wait after that.
    dial_at: float | None = None
    dial_wait: float = 0.0
    #: The outcome of the last pass: whether the node converged, and its links that are wanted and connected.
    converged: bool = False
    wanted: int = 0
    connected: int = 0
    #: The credentials that it accepted last.
    accepted: Credentials | None = None
    #: What would have changed at the last pass, in a dry run.
    planned: tuple[str, ...] = ()

    def renew(self, containers: tuple[Any, ...], revision: int) -> bool:
        """Record the pod's containers and the credentials, and return whether the containers are new.

        New containers, or new credentials after a refusal, are tried at once.
        """
        restarted = self.containers != containers
        if restarted:
            self.accepted = None
        if restarted or (self.revision != revision and self.reason == "Unauthorized"):
            self.next_try, self.failures = 0.0, 0
        self.containers, self.revision = containers, revision
        return restarted

    def due(self, now: float) -> bool:
        """Return whether the node may be called."""
        return self.reason is None or now >= self.next_try

    def dials(self, now: float) -> bool:
        """Return whether the node should dial its unreached peers again."""
        return self.dial_at is None or now >= self.dial_at

    def failed(self, reason: str, now: float) -> bool:
        """Record a failure, and return whether to report it now."""
        self.failures = self.failures + 1 if _alike(reason, self.reason) else 1
        first, longest = _WAITS.get(reason, _DEFAULT_WAITS)
        self.next_try = now + min(first * 2.0 ** min(self.failures - 1, 16), longest)
        news = reason == "Unauthorized" != self.reason
        self.reason, self.converged, self.connected = reason, False, 0
        threshold = _THRESHOLDS.get(reason, _DEFAULT_THRESHOLD)
        if not threshold or self.failures < threshold or (self.reported and not news):
            return False
        self.reported = True
        return True

    def succeeded(self, wanted: int, connected: int, now: float, *, wrote: bool) -> None:
        """Record a complete pass; `wrote` is set if it changed the node's list."""
        self.reason, self.failures, self.reported = None, 0, False
        self.wanted, self.connected, self.converged = wanted, connected, wanted == connected
        if wrote:
            self.dial_wait = _FIRST_DIAL
        elif self.converged:
            self.dial_at, self.dial_wait = None, 0.0
            return
        elif not self.dials(now):
            return
        else:
            self.dial_wait = min(self.dial_wait * 2.0, _LAST_DIAL) or _FIRST_DIAL
        self.dial_at = now + self.dial_wait

    def wakes_at(self) -> float | None:
        """Return when the node needs a pass without an event; None for never."""
        return self.next_try if self.reason is not None else self.dial_at


def _alike(reason: str, other: str | None) -> bool:
    """Return whether two failures count as in a row."""
    return reason == other or (other is not None and reason not in _WAITS and other not in _WAITS)


@dataclass(slots=True)
class NetworkMemory:
    """One network; only the worker that has it writes, and replaces whole values, so that a scrape may read it."""

    uid: str
    credentials: History = field(default_factory=History)
    nodes: dict[NodeKey, NodeState] = field(default_factory=dict)
    desired: int = 0
    ready: int = 0

    def counts(self) -> Mapping[str, int]:
        """Count the nodes by state, for the metrics."""
        unreachable = sum(state.reported for state in list(self.nodes.values()))
        return {"desired": self.desired, "ready": self.ready, "unreachable": unreachable}

    def links(self) -> Mapping[str, int]:
        """Count the wanted and the connected links, for the metrics."""
        states = list(self.nodes.values())
        return {"wanted": sum(state.wanted for state in states), "connected": sum(state.connected for state in states)}


class Memory:
    """All networks. Methods may be called from any thread."""

    def __init__(self) -> None:
        """Start without networks."""
        self._lock = threading.Lock()
        self._networks: dict[Request, NetworkMemory] = {}

    def of(self, key: Request, uid: str) -> NetworkMemory:
        """Return the state of a network; a new one for another uid of the same name."""
        with self._lock:
            known = self._networks.get(key)
            if known is None or known.uid != uid:
                known = self._networks[key] = NetworkMemory(uid)
            return known

    def forget(self, key: Request) -> None:
        """Drop a deleted network."""
        with self._lock:
            self._networks.pop(key, None)

    def all(self) -> list[tuple[Request, NetworkMemory]]:
        """Return all networks."""
        with self._lock:
            return list(self._networks.items())
