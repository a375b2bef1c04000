"""A host with a no-op controller of four workers, fed as by informers, in its own process.

    python -m benches.reconciles REQUESTS

Prints the median of five rounds, in seconds per request, as JSON. Metrics are on, the log level is warning.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost.config.settings import HostSettings
from ctrlhost.host.host import Host

WORKERS = 4
ROUNDS = 5


class Noop:
    """A plugin whose controller only counts."""

    def __init__(self) -> None:
        self.wanted = 0
        self.all = threading.Event()
        self._seen = itertools.count(1)

    @ctrlhost.hookimpl
    def ctrlhost_setup(self, plugin: ctrlhost.PluginContext) -> None:
        """Register the controller; no object of its kind exists, so this process makes all its work."""
        plugin.add_controller("noop", self.reconcile, ctrlhost.For("v1", "ConfigMap"), workers=WORKERS)

    def reconcile(self, _: ctrlhost.Context, __: ctrlhost.Request) -> None:
        """Count in one atomic step."""
        if next(self._seen) == self.wanted:
            self.all.set()


def main() -> None:
    """Measure the number of requests in the argument."""
    requests = [
        ctrlhost.Request(f"deployment-{number:06d}", f"namespace-{number % 20:02d}")
        for number in range(int(sys.argv[1]))
    ]
    plugin = Noop()
    with tempfile.TemporaryDirectory() as folder, Sandbox(kubeconfig=Path(folder) / "kubeconfig") as sandbox:
        settings = HostSettings(log_level="warning", listen="127.0.0.1:0")
        host = Host(settings, [plugin], client=ctrlhost.Client.load(sandbox.kubeconfig))
        host.start()
        host.wait_ready(30)
        (controller,) = host.plugins[0].controllers
        taken = []
        for _ in range(ROUNDS):
            plugin.wanted += len(requests)
            plugin.all.clear()
            start = time.perf_counter()
            controller.queue.add_many(requests)
            plugin.all.wait()
            taken.append((time.perf_counter() - start) / len(requests))
        print(json.dumps({"reconcile": sorted(taken)[ROUNDS // 2]}), flush=True)
        host.stop(5)


if __name__ == "__main__":
    main()
    os._exit(0)
