"""Runs private regtest networks of bitcoin daemons, a ctrlhost plugin.

A BitcoinNetwork sets the number of daemons. The plugin creates the StatefulSet that runs them and, over JSON-RPC, adds
to each daemon the addresses of its peers as soon as it is ready.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_bitcoin.objects.names import GROUP
from ctrlhost_bitcoin.settings import BitcoinSettings

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["BitcoinSettings"]


@ctrlhost.hookimpl
def ctrlhost_settings() -> type[BitcoinSettings]:
    """Return the plugin's settings."""
    return BitcoinSettings


@ctrlhost.hookimpl
def ctrlhost_crds() -> Iterable[dict[str, Any]]:
    """Return the CRD of BitcoinNetwork."""
    return ctrlhost.crds_from(__name__, "bitcoinnetworks.yaml")


@ctrlhost.hookimpl
def ctrlhost_permissions(settings: BitcoinSettings) -> Iterable[ctrlhost.Permission]:
    """Return the rights to write what is created for networks, and to read it again after a conflict."""
    yield ctrlhost.Permission(GROUP, ["bitcoinnetworks"], ["get"])
    yield ctrlhost.Permission(GROUP, ["bitcoinnetworks/status"], ["update"])
    # Servers that check `blockOwnerDeletion` require this right to set such an owner reference.
    yield ctrlhost.Permission(GROUP, ["bitcoinnetworks/finalizers"], ["update"])
    yield ctrlhost.Permission("apps", ["statefulsets"], ["create", "get", "update"])
    yield ctrlhost.Permission("", ["services"], ["create", "get", "update"])
    if settings.secret_access == "get":
        yield ctrlhost.Permission("", ["secrets"], ["get"], resource_names=settings.secret_names)


@ctrlhost.hookimpl
def ctrlhost_setup(plugin: ctrlhost.PluginContext) -> None:
    """Register the controller."""
    plugin.state = Bitcoin(plugin)


@ctrlhost.hookimpl
def ctrlhost_stopping(plugin: ctrlhost.PluginContext) -> None:
    """Stop starting calls to daemons; those in flight end by themselves."""
    plugin.state.rpc.close()
    plugin.state.pool.shutdown(wait=False, cancel_futures=True)


class Bitcoin:
    """The parts of one running plugin; one per host."""

    def __init__(self, plugin: ctrlhost.PluginContext) -> None:
        """Create all parts and register the controller."""
        # Imported here, so that reading settings and permissions stays cheap.
        from ctrlhost_bitcoin.controller import Reconciler, Wiring
        from ctrlhost_bitcoin.mesh.memory import Memory
        from ctrlhost_bitcoin.mesh.mesh import Mesh
        from ctrlhost_bitcoin.metrics import BitcoinMetrics
        from ctrlhost_bitcoin.rpc.client import RpcClient

        settings: BitcoinSettings = plugin.settings
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
        self.pool = ThreadPoolExecutor(settings.rpc_concurrency, thread_name_prefix="bitcoin rpc")
        mesh = Mesh(self.rpc, self.pool, plugin.clock, settings.mesh_deadline)
        reconciler = Reconciler(settings, self.memory, mesh, plugin.clock)
        self.controller = plugin.add_controller(
            "bitcoin", reconciler, *Wiring(plugin).sources(), workers=settings.workers
        )
