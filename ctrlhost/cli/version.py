"""`ctrlhost version`."""

from __future__ import annotations

import click


@click.command("version")
def command() -> None:
    """Print the version of ctrlhost and of the Python that runs it."""
    import platform

    from ctrlhost import __version__

    click.echo(f"ctrlhost {__version__} (Python {platform.python_version()})")
