"""`ctrlhost crds`: the CustomResourceDefinitions of plugins."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import click

from ctrlhost.cli.frameworks import FrameworkCommand, framework_options
from ctrlhost.cli.messages import FAILURE, print_hint, print_yaml
from ctrlhost.cli.options import CONFIG, FILES, PLUGINS, SET, gather, names, plugin_files

if TYPE_CHECKING:
    from pathlib import Path


@click.command("crds", cls=FrameworkCommand)
@FILES
@framework_options
@PLUGINS
@click.option(
    "--check",
    "checked",
    type=click.File("r", encoding="utf-8"),
    help="Print no CRDs, but how those of this YAML file differ from the plugins' models.",
)
@CONFIG
@SET
def command(
    files: tuple[Path, ...],
    plugins: tuple[str, ...],
    checked: IO[str] | None,
    config: Path | None,
    assignments: tuple[str, ...],
) -> int:
    """Print the CustomResourceDefinitions of plugins as YAML, for `kubectl apply -f -`.

    Without files and --plugins, those of all installed plugins. A kind that the package of a plugin defines in a file
    is printed as it is there; the others are generated from models.

    With --check, exit with 1 and print a unified diff if the file's definitions are not those of the models, or, for
    kinds without a model, those that the command would print.
    """
    from ctrlhost.authoring.invalid_crds import UNCHECKED, can_check_crds, reject_invalid_crds
    from ctrlhost.supervisor.loader import PluginManager, installed_plugins, owned_crds

    settings = gather(config, assignments, plugins=names(plugins)).host
    of_files = plugin_files(files, settings.plugins)
    installed = settings.plugins or (() if of_files else installed_plugins())
    loaded = [PluginManager().load(name) for name in installed]
    loaded += [PluginManager().register(file.name, file) for file in of_files]
    if not can_check_crds():
        print_hint(UNCHECKED)
    reject_invalid_crds(loaded)
    if checked is None:
        print_yaml(owned_crds(loaded))
        return 0
    from ctrlhost.authoring.crd_differences import defined_crds, differences

    try:
        text = checked.read()
    except UnicodeDecodeError:
        raise click.UsageError(f"{checked.name} is not UTF-8") from None
    diff, warnings = differences(checked.name, text, defined_crds(loaded))
    click.echo(diff, nl=False)
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    return FAILURE if diff else 0
