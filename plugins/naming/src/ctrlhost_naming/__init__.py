"""The naming controller, a ctrlhost plugin: arbitrates the names of the CustomResourceDefinitions of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ctrlhost
from ctrlhost_naming.decision import Mode
from ctrlhost_naming.names import has_own_controller
from ctrlhost_naming.settings import NamingSettings

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["NamingSettings"]


@ctrlhost.hookimpl
def ctrlhost_settings() -> type[NamingSettings]:
    """Return the type of the plugin's settings."""
    return NamingSettings


@ctrlhost.hookimpl
def ctrlhost_permissions(settings: NamingSettings) -> Iterable[ctrlhost.Permission]:
    """Request write rights in the modes that write."""
    if settings.mode is Mode.OBSERVE:
        return ()
    return (
        ctrlhost.Permission("apiextensions.k8s.io", ["customresourcedefinitions/status"], ["patch"]),
        ctrlhost.Permission("events.k8s.io", ["events"], ["create", "patch"]),
    )


@ctrlhost.hookimpl
def ctrlhost_setup(plugin: ctrlhost.PluginContext) -> None:
    """Register the controllers."""
    # Imported here, so that asking for settings and rights stays cheap.
    from ctrlhost_naming.controller import NamingController

    plugin.state = NamingController(plugin)


@ctrlhost.hookimpl
def ctrlhost_synced(plugin: ctrlhost.PluginContext) -> None:
    """Fill the index, but refuse to be a second naming controller unless `force` is set."""
    settings: NamingSettings = plugin.settings
    if settings.mode is Mode.ENFORCE and not settings.force and has_own_controller(plugin.client):
        raise ctrlhost.PluginError(
            plugin.name,
            "the API server has its own naming controller, so `naming` does not start in mode enforce",
            hint="use `--set naming.mode=repair` or observe, or `--set naming.force=true` if it is known to be off",
        )
    plugin.state.synced()
