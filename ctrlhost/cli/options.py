"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.configuration import Configuration

PLUGINS = click.option(
    "--plugins", metavar="NAME,NAME…", multiple=True, help="Plugins to load; no other plugin is imported."
)
CONFIG = click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE", envvar="CTRLHOST_CONFIG", help="Settings file (TOML)."
)
SET = click.option(
    "--set",
    "assignments",
    metavar="NAME.key=value",
    multiple=True,
    help="A setting of a plugin, or of the host with NAME `host`; over file and environment.",
)


def names(values: tuple[str, ...]) -> tuple[str, ...]:
    """Read lists that may be given in one piece or several, without doubles."""
    return tuple(dict.fromkeys(name.strip() for value in values for name in value.split(",") if name.strip()))


def gather(config: Path | None, assignments: tuple[str, ...], **flags: Any) -> Configuration:
    """Read all settings; `flags` are the host's own that have an option."""
    import os

    from ctrlhost.configuration import Configuration

    return Configuration.gather(config, os.environ, assignments, flags)


def sandbox_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the sandbox to a command."""
    for option in reversed(
        (
            click.option(
                "--sandbox-addr", default="127.0.0.1:0", metavar="HOST:PORT", help="Where the sandbox listens."
            ),
            click.option(
                "--sandbox-kubeconfig",
                type=click.Path(path_type=Path),
                metavar="FILE",
                help="The kubeconfig it writes.",
            ),
            click.option(
                "--sandbox-data", type=click.Path(path_type=Path), metavar="FILE", help="Keep its objects in this file."
            ),
        )
    ):
        command = option(command)
    return command
