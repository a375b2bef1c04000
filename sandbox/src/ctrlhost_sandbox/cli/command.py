"""`ctrlhost-sandbox`: serve, run a command against a server, or write the programs that envtest starts."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from ctrlhost_sandbox.cli.options import make_sandbox, sandbox_options
from ctrlhost_sandbox.errors import SandboxError


class _Group(click.Group):
    """A group whose other words are a command of the user's to run."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command, list[str]]:
        """Return the own command of this name, else the one that runs the words."""
        command = self.get_command(ctx, args[0])
        return ("exec", _run, args) if command is None else (args[0], command, args[1:])


@click.group(
    "sandbox",
    cls=_Group,
    invoke_without_command=True,
    no_args_is_help=False,
    subcommand_metavar="[-- COMMAND [ARG]...]",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@sandbox_options()
@click.pass_context
def command(context: click.Context, /, **values: Any) -> int | None:
    """Run an embedded Kubernetes API server until a signal arrives, or until COMMAND ends.

    It is for experiments, development and tests, not for production. When it is ready it prints the line
    `kubeconfig: PATH` on stdout. COMMAND finds the server by KUBECONFIG, with USE_EXISTING_CLUSTER set for Go's
    envtest, and its exit code is that of this command.
    """
    from ctrlhost_sandbox.cli.serving import serve

    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    context.obj = values
    return None if context.invoked_subcommand is not None else serve(make_sandbox(values))


@click.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def _run(values: dict[str, Any], words: tuple[str, ...]) -> int:
    """Run the words as a command against a server."""
    from ctrlhost_sandbox.cli.serving import run_command

    return run_command(make_sandbox(values), words)


@command.command("assets", short_help="Write the programs of envtest.")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
def _assets(directory: Path) -> int:
    """Write the programs `kube-apiserver` and `etcd` that Go's envtest starts, for KUBEBUILDER_ASSETS=DIR."""
    from ctrlhost_sandbox.cli.envtest import write_programs

    write_programs(directory)
    return 0


@command.result_callback()
def _code(code: int | None, **_: Any) -> int:
    return code or 0


def main() -> NoReturn:
    """Run the command line and exit the process; an error is one line and a hint."""
    try:
        code = command.main(prog_name="ctrlhost-sandbox", standalone_mode=False)
    except SandboxError as error:
        print(f"error: {error.message}", *([f"hint: {error.hint}"] if error.hint else []), sep="\n", file=sys.stderr)
        code = 2
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.exceptions.Abort, KeyboardInterrupt):
        code = 1
    sys.exit(code if isinstance(code, int) else 0)
