"""`ctrlhost plugins`: list the installed plugins without importing them."""

from __future__ import annotations

import click


@click.command("plugins")
@click.option("--check", is_flag=True, help="Import each plugin and report failures; exit code 1 if any fails.")
def command(check: bool) -> int:
    """List the installed plugins: name, version, distribution.

    Plugins are imported only with --check.
    """
    from ctrlhost.supervisor.loader import installed_plugins

    rows = [("NAME", "VERSION", "DISTRIBUTION", "STATUS")]
    failed = False
    for name, candidates in installed_plugins().items():
        problem = _problem(name) if check else ""
        failed |= bool(problem)
        if len(candidates) > 1:
            problem = "error: more than one distribution has a plugin of this name"
        good = "ok" if check else "not imported"
        rows.extend((name, plugin.version, plugin.distribution, problem or good) for plugin in candidates)
    if len(rows) == 1:
        click.echo("no plugins are installed", err=True)
        click.echo("\nhint: a plugin is a distribution with an entry point in the group `ctrlhost`", err=True)
        return 0
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        click.echo("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]))
    return int(failed)


def _problem(name: str) -> str:
    from ctrlhost.errors import PluginError
    from ctrlhost.supervisor.loader import PluginManager

    try:
        PluginManager().load(name)
    except PluginError as error:
        return f"error: {error.message}"
    return ""
