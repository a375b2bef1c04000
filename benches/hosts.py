"""A host with one no-op controller, until it has reconciled a number of pods, in its own process.

    python -m benches.hosts ctrlhost|kopf KUBECONFIG PODS [PLUGIN ...]

The plugins are installed ones, which run in ctrlhost's host as well.

Prints the seconds from the start of the interpreter to the last first reconcile, and the resident bytes then
and at their peak, as JSON.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 300.0


def started() -> float:
    """Return when this process started, in seconds of the monotonic clock."""
    ticks = int(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])
    return ticks / os.sysconf("SC_CLK_TCK")


class Seen:
    """The reconciled pods, and an event for when all are."""

    def __init__(self, wanted: int) -> None:
        self._wanted, self._keys, self._lock = wanted, set[tuple[str, str]](), threading.Lock()
        self.all = threading.Event()

    def add(self, namespace: str, name: str) -> None:
        with self._lock:
            self._keys.add((namespace, name))
            if len(self._keys) == self._wanted:
                self.all.set()


def nothing_else() -> bool:
    """Return that there is nothing else to wait for."""
    return True


def ctrlhost_host(kubeconfig: str, seen: Seen, *others: str) -> Callable[[], bool]:
    """Run ctrlhost's host with the default number of workers, and other plugins."""
    import ctrlhost
    from ctrlhost.config.load import Configuration
    from ctrlhost.host.host import Host

    def reconcile(_: ctrlhost.Context, request: ctrlhost.Request) -> None:
        seen.add(request.namespace, request.name)

    class Noop:
        @ctrlhost.hookimpl
        def ctrlhost_setup(self, plugin: ctrlhost.PluginContext) -> None:
            plugin.add_controller("noop", reconcile, ctrlhost.For("v1", "Pod"))

    assignments = [f"host.kubeconfig={kubeconfig}", *(["plugins.hostname.rest_port=0"] if others else [])]
    host = Host(plugins=[*others, Noop()], configuration=Configuration.gather(assignments=assignments))
    host.start()
    seen.all.wait(LIMIT)
    return lambda: host.wait_ready(LIMIT) and all(plugin.state == "running" for plugin in host.plugins)


def kopf_operator(kubeconfig: str, seen: Seen) -> Callable[[], bool]:
    """Run kopf's operator with one handler of raw events, its cheapest kind."""
    os.environ["KUBECONFIG"] = kubeconfig
    import logging

    import kopf

    logging.disable(logging.CRITICAL)

    @kopf.on.event("v1", "pods")
    async def handler(namespace: str, name: str, **_: Any) -> None:
        seen.add(namespace, name)

    threading.Thread(target=lambda: kopf.run(clusterwide=True, standalone=True), daemon=True).start()
    seen.all.wait(LIMIT)
    return nothing_else


MEASURED: dict[str, Callable[..., Callable[[], bool]]] = {"ctrlhost": ctrlhost_host, "kopf": kopf_operator}


def main() -> None:
    """Measure the host that the arguments name."""
    seen = Seen(int(sys.argv[3]))
    runs = MEASURED[sys.argv[1]](sys.argv[2], seen, *sys.argv[4:])
    taken = time.clock_gettime(time.CLOCK_BOOTTIME) - started()
    status = Path("/proc/self/status").read_text()
    # Not getrusage: its peak includes that of the parent process.
    peak, resident = (int(re.search(rf"{name}:\s+(\d+)", status)[1]) * 1024 for name in ("VmHWM", "VmRSS"))  # type: ignore[index]
    figures = {
        "complete": seen.all.is_set() and runs(),
        "seconds": taken,
        "peak_bytes": peak,
        "resident_bytes": resident,
    }
    print(json.dumps(figures), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
