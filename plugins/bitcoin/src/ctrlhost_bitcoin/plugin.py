"""All parts of one running plugin, put together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from ctrlhost_bitcoin.crd_check import check_crds
from ctrlhost_bitcoin.mesh.memory import Memory
from ctrlhost_bitcoin.mesh.mesh import Mesh
from ctrlhost_bitcoin.metrics import BitcoinMetrics
from ctrlhost_bitcoin.objects.credentials import CredentialReader
from ctrlhost_bitcoin.objects.secrets import AskedSecrets, SecretSource, WatchedSecrets
from ctrlhost_bitcoin.reconciler import Reconciler
from ctrlhost_bitcoin.rpc.client import RpcClient
from ctrlhost_bitcoin.wiring import Wiring

if TYPE_CHECKING:
    import ctrlhost
    from ctrlhost_bitcoin.settings import BitcoinSettings


class Bitcoin:
    """Everything that one running plugin knows; made in `ctrlhost_setup`, one per host."""

    def __init__(self, plugin: ctrlhost.PluginContext) -> None:
        """Register the controller."""
        settings: BitcoinSettings = plugin.settings
        self._plugin = plugin
        self.memory = Memory()
        self.metrics = BitcoinMetrics(plugin.metrics, self.memory)
        self.rpc = RpcClient(
            clock=plugin.clock,
            connect_timeout=settings.rpc_connect_timeout,
            timeout=settings.rpc_timeout,
            onetry_timeout=settings.onetry_timeout,
            concurrency=settings.rpc_concurrency,
            observe=self.metrics.called,
        )
        self._pool = ThreadPoolExecutor(settings.rpc_concurrency, thread_name_prefix="bitcoin rpc")
        secrets: SecretSource = WatchedSecrets() if settings.secret_access == "watch" else AskedSecrets(plugin.clock)
        mesh = Mesh(self.rpc, self._pool, plugin.clock, settings.mesh_deadline)
        self.reconciler = Reconciler(settings, self.memory, mesh, CredentialReader(secrets))
        self.controller = plugin.add_controller(
            "bitcoin", self.reconciler, *Wiring(plugin).sources(), workers=settings.workers
        )

    def synced(self) -> None:
        """Say at once what would else show with the first status that is written."""
        check_crds(self._plugin)

    def stopping(self) -> None:
        """Begin no call any more; those under way end by themselves."""
        self.rpc.close()
        self._pool.shutdown(wait=False, cancel_futures=True)
