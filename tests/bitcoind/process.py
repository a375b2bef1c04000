"""What the toy kubelet needs of what it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ctrlhost_bitcoin.rpc import RpcTarget


class Process(Protocol):
    """A daemon that was started."""

    host: str
    target: RpcTarget

    @property
    def runs(self) -> bool: ...

    @property
    def log(self) -> str: ...

    def hang(self) -> None: ...

    def resume(self) -> None: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...

    def close(self) -> None: ...


class Starter(Protocol):
    """Starts a daemon at an address."""

    def __call__(self, host: str, *, user: str, password: str, rpc_port: int, p2p_port: int) -> Process: ...
