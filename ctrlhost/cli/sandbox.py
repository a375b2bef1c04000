"""`ctrlhost sandbox`: run only the embedded API server."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from ctrlhost.cli.options import make_sandbox, sandbox_options
from ctrlhost.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost_sandbox import Sandbox


@click.command("sandbox")
@sandbox_options
def command(**chosen: Any) -> int:
    """Run the embedded API server until a signal arrives.

    It is for experiments, development and tests, not for production. When it is ready it prints the line
    `kubeconfig: PATH` on stdout.
    """
    from ctrlhost.host import logs

    logs.configure()
    stop = threading.Event()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        with announced(make_sandbox(chosen)):
            # A signal just before a wait is noticed only after it.
            while not stop.wait(0.5):
                pass
    finally:
        logs.end()
    return 0


@contextmanager
def announced(sandbox: Sandbox) -> Iterator[Sandbox]:
    """Run a sandbox; print the path of its kubeconfig on stdout, and how to use it on stderr."""
    from ctrlhost.sandbox import sandbox_errors

    try:
        with sandbox_errors():
            sandbox.start()
    except OSError as error:
        # If replacing a file failed, `filename2` is the replaced file.
        if (name := error.filename2 or error.filename) is not None:
            raise ConfigError(f"{name}: {error.strerror}") from None
        raise ConfigError(f"--sandbox-addr: cannot listen: {error.strerror or error}") from None
    try:
        print(f"kubeconfig: {sandbox.kubeconfig}", flush=True)
        print(
            f"the sandbox at {sandbox.url} is for experiments, development and tests; in another terminal:\n"
            f"  export KUBECONFIG={sandbox.kubeconfig}\n  kubectl get namespaces",
            file=sys.stderr,
            flush=True,
        )
        yield sandbox
    finally:
        sandbox.stop()
