"""`ctrlhost crds`: the CustomResourceDefinitions of plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ctrlhost.cli.options import CONFIG, PLUGINS, SET, gather, names
from ctrlhost.cli.output import print_yaml

if TYPE_CHECKING:
    from pathlib import Path


@click.command("crds")
@PLUGINS
@CONFIG
@SET
def command(plugins: tuple[str, ...], config: Path | None, assignments: tuple[str, ...]) -> None:
    """Print the CustomResourceDefinitions of plugins as YAML, for `kubectl apply -f -`.

    Without --plugins those of all plugins that are installed.
    """
    from ctrlhost.supervisor.loader import PluginManager, installed_plugins

    settings = gather(config, assignments, plugins=names(plugins)).host()
    manager = PluginManager()
    found: dict[str, dict[str, Any]] = {}
    for name in settings.plugins or installed_plugins():
        for crd in manager.load(name).crds():
            found.setdefault(crd["metadata"]["name"], crd)
    print_yaml(found.values())
