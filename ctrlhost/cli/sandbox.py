"""`ctrlhost sandbox`: the embedded API server alone."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from ctrlhost.cli.options import sandbox_options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import FrameType

    from ctrlhost.sandbox import Sandbox


@click.command("sandbox")
@sandbox_options
def command(sandbox_addr: str, sandbox_kubeconfig: Path | None, sandbox_data: Path | None) -> int:
    """Run the embedded API server until asked to stop.

    It is for trying, developing and testing, not for production. One line `kubeconfig: PATH` on stdout says that it
    can be used, and how.
    """
    from ctrlhost import logs

    logs.configure()
    stop = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    with announced(sandbox_addr, sandbox_kubeconfig, sandbox_data):
        # A wait without a limit is not woken by a signal on every platform.
        while not stop.wait(3600):
            pass
    return 0


@contextmanager
def announced(address: str, kubeconfig: Path | None, data: Path | None) -> Iterator[Sandbox]:
    """Run a sandbox, and say on stdout where its kubeconfig is and on stderr what to do with it."""
    from ctrlhost.sandbox import Sandbox
    from ctrlhost.server import parse_address

    host, port = parse_address(address, "--sandbox-addr")
    sandbox = Sandbox(address=host, port=port, data_dir=data, kubeconfig=kubeconfig)
    with sandbox:
        print(f"kubeconfig: {sandbox.kubeconfig}", flush=True)
        print(
            f"the sandbox at {sandbox.url} is for trying, developing and testing; in another terminal:\n"
            f"  export KUBECONFIG={sandbox.kubeconfig}\n  kubectl get namespaces",
            file=sys.stderr,
            flush=True,
        )
        yield sandbox
