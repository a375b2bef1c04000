"""`ctrlhost plugins`: list the installed plugins without importing them, or those of a running host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ctrlhost.cli.running_host import OUTPUT, SOCKET, URL
from ctrlhost.cli.table import Column, print_table

if TYPE_CHECKING:
    from pathlib import Path

    from ctrlhost.cli.running_host import Answer

_RUNNING = tuple(map(Column, ("NAME", "VERSION", "STATE", "FOR", "CPU", "RESTARTS", "REASON")))


@click.command("plugins")
@click.option("--check", is_flag=True, help="Import each plugin and report failures; exit code 1 if any fails.")
@URL
@SOCKET
@OUTPUT
def command(check: bool, url: str | None, socket: Path | None, output: str) -> int:
    """List the installed plugins: name, version, distribution. With --url or --socket, list those of a running host.

    Installed plugins are imported only with --check. Of a running host, the list has the state of each plugin, since
    when, the share of a processor that it uses, and why it waits, fails or is degraded.
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
    print_table(_RUNNING, _rows(host.read(body)))
    return 0


def _rows(status: Answer) -> list[list[str]]:
    from ctrlhost.cli.amounts import duration, percent, since

    rows = []
    for plugin in status["plugins"]:
        reasons = [plugin["reason"]] if plugin["reason"] else []
        reasons += [
            f"degraded: {degradation['reason']}: {degradation['message']}" for degradation in plugin["degraded"]
        ]
        reasons += [f"missing right: {rule}" for rule in plugin["missing_rights"]]
        state = f"{plugin['state']}, degraded" if plugin["degraded"] else plugin["state"]
        held, cpu = duration(since(plugin["since"], status["time"])), percent(plugin["cpu_per_second"])
        restarts = str(plugin["restarts"])
        rows.append([plugin["name"], plugin["version"], state, held, cpu, restarts, "; ".join(reasons)])
    return rows


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
        good = "ok" if check else "not imported"
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
