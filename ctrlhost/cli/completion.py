"""`ctrlhost completion`: the script that lets a shell complete commands, options and names."""

from __future__ import annotations

import click

#: The shells that click has a script for.
_SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
def command(shell: str) -> None:
    """Print the script that completes `ctrlhost` in a shell, for `eval "$(ctrlhost completion bash)"`.

    It completes commands, options and the names of installed plugins; for commands that attach to a running host also
    its controllers, informers, loggers and keys: those that fail, and those in the queue.
    """
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    if script is None:
        raise click.UsageError(f"click has no completion for {shell}")
    click.echo(script(click.Command("ctrlhost"), {}, "ctrlhost", "_CTRLHOST_COMPLETE").source())
