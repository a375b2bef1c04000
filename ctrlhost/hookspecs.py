"""The hooks that a plugin may implement: the whole contract between the host and a plugin.

A plugin is a module, or an object, with functions of these names that are marked with `@ctrlhost.hookimpl`; each is
optional. A function may omit parameters. The host calls the hooks of one plugin one at a time; an exception from a hook
is reported under the plugin's name and stops only that plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import click
    import msgspec

    from ctrlhost.permissions import Permission
    from ctrlhost.plugin.context import PluginContext

PROJECT = "ctrlhost"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def ctrlhost_loaded(name: str) -> None:
    """Take the name of the plugin, before any other hook is called.

    An object with this hook, such as a `ctrlhost.Plugin`, stands for the module without hooks that it is in.
    """


@hookspec
def ctrlhost_settings() -> type[msgspec.Struct]:  # type: ignore[empty-body]
    """Return the struct of the plugin's settings, filled from `[plugins.NAME]`, the environment and `--set`."""


@hookspec
def ctrlhost_crds() -> Iterable[dict[str, Any]]:  # type: ignore[empty-body]
    """Return the CustomResourceDefinitions that the plugin owns."""


@hookspec
def ctrlhost_objects() -> Iterable[dict[str, Any]]:  # type: ignore[empty-body]
    """Return what else the plugin ships, such as an admission policy or a PriorityClass.

    `ctrlhost manifests` prints these objects, and who installs the CRDs applies them.
    """


@hookspec
def ctrlhost_permissions(settings: Any) -> Iterable[Permission]:  # type: ignore[empty-body]
    """Return the permissions that the plugin needs beyond those to list and watch its sources.

    Reads by name through the client need `get`.
    """


@hookspec
def ctrlhost_notes() -> Iterable[str]:  # type: ignore[empty-body]
    """Return lines for who deploys the plugin, which `ctrlhost manifests` prints as hints.

    They name what the host cannot know, such as the requests of a client of the plugin's own.
    """


@hookspec
def ctrlhost_finalizers() -> Mapping[str, Iterable[str]]:  # type: ignore[empty-body]
    """Return the plugin's own finalizers by controller, which `ctrlhost explain-key` shows as such."""


@hookspec
def ctrlhost_setup(plugin: PluginContext) -> None:
    """Register controllers, tasks, pages and checks. Must not use the network while `plugin.offline` is true."""


@hookspec
def ctrlhost_synced(plugin: PluginContext) -> None:
    """Prepare from the synced caches, before the plugin's workers start; called on every replica."""


@hookspec
def ctrlhost_elected(plugin: PluginContext) -> None:
    """Called when this replica becomes the leader; without leader election once, after `ctrlhost_synced`."""


@hookspec
def ctrlhost_deposed(plugin: PluginContext) -> None:
    """Called when this replica loses leadership."""


@hookspec
def ctrlhost_shards_changed(plugin: PluginContext) -> None:
    """Called when other keys are this replica's own: after ranges have opened, before their first run; after a loss.

    For plugins with a sharded controller, on each replica; `plugin.owns(request)` says whose a key is. A range moves
    without waiting for it.
    """


@hookspec
def ctrlhost_stopping(plugin: PluginContext) -> None:
    """Prepare for the shutdown: the host then accepts no new work and drains running reconciles."""


@hookspec
def ctrlhost_commands(group: click.Group) -> None:
    """Add the plugin's own commands to `group`, which is `ctrlhost NAME`."""
