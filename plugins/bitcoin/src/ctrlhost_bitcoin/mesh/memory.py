"""The state of each network between passes that the cluster does not have."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctrlhost_bitcoin.objects.credentials import History

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost import Request
    from ctrlhost_bitcoin.mesh.node_state import NodeState

#: A node: the uid and the IP of its pod.
NodeKey = tuple[str, str]


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
        return {"wanted": sum(each.wanted for each in states), "connected": sum(each.connected for each in states)}


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
