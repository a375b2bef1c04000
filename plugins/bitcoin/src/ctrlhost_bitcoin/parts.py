"""What the plugin keeps as long as its host runs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from ctrlhost_bitcoin.credentials import CredentialReader, PolledSecrets, cached_secret
from ctrlhost_bitcoin.mesh.mesh import Mesh
from ctrlhost_bitcoin.mesh.node_state import Memory
from ctrlhost_bitcoin.metrics import BitcoinMetrics
from ctrlhost_bitcoin.rpc.client import RpcClient

if TYPE_CHECKING:
    import ctrlhost
    from ctrlhost_bitcoin.settings import BitcoinSettings


class Parts:
    """The parts of the plugin in one host."""

    def __init__(self, host: ctrlhost.PluginContext) -> None:
        """Create them; nothing is called yet."""
        settings: BitcoinSettings = host.settings
        self.memory = Memory()
        self.metrics = BitcoinMetrics(host.metrics, self.memory, host.owns)
        self.credentials = CredentialReader(
            cached_secret if settings.secret_access == "watch" else PolledSecrets(host.clock, settings.resync)
        )
        self.rpc = RpcClient(
            clock=host.clock,
            connect_timeout=settings.rpc_connect_timeout,
            timeout=settings.rpc_timeout,
            onetry_timeout=settings.onetry_timeout,
            concurrency=settings.rpc_concurrency,
            observe=self.metrics.called,
        )
        self.pool = ThreadPoolExecutor(settings.rpc_concurrency, thread_name_prefix="bitcoin rpc")
        self.mesh = Mesh(self.rpc, self.pool, host.clock, settings.mesh_deadline)

    def close(self) -> None:
        """Stop starting calls."""
        self.rpc.close()
        self.pool.shutdown(wait=False, cancel_futures=True)
