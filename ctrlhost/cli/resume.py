"""`ctrlhost resume`: resume paused controllers of a running host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ctrlhost.cli.amounts import plural
from ctrlhost.cli.completing import complete_target
from ctrlhost.cli.paused import ask
from ctrlhost.cli.running_host import acting, print_json

if TYPE_CHECKING:
    from pathlib import Path


@click.command("resume")
@click.argument("target", metavar="PLUGIN[/CONTROLLER]", shell_complete=complete_target)
@acting
def command(target: str, socket: Path | None, output: str) -> None:
    """Resume a paused controller of a running host, or all paused controllers of a plugin.

    Each object that changed meanwhile is reconciled once. The host must run with --admin.
    """
    body, answer = ask("resume", target, socket)
    if output == "json":
        print_json(body)
        return
    done = f"resumed {target}" if answer["changed"] else f"{target} is not paused"
    click.echo(f"{done} ({plural(len(answer['controllers']), 'controller')}, {plural(answer['queued'], 'key')} queued)")
