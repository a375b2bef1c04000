"""`ctrlhost manifests`: the manifests that run plugins in a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ctrlhost.cli.messages import print_yaml
from ctrlhost.cli.options import CONFIG, ISOLATE, NAMESPACE, PLUGINS, SET, gather, isolate, names

if TYPE_CHECKING:
    from pathlib import Path


@click.command("manifests")
@PLUGINS
@ISOLATE
@NAMESPACE
@click.option("--name", default="ctrlhost", show_default=True, help="Name of the Deployment and its ServiceAccount.")
@click.option("--deploy-namespace", default="ctrlhost-system", show_default=True, help="Namespace of the Deployment.")
@click.option("--image", help="Image with ctrlhost and the plugins; its entry point must be `ctrlhost`.")
@click.option("--leader-elect", is_flag=True, default=None, help="Run two replicas, of which only the leader acts.")
@CONFIG
@SET
def command(
    plugins: tuple[str, ...],
    isolated: tuple[str, ...],
    namespaces: tuple[str, ...],
    name: str,
    deploy_namespace: str,
    image: str | None,
    leader_elect: bool | None,
    config: Path | None,
    assignments: tuple[str, ...],
) -> None:
    """Print the Deployment, ServiceAccount, RBAC and CRDs of exactly these plugins as YAML.

    The permissions are those to watch the plugins' sources, those that the plugins request, and those to record events.
    The command does not contact a cluster.
    """
    from ctrlhost import __version__
    from ctrlhost.manifests.manifests import Deployed, load_plugins, manifests

    chosen, limit = names(plugins), names(namespaces)
    configuration = gather(config, assignments, plugins=chosen, namespaces=limit, leader_elect=leader_elect)
    settings = configuration.host()
    if not settings.plugins:
        raise click.UsageError("no plugins selected; select some with `--plugins NAME,NAME`")
    isolate(configuration, isolated)
    for plugin in settings.plugins:
        # A mistake would otherwise show up in the pod.
        configuration.supervision(plugin)
    loaded = load_plugins(settings.plugins, configuration)
    text = config.read_text(encoding="utf-8") if config else ""
    deployed = Deployed(name, deploy_namespace, image or f"ctrlhost:{__version__}", text, assignments, names(isolated))
    print_yaml(manifests(loaded, settings, deployed))
