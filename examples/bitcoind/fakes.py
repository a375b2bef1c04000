"""Fake daemons in place of processes, for machines without bitcoind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost_bitcoin.rpc.client import Credentials, RpcTarget

from examples.bitcoind.fake_daemon import Silent

if TYPE_CHECKING:
    from examples.bitcoind.fake_servers import FakeDaemons


class FakeProcess:
    """A fake daemon with the interface of a process."""

    log = ""

    def __init__(
        self, daemons: FakeDaemons, host: str, *, user: str, password: str, rpc_port: int, p2p_port: int
    ) -> None:
        """Start a fake daemon at the address `host`."""
        del p2p_port  # no fake daemon listens there: a link to a node exists if the node does
        self.host = host
        self.target = RpcTarget(host, rpc_port, Credentials(user, password))
        self._daemons = daemons
        self._daemon = daemons.start(host, rpc_port, user=user, password=password)
        self._runs = True

    @property
    def runs(self) -> bool:
        """Whether it is running."""
        return self._runs

    def hang(self) -> None:
        """Stop answering."""
        self._daemon.script(Silent())

    def resume(self) -> None:
        """Answer again."""
        self._daemon.behave()

    def terminate(self) -> None:
        """Stop it."""
        self.kill()

    def kill(self) -> None:
        """Stop it."""
        if self._runs:
            self._runs = False
            self._daemons.down(self._daemon)

    def close(self) -> None:
        """Stop it."""
        self.kill()
