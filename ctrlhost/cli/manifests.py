"""`ctrlhost manifests`: what a cluster needs to run plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ctrlhost.cli.options import CONFIG, NAMESPACE, PLUGINS, SET, gather, names
from ctrlhost.cli.output import print_yaml

if TYPE_CHECKING:
    from pathlib import Path


@click.command("manifests")
@PLUGINS
@NAMESPACE
@click.option("--name", default="ctrlhost", show_default=True, help="Name of the Deployment and its account.")
@click.option("--deploy-namespace", default="ctrlhost-system", show_default=True, help="Where the Deployment goes.")
@click.option("--image", help="Image that has ctrlhost and the plugins, with `ctrlhost` as its entry point.")
@click.option("--leader-elect", is_flag=True, default=None, help="Two replicas, of which one acts at a time.")
@CONFIG
@SET
def command(
    plugins: tuple[str, ...],
    namespaces: tuple[str, ...],
    name: str,
    deploy_namespace: str,
    image: str | None,
    leader_elect: bool | None,
    config: Path | None,
    assignments: tuple[str, ...],
) -> None:
    """Print the Deployment, ServiceAccount, RBAC and CRDs of exactly these plugins as YAML.

    The rights are those to watch what the plugins' sources name, those that the plugins ask for, and that to record
    events. Nothing is asked of a cluster.
    """
    from ctrlhost import __version__
    from ctrlhost.manifests.manifests import Deployed, load_plugins, manifests

    configuration = gather(
        config,
        assignments,
        plugins=names(plugins),
        namespaces=names(namespaces),
        leader_elect=leader_elect,
    )
    settings = configuration.host()
    if not settings.plugins:
        raise click.UsageError("no plugin is named; say which with `--plugins NAME,NAME`")
    loaded = load_plugins(settings.plugins, configuration)
    text = config.read_text(encoding="utf-8") if config else ""
    deployed = Deployed(name, deploy_namespace, image or f"ctrlhost:{__version__}", text, assignments)
    print_yaml(manifests(loaded, settings, deployed))
