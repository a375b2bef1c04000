"""Publishes on every Ingress of a class where it is reached from outside, a ctrlhost plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ctrlhost
from ctrlhost_ingress_status.settings import IngressStatusSettings

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["IngressStatusSettings"]


@ctrlhost.hookimpl
def ctrlhost_settings() -> type[IngressStatusSettings]:
    """Give the plugin's settings."""
    return IngressStatusSettings


@ctrlhost.hookimpl
def ctrlhost_permissions(settings: IngressStatusSettings) -> Iterable[ctrlhost.Permission]:
    """Ask for the right to write statuses, with the verb that is used, and nothing else of an Ingress."""
    for namespace in settings.watch_namespaces or (None,):
        yield ctrlhost.Permission(
            "networking.k8s.io", ["ingresses/status"], [settings.write_method], namespace=namespace
        )


@ctrlhost.hookimpl
def ctrlhost_setup(plugin: ctrlhost.PluginContext) -> None:
    """Register the controllers."""
    # Imported here, so that asking for settings and rights stays cheap.
    from ctrlhost_ingress_status.controller import IngressStatus

    plugin.state = IngressStatus(plugin)


@ctrlhost.hookimpl
def ctrlhost_synced(plugin: ctrlhost.PluginContext) -> None:
    """Begin to follow the address, on every replica."""
    state = plugin.state
    state.synced()


@ctrlhost.hookimpl
def ctrlhost_elected(plugin: ctrlhost.PluginContext) -> None:
    """Begin to write."""
    plugin.state.discovery.elected()


@ctrlhost.hookimpl
def ctrlhost_deposed(plugin: ctrlhost.PluginContext) -> None:
    """Write no more; what is published stays."""
    plugin.state.discovery.deposed()
