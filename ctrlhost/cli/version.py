"""`ctrlhost version`: print versions."""

from __future__ import annotations

import click


@click.command("version")
def command() -> None:
    """Print the versions of ctrlhost and Python."""
    import platform

    from ctrlhost import __version__

    click.echo(f"ctrlhost {__version__} (Python {platform.python_version()})")
