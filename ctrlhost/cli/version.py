"""`ctrlhost version`: print versions."""

from __future__ import annotations

import click


@click.command("version")
@click.option("--verbose", is_flag=True, help="Print the Kubernetes release whose kinds are read from protobuf, too.")
def command(verbose: bool) -> None:
    """Print the versions of ctrlhost and Python."""
    import platform

    from ctrlhost import __version__

    click.echo(f"ctrlhost {__version__} (Python {platform.python_version()})")
    if verbose:
        from ctrlhost._core import protobuf_release

        click.echo(f"protobuf of Kubernetes {protobuf_release()}")
