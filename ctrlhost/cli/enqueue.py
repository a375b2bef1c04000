"""`ctrlhost enqueue`: queue keys of a controller of a running host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ctrlhost.cli.amounts import plural
from ctrlhost.cli.completing import complete_controller, complete_key
from ctrlhost.cli.running_host import RunningHost, acting, parse_controller, print_json
from ctrlhost.cli.table import visible

if TYPE_CHECKING:
    from pathlib import Path

    from ctrlhost.cli.running_host import Answer


@click.command("enqueue")
@click.argument("controller", metavar="PLUGIN/CONTROLLER", shell_complete=complete_controller)
@click.argument("keys", metavar="[[NAMESPACE/]NAME]…", nargs=-1, shell_complete=complete_key)
@click.option("--all", "everything", is_flag=True, help="Queue all objects that the controller is for.")
@click.option("--priority", type=int, help="Priority of the keys of --all (default: -100).")
@acting
def command(
    controller: str,
    keys: tuple[str, ...],
    everything: bool,
    priority: int | None,
    socket: Path | None,
    output: str,
) -> None:
    """Queue keys of a controller of a running host, which ends their back-off.

    A key that is not in the cache is queued with a warning. A replica that does not lead refuses, and names the leader.
    The host must run with --admin.
    """
    if everything == bool(keys):
        raise click.UsageError("give keys or --all" + (", not both" if keys else ""))
    if priority is not None and not everything:
        raise click.UsageError("--priority is for --all")
    parse_controller(controller)
    body: Answer = {"controller": controller}
    if everything:
        body |= {"all": True} | ({} if priority is None else {"priority": priority})
    else:
        body["keys"] = list(keys)
    host = RunningHost(path=socket)
    content = host.act("enqueue", body)
    answer = host.read(content)
    for warning in answer["warnings"]:
        click.echo(f"warning: {visible(warning)}", err=True)
    if output == "json":
        print_json(content)
        return
    click.echo(f"queued {plural(answer['queued'], 'key')} of {controller}")
