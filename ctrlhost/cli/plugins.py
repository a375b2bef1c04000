"""`ctrlhost plugins`: list the installed plugins without importing them, or those of a running host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ctrlhost.cli.running_host import OUTPUT, SOCKET, URL
from ctrlhost.cli.table import Column, print_table, table, visible

if TYPE_CHECKING:
    from pathlib import Path

    from ctrlhost.cli.running_host import Answer

_RUNNING = (
    Column("NAME"),
    Column("VERSION"),
    Column("STATE"),
    Column("FOR", right=True),
    Column("CPU", right=True),
    Column("RESTARTS", right=True),
)


@click.command("plugins")
@click.option("--check", is_flag=True, help="Import each plugin and report failures; exit code 1 if any fails.")
@URL
@SOCKET
@OUTPUT
def command(check: bool, url: str | None, socket: Path | None, output: str) -> int:
    """List the installed plugins: name, version, distribution. With --url or --socket, list those of a running host.

    Installed plugins are imported only with --check. Of a running host, the list has the state of each plugin, the
    worst first, since when, and the share of a processor that it uses. Below a plugin that waits, fails or is degraded
    are the reasons, and the commands that show more.
    """
    if url is None and socket is None:
        if output == "json":
            raise click.UsageError("--output json needs a running host: name it with --url or --socket")
        return _installed(check)
    if check:
        raise click.UsageError("--check is for installed plugins, without --url and --socket")
    from ctrlhost.cli.running_host import RunningHost, print_json

    host = RunningHost(url, socket)
    body = host.get("/status")
    if output == "json":
        print_json(body)
        return 0
    _print_running(host.read(body))
    return 0


def _print_running(status: Answer) -> None:
    from ctrlhost.cli.amounts import duration, percent, since
    from ctrlhost.cli.states import rank, reasons_of

    plugins = sorted(status["plugins"], key=lambda plugin: (rank(plugin["condition"]), plugin["name"]))
    rows = []
    for plugin in plugins:
        held, cpu = duration(since(plugin["since"], status["time"])), percent(plugin["cpu_per_second"])
        rows.append([plugin["name"], plugin["version"], plugin["condition"], held, cpu, plugin["restarts"]])
    heading, *lines = table(_RUNNING, rows)
    click.echo(heading)
    for plugin, line in zip(plugins, lines, strict=True):
        click.echo(line)
        for reason in reasons_of(plugin):
            click.echo(f"    {visible(reason)}")
        for command in _commands(plugin):
            click.echo(f"    see `{command}`")


def _commands(plugin: Answer) -> list[str]:
    """Return the commands that show, or mend, what is wrong with a plugin."""
    commands = []
    if plugin["outcomes"]["failing"]:
        commands.append("ctrlhost queue --failing")
    if plugin["missing_rights"]:
        commands.append("ctrlhost manifests")
    if any(degradation["reason"] == "paused" for degradation in plugin["degraded"]):
        commands.append("ctrlhost pause")
    return commands


def _installed(check: bool) -> int:
    from ctrlhost.supervisor.loader import installed_plugins, misplaced_plugins

    misplaced = misplaced_plugins()
    for line in misplaced:
        click.echo(f"warning: {line}", err=True)
    rows: list[tuple[str, ...]] = []
    failed = check and bool(misplaced)
    details: list[tuple[str, str | None]] = []
    for name, candidates in installed_plugins().items():
        problem = _problem(name, details) if check else ""
        failed |= bool(problem)
        if len(candidates) > 1:
            problem = "error: more than one distribution has a plugin of this name"
        good = "ok" if check else "installed"
        rows.extend((name, plugin.version, plugin.distribution, problem or good) for plugin in candidates)
    if not rows:
        click.echo("no plugins are installed", err=True)
        click.echo("\nhint: a plugin is a distribution with an entry point in the group `ctrlhost`", err=True)
        return int(failed)
    print_table([Column(heading) for heading in ("NAME", "VERSION", "DISTRIBUTION", "STATUS")], rows)
    for text, hint in details:
        click.echo(f"\nerror: {text}", err=True)
        if hint:
            click.echo(f"hint: {hint}", err=True)
    return int(failed)


def _problem(name: str, details: list[tuple[str, str | None]]) -> str:
    """Return what is wrong with a plugin, empty if nothing is; add what a row has no room for to `details`."""
    from ctrlhost.declarative.checks import DeclarationError
    from ctrlhost.errors import PluginError
    from ctrlhost.supervisor.loader import PluginManager

    try:
        PluginManager().load(name)
    except DeclarationError as error:
        details += [(f"plugin {name}: {mistake}", mistake.hint) for mistake in error.mistakes]
        return f"error: mistakes in its declaration: {len(error.mistakes)}"
    except PluginError as error:
        details.append((f"plugin {name}: {error.message}", error.hint))
        return f"error: {error.message}"
    return ""
