"""`ctrlhost crds`: the CustomResourceDefinitions of plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ctrlhost.cli.messages import print_yaml
from ctrlhost.cli.options import CONFIG, PLUGINS, SET, gather, names

if TYPE_CHECKING:
    from pathlib import Path


@click.command("crds")
@PLUGINS
@CONFIG
@SET
def command(plugins: tuple[str, ...], config: Path | None, assignments: tuple[str, ...]) -> None:
    """Print the CustomResourceDefinitions of plugins as YAML, for `kubectl apply -f -`.

    Without --plugins, those of all installed plugins.
    """
    from ctrlhost.supervisor.loader import PluginManager, installed_plugins, owned_crds

    settings = gather(config, assignments, plugins=names(plugins)).host()
    print_yaml(owned_crds(map(PluginManager().load, settings.plugins or installed_plugins())))
