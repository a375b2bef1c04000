"""`ctrlhost chart`: a Helm chart that runs plugins in a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ctrlhost.cli.frameworks import FrameworkCommand
from ctrlhost.cli.installation import Choices, describe, installation_options


@click.command("chart", cls=FrameworkCommand)
@installation_options
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default="chart",
    show_default=True,
    metavar="FOLDER",
    help="Folder of the chart, which later calls write anew.",
)
def command(output: Path, **options: Any) -> None:
    """Write a Helm chart that runs exactly these plugins in a cluster.

    Its objects are those of `ctrlhost manifests`, in the namespace of the release. Image, replicas, resources, where
    pods run, environment, settings, isolated plugins and monitors are values, whose defaults are what the options say.
    Whatever changes rights or ports needs the chart written anew. The command does not contact a cluster.
    """
    from ctrlhost.manifests.chart import COMMAND, chart
    from ctrlhost.manifests.folders import write_folder
    from ctrlhost.manifests.holes import NAMESPACE

    choices = Choices(**options)
    described = describe(choices, NAMESPACE)
    write_folder(output, chart(described.plugins, described.configuration, described.deployed), COMMAND)
    click.echo(f"wrote the chart of {choices.name} to {output}: helm install {choices.name} {output}")
    described.print_hints()
