"""A sandbox that serves until a signal arrives, or until a command ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ctrlhost_sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctrlhost_sandbox.server.server import Sandbox

#: What a shell returns for a command that it cannot find, and for one that it cannot run.
_NOT_FOUND, _NOT_RUNNABLE = 127, 126


@contextmanager
def started(sandbox: Sandbox) -> Iterator[Sandbox]:
    """Run a sandbox; SandboxError if it cannot listen, or cannot write its files."""
    try:
        sandbox.start()
    except OSError as error:
        # If replacing a file failed, `filename2` is the replaced file.
        if (name := error.filename2 or error.filename) is not None:
            raise SandboxError(f"{name}: {error.strerror}") from None
        raise SandboxError(f"the sandbox cannot listen: {error.strerror or error}") from None
    try:
        yield sandbox
    finally:
        sandbox.stop()


@contextmanager
def announced(sandbox: Sandbox) -> Iterator[Sandbox]:
    """Run a sandbox; print the path of its kubeconfig on stdout, and how to use it on stderr."""
    with started(sandbox):
        print(f"kubeconfig: {sandbox.kubeconfig}", flush=True)
        print(
            f"the sandbox at {sandbox.url} is for experiments, development and tests; in another terminal:\n"
            f"  export KUBECONFIG={sandbox.kubeconfig}\n  kubectl get namespaces",
            file=sys.stderr,
            flush=True,
        )
        yield sandbox


def serve(sandbox: Sandbox) -> int:
    """Serve until SIGTERM or SIGINT arrives; return the exit code. For the main thread."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with announced(sandbox):
        # A signal just before a wait is noticed only after it.
        while not stop.wait(0.5):
            pass
    return 0


def run_command(sandbox: Sandbox, command: Sequence[str]) -> int:
    """Run a command against the sandbox; return its exit code, 128 and the number of a signal that killed it.

    It finds the sandbox by `KUBECONFIG`, and Go's envtest takes it for the cluster of `USE_EXISTING_CLUSTER`.
    SIGTERM is forwarded. For the main thread.
    """
    with started(sandbox):
        environment = {**os.environ, "KUBECONFIG": str(sandbox.kubeconfig), "USE_EXISTING_CLUSTER": "true"}
        process: subprocess.Popen[bytes] | None = None

        def forward(number: int, _: object) -> None:
            if process is not None:
                process.send_signal(number)

        signal.signal(signal.SIGTERM, forward)
        # A terminal sends SIGINT to both; the command decides what it means.
        signal.signal(signal.SIGINT, lambda *_: None)
        try:
            process = subprocess.Popen(command, env=environment)  # noqa: S603 - the user's own command
        except OSError as error:
            print(f"error: cannot run {command[0]}: {error.strerror}", file=sys.stderr)
            return _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_RUNNABLE
        code = process.wait()
    return code if code >= 0 else 128 - code
