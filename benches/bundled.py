"""A host with the four bundled plugins, in a process of its own, on an empty sandbox in another one."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.support.host_process import HostProcess
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PLUGINS = ("hostname", "naming", "ingress-status", "bitcoin")
#: Every listener at an address of its own, as in generated manifests.
LISTENERS = ("probes=127.0.0.1:0", "metrics=127.0.0.1:0")
ALL_LISTENERS = (*(f"--set=host.listen_{listener}" for listener in LISTENERS), "--set=host.metrics_auth=kubernetes")
NO_LISTENERS = ("--listen=",)


@contextmanager
def sandbox_process(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Run a sandbox, which can be stopped by a signal; yield its process and its kubeconfig."""
    kubeconfig = folder / "kubeconfig"
    options = ("--addr=127.0.0.1:0", f"--kubeconfig={kubeconfig}")
    command = [sys.executable, "-m", "ctrlhost", "sandbox", *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            eventually(kubeconfig.exists)
            yield process, kubeconfig
        finally:
            process.kill()


@contextmanager
def bundled(kubeconfig: Path, *arguments: str) -> Iterator[HostProcess]:
    """Run the host until all plugins run."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("CTRLHOST_", "KUBECONFIG"))
    }
    options = (
        f"--plugins={','.join(PLUGINS)}",
        f"--kubeconfig={kubeconfig}",
        "--install-crds",
        "--set=plugins.hostname.rest_port=0",
    )
    with HostProcess(*options, *arguments, environment=environment, forked=False) as host:
        for plugin in PLUGINS:
            host.line(f"plugin {plugin} running")
        yield host
