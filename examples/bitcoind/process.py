"""What the toy kubelet needs of what it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ctrlhost_bitcoin.rpc.client import RpcTarget


class Process(Protocol):
    """A daemon that was started."""

    host: str
    target: RpcTarget

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""

    @property
    def log(self) -> str:
        """What it has printed."""

    def hang(self) -> None:
        """Stop answering, without ending."""

    def resume(self) -> None:
        """Answer again."""

    def terminate(self) -> None:
        """Ask it to end."""

    def kill(self) -> None:
        """End it at once."""

    def close(self) -> None:
        """End it at once, and leave nothing of it behind."""


class Starter(Protocol):
    """Starts a daemon at an address."""

    def __call__(self, host: str, *, user: str, password: str, rpc_port: int, p2p_port: int) -> Process:
        """Start one."""
