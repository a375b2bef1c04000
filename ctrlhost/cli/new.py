"""`ctrlhost new`: the project of a new plugin."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from ctrlhost.authoring.scaffold.owned import OWNED


@click.command("new")
@click.argument("name")
@click.option(
    "--kind", metavar="KIND", help="Kind of your own to reconcile, with a CRD (default: ConfigMaps by label)."
)
@click.option("--group", metavar="GROUP", help="Its API group (default: NAME.example.com).")
@click.option(
    "--owns",
    multiple=True,
    metavar="APIVERSION/KIND",
    help="Kind that the plugin makes for each object; may be repeated (default: apps/v1/Deployment). There are "
    f"{', '.join(sorted(OWNED))}.",
)
@click.option("--cluster-scoped", is_flag=True, help="Objects of the kind are in no namespace.")
def command(name: str, kind: str | None, group: str | None, owns: tuple[str, ...], cluster_scoped: bool) -> None:
    """Write the project of the plugin NAME, with tests, into a new directory NAME.

    The plugin makes the objects that --owns names for each object that it reconciles, and repairs them. Exit code 2
    means an invalid name, or that there is something of that name; then nothing is written.
    """
    from ctrlhost.authoring.scaffold.choices import Choices
    from ctrlhost.authoring.scaffold.project import project, write
    from ctrlhost.supervisor.loader import RESERVED_NAMES

    choices = Choices.checked(
        name, kind=kind, group=group, owns=owns, cluster_scoped=cluster_scoped, reserved=RESERVED_NAMES
    )
    texts = project(choices)
    write(texts, Path(name))
    for path in texts:
        click.echo(f"{name}/{path}")
    for line in (
        f"cd {shlex.quote(name)}",
        "python3 -m venv .venv && .venv/bin/pip install -e '.[dev]'",
        f".venv/bin/ctrlhost dev --plugins {name} --manifest examples/{choices.file}.yaml",
    ):
        click.echo(line, err=True)
