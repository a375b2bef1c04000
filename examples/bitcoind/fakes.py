"""Fake daemons in the place of processes, for where there is no bitcoind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost_bitcoin.rpc.client import Credentials, RpcTarget
from ctrlhost_bitcoin.testing.daemon import Silent

if TYPE_CHECKING:
    from ctrlhost_bitcoin.testing.servers import FakeDaemons


class FakeProcess:
    """A fake daemon that is started and ended like a process."""

    log = ""

    def __init__(
        self, daemons: FakeDaemons, host: str, *, user: str, password: str, rpc_port: int, p2p_port: int
    ) -> None:
        """Start a fake daemon at the address `host`."""
        del p2p_port  # nobody listens there: a link to a node is there if the node is
        self.host = host
        self.target = RpcTarget(host, rpc_port, Credentials(user, password))
        self._daemons = daemons
        self._daemon = daemons.start(host, rpc_port, user=user, password=password)
        self._runs = True

    @property
    def runs(self) -> bool:
        """Whether it was not ended."""
        return self._runs

    def hang(self) -> None:
        """Stop answering."""
        self._daemon.script(Silent())

    def resume(self) -> None:
        """Answer again."""
        self._daemon.behave()

    def terminate(self) -> None:
        """End it."""
        self.kill()

    def kill(self) -> None:
        """End it."""
        if self._runs:
            self._runs = False
            self._daemons.down(self._daemon)

    def close(self) -> None:
        """End it."""
        self.kill()
