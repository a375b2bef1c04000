"""`ctrlhost pause`: pause controllers of a running host, or list those that are paused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ctrlhost.cli.amounts import duration, plural, since
from ctrlhost.cli.completing import complete_target
from ctrlhost.cli.messages import print_hint
from ctrlhost.cli.paused import ask
from ctrlhost.cli.running_host import RunningHost, acting, print_json
from ctrlhost.cli.table import Column, print_table

if TYPE_CHECKING:
    from pathlib import Path

_PAUSED = (Column("CONTROLLER"), Column("FOR", right=True), Column("BY"), Column("REASON"))


@click.command("pause")
@click.argument("target", metavar="[PLUGIN[/CONTROLLER]]", required=False, shell_complete=complete_target)
@click.option("--reason", metavar="TEXT", default="", help="Why, for who looks at the paused controllers.")
@acting
def command(target: str | None, reason: str, socket: Path | None, output: str) -> None:
    """Pause a controller of a running host, or all controllers of a plugin; without either, list what is paused.

    Workers take no further keys. Reconciles in progress finish, and events are still queued and merged. The pause ends
    with `ctrlhost resume`, or with this replica: another one that takes over is not paused. The host must run with
    --admin. The list has who paused each controller, since when, and why.
    """
    if target is None:
        if reason:
            raise click.UsageError("--reason needs a plugin or a controller to pause")
        _list(socket, output)
        return
    body, answer = ask("pause", target, socket, **({"reason": reason} if reason else {}))
    if output == "json":
        print_json(body)
        return
    controllers, running = answer["controllers"], answer["running"]
    done = f"paused {target}" if answer["changed"] else f"{target} is paused already"
    still = f"{plural(len(controllers), 'controller')}, {plural(running, 'reconcile')} still running"
    click.echo(f"{done} ({still}); until `ctrlhost resume {target}` or a restart of this replica")
    if controllers:
        sections = " and ".join(f'[controllers."{controller}"]' for controller in controllers)
        print_hint(f"to pause for good, set paused = true in {sections}")


def _list(socket: Path | None, output: str) -> None:
    host = RunningHost(path=socket)
    body = host.get("/status")
    if output == "json":
        print_json(body)
        return
    status = host.read(body)
    rows = [
        [
            controller["name"],
            duration(since(controller["paused_since"], status["time"])) if controller["paused_since"] else "-",
            controller["paused_by"] or "-",
            controller["paused_reason"] or "-",
        ]
        for controller in status["controllers"]
        if controller["paused"]
    ]
    if not rows:
        click.echo("no controller is paused")
        return
    print_table(_PAUSED, rows)
    print_hint("`ctrlhost resume PLUGIN/CONTROLLER` ends a pause")
