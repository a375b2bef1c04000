"""`ctrlhost log-level`: change the log level of a running host for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ctrlhost.cli.completing import complete_level
from ctrlhost.cli.running_host import RunningHost, acting, print_json
from ctrlhost.duration import Duration
from ctrlhost.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

_LEVELS = ("debug", "info", "warning", "error")


@click.command("log-level")
@click.argument("words", metavar="[PLUGIN|LOGGER] debug|info|warning|error", nargs=-1, shell_complete=complete_level)
@click.option("--for", "length", metavar="TIME", default="30m", show_default=True, help="0: until a restart.")
@acting
def command(words: tuple[str, ...], length: str, socket: Path | None, output: str) -> None:
    """Change the log level of a running host, of a plugin or of a logger, for a while.

    After the time of --for the level is the one before. The host must run with --admin.
    """
    if not 1 <= len(words) <= 2:
        raise click.UsageError("give a level, after a plugin or a logger if only its level is to change")
    level, target = words[-1], words[0] if len(words) > 1 else None
    if level not in _LEVELS:
        raise ConfigError(f"no level `{level}`", hint=f"known: {', '.join(_LEVELS)}")
    try:
        seconds = Duration(length)
    except ValueError as error:
        raise ConfigError(f"--for: {error}") from None
    host = RunningHost(path=socket)
    body = host.act("log-level", {"target": target, "level": level, "seconds": float(seconds)})
    if output == "json":
        print_json(body)
        return
    answer = host.read(body)
    until = f"until {answer['until']}" if answer["until"] is not None else "until a restart"
    click.echo(f"{answer['target'] or 'the host'} logs at {answer['level']}, {until} (was {answer['was']})")
