"""Publishes the external address on every Ingress of a class, a ctrlhost plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ctrlhost
from ctrlhost_ingress_status.settings import IngressStatusSettings

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["IngressStatusSettings"]


@ctrlhost.hookimpl
def ctrlhost_settings() -> type[IngressStatusSettings]:
    """Return the plugin's settings."""
    return IngressStatusSettings


@ctrlhost.hookimpl
def ctrlhost_permissions(settings: IngressStatusSettings) -> Iterable[ctrlhost.Permission]:
    """Return the right to write statuses with the configured verb; updates read an Ingress again after a conflict."""
    for namespace in settings.watch_namespaces or (None,):
        yield ctrlhost.Permission(
            "networking.k8s.io", ["ingresses/status"], [settings.write_method], namespace=namespace
        )
        if settings.write_method == "update":
            # After a conflict the live object is read again.
            yield ctrlhost.Permission("networking.k8s.io", ["ingresses"], ["get"], namespace=namespace)


@ctrlhost.hookimpl
def ctrlhost_setup(plugin: ctrlhost.PluginContext) -> None:
    """Register the controllers."""
    # Imported here, so that reading settings and permissions stays cheap.
    from ctrlhost_ingress_status.controller import IngressStatus

    plugin.state = IngressStatus(plugin)


@ctrlhost.hookimpl
def ctrlhost_synced(plugin: ctrlhost.PluginContext) -> None:
    """Start to follow the address, on every replica."""
    plugin.state.synced()


@ctrlhost.hookimpl
def ctrlhost_elected(plugin: ctrlhost.PluginContext) -> None:
    """Start to write."""
    plugin.state.discovery.elected()


@ctrlhost.hookimpl
def ctrlhost_deposed(plugin: ctrlhost.PluginContext) -> None:
    """Stop writing; what is published stays."""
    plugin.state.discovery.deposed()
