"""`ctrlhost sandbox`: the embedded API server alone."""

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
    from types import FrameType

    from ctrlhost.sandbox import Sandbox


@click.command("sandbox")
@sandbox_options
def command(**chosen: Any) -> int:
    """Run the embedded API server until asked to stop.

    It is for trying, developing and testing, not for production. One line `kubeconfig: PATH` on stdout says that it
    can be used, and how.
    """
    from ctrlhost.host import logs

    logs.configure()
    stop = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    with announced(make_sandbox(chosen)):
        # A signal that comes just before a wait is seen only after it.
        while not stop.wait(0.5):
            pass
    return 0


@contextmanager
def announced(sandbox: Sandbox) -> Iterator[Sandbox]:
    """Run a sandbox, and say on stdout where its kubeconfig is and on stderr what to do with it."""
    try:
        sandbox.start()
    except OSError as error:
        # A file that takes another one's place is named after it.
        if (name := error.filename2 or error.filename) is not None:
            raise ConfigError(f"{name}: {error.strerror}") from None
        raise ConfigError(f"--sandbox-addr: can not listen there: {error.strerror or error}") from None
    try:
        print(f"kubeconfig: {sandbox.kubeconfig}", flush=True)
        print(
            f"the sandbox at {sandbox.url} is for trying, developing and testing; in another terminal:\n"
            f"  export KUBECONFIG={sandbox.kubeconfig}\n  kubectl get namespaces",
            file=sys.stderr,
            flush=True,
        )
        yield sandbox
    finally:
        sandbox.stop()
