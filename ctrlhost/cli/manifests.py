"""`ctrlhost manifests`: the manifests that run plugins in a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ctrlhost.cli.frameworks import FrameworkCommand
from ctrlhost.cli.installation import Choices, describe, installation_options
from ctrlhost.cli.messages import print_yaml


@click.command("manifests", cls=FrameworkCommand)
@installation_options
@click.option("--deploy-namespace", default="ctrlhost-system", show_default=True, help="Namespace of the Deployment.")
@click.option(
    "--kustomize",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Write a kustomize base instead: a file for each object, and the kustomization.",
)
@click.option(
    "--uninstall", is_flag=True, help="Leave out CRDs, objects of plugins and Namespaces, for `kubectl delete -f -`."
)
def command(deploy_namespace: str, kustomize: Path | None, uninstall: bool, **options: Any) -> None:
    """Print what runs exactly these plugins in a cluster as YAML, for `kubectl apply --server-side -f -`.

    The permissions are those to watch the plugins' sources, those that the plugins request, and those to record events.
    Unless the settings say otherwise, pods answer probes on 8484, and show metrics on 8443 to clients with a token.
    The command does not contact a cluster. It takes files to show what they need: in the image, their plugins must be
    installed.
    """
    from ctrlhost.errors import ConfigError
    from ctrlhost.manifests.folders import write_folder
    from ctrlhost.manifests.kustomize import kustomization
    from ctrlhost.manifests.manifests import manifests, removable

    if uninstall and kustomize is not None:
        raise click.UsageError("--uninstall and --kustomize are mutually exclusive")
    choices = Choices(**options)
    described = describe(choices, deploy_namespace)
    # All of it, before anything is printed.
    documents = list(manifests(described.plugins, described.configuration, described.deployed))
    if choices.image is None and not uninstall:
        raise ConfigError("--image: missing: no image is published", hint="build one from the Dockerfile, and name it")
    if kustomize is not None:
        write_folder(kustomize, kustomization(documents), "ctrlhost manifests --kustomize")
        click.echo(f"wrote {len(documents)} objects and kustomization.yaml to {kustomize}")
    else:
        print_yaml(removable(documents) if uninstall else documents)
    described.print_hints()
