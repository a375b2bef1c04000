"""A host with a plugin that misbehaves, until its standard input ends, in its own process.

    python -m benches.misbehaving none|computes|collector-hangs|page-blocks

Prints the address of the host's server.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost.config.settings import HostSettings
from ctrlhost.host.host import Host
from ctrlhost.host.switch_interval import switching_after
from ctrlhost.sandbox import Sandbox

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

#: Threads that compute.
_THREADS = 8


class Collector:
    """A collector that hangs."""

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        threading.Event().wait()
        yield from ()


class Bad:
    """The plugin that misbehaves."""

    def __init__(self, what: str) -> None:
        self.what = what

    @ctrlhost.hookimpl
    def ctrlhost_setup(self, plugin: ctrlhost.PluginContext) -> None:
        if self.what == "computes":
            for number in range(_THREADS):
                plugin.add_task(f"compute-{number}", compute)
        elif self.what == "collector-hangs":
            plugin.metrics.register(Collector())
        elif self.what == "page-blocks":

            async def block(_stop: threading.Event) -> None:
                while True:
                    time.sleep(0.5)  # noqa: ASYNC251 - it blocks the loop, as a plugin might
                    await asyncio.sleep(0)

            plugin.add_task("block", block)


def compute(stop: threading.Event) -> None:
    while not stop.is_set():
        pass


def main(what: str) -> None:
    with Sandbox() as sandbox:
        settings = HostSettings(listen="127.0.0.1:0")
        bad: Any = Bad(what)
        host = Host(settings, [bad], sandbox=sandbox)
        with switching_after(settings.switch_interval):
            host.start()
            host.wait_ready(60)
            print(host.address, flush=True)
            sys.stdin.read()
            host.stop(1)


if __name__ == "__main__":
    main(sys.argv[1])
