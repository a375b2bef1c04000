"""What is remembered of one node between passes: how its last calls went, and when to try again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctrlhost_bitcoin.rpc.client import Credentials

#: Failures in a row before a node is reported, by reason; 0 for never. Others: `_USUAL_PATIENCE`.
_PATIENCE = {"Unauthorized": 1, "Forbidden": 1, "WarmingUp": 0, "Busy": 0}
_USUAL_PATIENCE = 3
#: First and longest wait after a failure, in seconds, by reason.
_WAITS = {"Unauthorized": (30.0, 30.0), "Forbidden": (30.0, 30.0), "WarmingUp": (1.0, 5.0), "Busy": (2.0, 30.0)}
_USUAL_WAITS = (1.0, 30.0)
_FIRST_LOOK, _LONGEST_LOOK = 1.0, 30.0


@dataclass(slots=True)
class NodeState:
    """One node, by the uid and the IP of its pod. Times are the clock's seconds."""

    #: What the pod's containers were at the last call; another life deserves another try.
    containers: tuple[Any, ...] = ()
    #: The change of the credentials that was known at the last call.
    revision: int = 0
    reason: str | None = None
    failures: int = 0
    next_try: float = 0.0
    #: Whether the failure was reported.
    told: bool = False
    #: When the node is told to dial again what it does not reach, and how long it waits after that.
    dial_at: float | None = None
    dial_wait: float = 0.0
    #: What the last look found: whether all was well, and links by how many are wanted and connected.
    converged: bool = False
    wanted: int = 0
    connected: int = 0
    #: The credentials that it took last.
    accepted: Credentials | None = None

    def renew(self, containers: tuple[Any, ...], revision: int) -> bool:
        """Take note of the pod's containers and of the credentials; say whether the containers are new.

        Where either is, the node is tried at once again.
        """
        restarted = self.containers != containers
        if restarted:
            self.accepted = None
        if restarted or (self.revision != revision and self.reason == "Unauthorized"):
            self.next_try, self.failures = 0.0, 0
        self.containers, self.revision = containers, revision
        return restarted

    def due(self, now: float) -> bool:
        """Say whether the node may be called."""
        return self.reason is None or now >= self.next_try

    def dials(self, now: float) -> bool:
        """Say whether to have it dial those again that it was told of before."""
        return self.dial_at is None or now >= self.dial_at

    def failed(self, reason: str, now: float) -> bool:
        """Note a failure, and say whether it is one to report now."""
        self.failures = self.failures + 1 if _alike(reason, self.reason) else 1
        first, longest = _WAITS.get(reason, _USUAL_WAITS)
        self.next_try = now + min(first * 2.0 ** min(self.failures - 1, 16), longest)
        news = reason == "Unauthorized" != self.reason
        self.reason, self.converged, self.connected = reason, False, 0
        patience = _PATIENCE.get(reason, _USUAL_PATIENCE)
        if not patience or self.failures < patience or (self.told and not news):
            return False
        self.told = True
        return True

    def succeeded(self, wanted: int, connected: int, now: float, *, wrote: bool) -> None:
        """Note a look that came to an end; `wrote` says that the node's list was changed."""
        self.reason, self.failures, self.told = None, 0, False
        self.wanted, self.connected, self.converged = wanted, connected, wanted == connected
        if wrote:
            self.dial_wait = _FIRST_LOOK
        elif self.converged:
            self.dial_at, self.dial_wait = None, 0.0
            return
        elif not self.dials(now):
            return
        else:
            self.dial_wait = min(self.dial_wait * 2.0, _LONGEST_LOOK) or _FIRST_LOOK
        self.dial_at = now + self.dial_wait

    def wakes_at(self) -> float | None:
        """Give when the node wants to be looked at without anything having happened; None: not at all."""
        return self.next_try if self.reason is not None else self.dial_at


def _alike(one: str, other: str | None) -> bool:
    """Say whether two failures count as one in a row."""
    return one == other or (other is not None and one not in _WAITS and other not in _WAITS)
