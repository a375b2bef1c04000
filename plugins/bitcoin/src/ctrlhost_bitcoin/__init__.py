"""Runs private regtest networks of bitcoin daemons, a ctrlhost plugin.

A BitcoinNetwork says how many daemons there are; the plugin makes the StatefulSet that runs them and tells each of them
of its peers, over JSON-RPC, as soon as it is ready.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_bitcoin.crds import crds
from ctrlhost_bitcoin.objects.names import GROUP
from ctrlhost_bitcoin.settings import BitcoinSettings

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["BitcoinSettings"]


@ctrlhost.hookimpl
def ctrlhost_settings() -> type[BitcoinSettings]:
    """Give the plugin's settings."""
    return BitcoinSettings


@ctrlhost.hookimpl
def ctrlhost_crds() -> Iterable[dict[str, Any]]:
    """Give the CRD of BitcoinNetwork."""
    return crds()


@ctrlhost.hookimpl
def ctrlhost_permissions(settings: BitcoinSettings) -> Iterable[ctrlhost.Permission]:
    """Ask for the writes to what is made for networks. Nothing is ever deleted."""
    yield ctrlhost.Permission(GROUP, ["bitcoinnetworks/status"], ["update"])
    # What owner references that block the owner's deletion are checked against, where the server checks them.
    yield ctrlhost.Permission(GROUP, ["bitcoinnetworks/finalizers"], ["update"])
    yield ctrlhost.Permission("apps", ["statefulsets"], ["create", "update"])
    yield ctrlhost.Permission("", ["services"], ["create", "update"])
    if settings.secret_access == "get":
        yield ctrlhost.Permission("", ["secrets"], ["get"], resource_names=settings.secret_names)


@ctrlhost.hookimpl
def ctrlhost_setup(plugin: ctrlhost.PluginContext) -> None:
    """Register the controller."""
    # Imported here, so that asking for settings and rights stays cheap.
    from ctrlhost_bitcoin.plugin import Bitcoin

    plugin.state = Bitcoin(plugin)


@ctrlhost.hookimpl
def ctrlhost_synced(plugin: ctrlhost.PluginContext) -> None:
    """Look whether the server's CRD is this version's."""
    plugin.state.synced()


@ctrlhost.hookimpl
def ctrlhost_stopping(plugin: ctrlhost.PluginContext) -> None:
    """Call no daemon any more."""
    plugin.state.stopping()
