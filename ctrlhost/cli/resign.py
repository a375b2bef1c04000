"""`ctrlhost resign`: let another replica lead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ctrlhost.cli.amounts import plural
from ctrlhost.cli.completing import complete_installed
from ctrlhost.cli.running_host import RunningHost, acting, print_json

if TYPE_CHECKING:
    from pathlib import Path


@click.command("resign")
@click.option(
    "--plugin",
    metavar="NAME",
    shell_complete=complete_installed,
    help="Only for this plugin, which must have a Lease of its own.",
)
@acting
def command(plugin: str | None, socket: Path | None, output: str) -> None:
    """Hand leadership to another replica, without a restart of this one.

    This replica writes nothing more for the plugins and begins no reconcile. When what runs has ended, it releases the
    Lease, and another replica leads at once. After twice the duration of the Lease this one is a candidate again. The
    host must run with --admin.
    """
    host = RunningHost(path=socket)
    body = host.act("resign", {} if plugin is None else {"plugin": plugin})
    if output == "json":
        print_json(body)
        return
    answer = host.read(body)
    leases = answer["leases"]
    click.echo(
        f"resigned from {plural(len(leases), 'Lease')}: {', '.join(leases)}; "
        f"this replica is a candidate again in {answer['seconds']:g} s"
    )
