"""The command line: the host's own commands, one module each, and the commands of plugins as `ctrlhost NAME`.

Data goes to stdout, everything else to stderr. Exit codes: 0 success or shut down by a signal, 1 failure, 2 invalid
usage or configuration. Imports all other rooms, inside functions, so that a command starts quickly. Public: nothing.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, NoReturn

from ctrlhost.cli.group import main_group
from ctrlhost.cli.messages import print_error
from ctrlhost.host.output import flush
from ctrlhost.sandbox import sandbox_errors

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit the process."""
    code = execute(arguments)
    flush()
    if threading.active_count() > 1:
        # A thread that is blocked in a plugin's code must not keep the process, or crash while the interpreter ends.
        os._exit(code)
    sys.exit(code)


def execute(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; errors are printed as one line and a hint, without traceback."""
    import click

    try:
        with sandbox_errors():
            code = main_group().main(args=arguments, prog_name="ctrlhost", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 2
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f"see `{context.command_path} --help`" if context is not None else None
        return print_error(error.format_message(), hint=hint, code=error.exit_code)
    except (click.exceptions.Abort, KeyboardInterrupt):
        return 1
    except BrokenPipeError:
        # The reader closed the pipe, as in `ctrlhost crds | head -1`.
        sys.stderr.close()
        return 0
    except Exception as error:  # noqa: BLE001 - the last resort; a traceback does not help at a prompt
        return print_error(error)
    return code if isinstance(code, int) else 0
