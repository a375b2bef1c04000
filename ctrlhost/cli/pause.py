"""`ctrlhost pause`: pause controllers of a running host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ctrlhost.cli.amounts import plural
from ctrlhost.cli.messages import print_hint
from ctrlhost.cli.paused import ask
from ctrlhost.cli.running_host import acting, print_json

if TYPE_CHECKING:
    from pathlib import Path


@click.command("pause")
@click.argument("target", metavar="PLUGIN[/CONTROLLER]")
@acting
def command(target: str, socket: Path | None, output: str) -> None:
    """Pause a controller of a running host, or all controllers of a plugin.

    Workers take no further keys. Reconciles in progress finish, and events are still queued and merged. The pause ends
    with `ctrlhost resume`, or with this replica: another one that takes over is not paused. The host must run with
    --admin.
    """
    body, answer = ask("pause", target, socket)
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
