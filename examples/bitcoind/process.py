"""What the toy kubelet needs of what it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ctrlhost_bitcoin.rpc.client import RpcTarget


class Process(Protocol):
    """A started daemon."""

    host: str
    target: RpcTarget

    @property
    def runs(self) -> bool:
        """Whether it is running."""

    @property
    def log(self) -> str:
        """Its output so far."""

    def hang(self) -> None:
        """Stop answering without ending."""

    def resume(self) -> None:
        """Answer again."""

    def terminate(self) -> None:
        """Terminate it."""

    def kill(self) -> None:
        """Kill it."""

    def close(self) -> None:
        """Kill it, and remove its data."""


class Starter(Protocol):
    """Starts a daemon at an address."""

    def __call__(self, host: str, *, user: str, password: str, rpc_port: int, p2p_port: int) -> Process:
        """Start a daemon."""
