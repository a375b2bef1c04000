"""What a plugin may implement: the whole contract between the host and a plugin.

A plugin is a module, or an object, with functions of these names that `@ctrlhost.hookimpl` marks; each is optional.
A function may leave out the parameters that it does not need. The host calls the hooks of one plugin at a time, and
what a hook raises is reported under that plugin's name and stops that plugin only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from collections.abc import Iterable

    import click
    import msgspec

    from ctrlhost.permissions import Permission
    from ctrlhost.plugin.context import PluginContext

PROJECT = "ctrlhost"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def ctrlhost_settings() -> type[msgspec.Struct]:  # type: ignore[empty-body]
    """Give the struct of the plugin's settings, which `[plugins.NAME]`, the environment and `--set` fill."""


@hookspec
def ctrlhost_crds() -> Iterable[dict[str, Any]]:  # type: ignore[empty-body]
    """Give the CustomResourceDefinitions that the plugin owns."""


@hookspec
def ctrlhost_permissions(settings: Any) -> Iterable[Permission]:  # type: ignore[empty-body]
    """Give the rights that the plugin needs beyond reading what its sources watch."""


@hookspec
def ctrlhost_setup(plugin: PluginContext) -> None:
    """Register controllers, tasks, pages and checks; without the network, as `ctrlhost manifests` works offline."""


@hookspec
def ctrlhost_synced(plugin: PluginContext) -> None:
    """Prepare from full caches: each holds its first list, and no worker of the plugin runs yet; on every replica."""


@hookspec
def ctrlhost_elected(plugin: PluginContext) -> None:
    """Hear that this replica leads from now on; without leader election that is so from the start."""


@hookspec
def ctrlhost_deposed(plugin: PluginContext) -> None:
    """Hear that this replica leads no more."""


@hookspec
def ctrlhost_stopping(plugin: PluginContext) -> None:
    """Prepare for the end: the host takes no new work and drains what is running after this."""


@hookspec
def ctrlhost_commands(group: click.Group) -> None:
    """Add commands of the plugin's own to `group`, which is `ctrlhost NAME`."""
