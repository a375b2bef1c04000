"""Reconcile one ConfigMap on the sandbox with the installed ctrlhost; exit code 1 if that does not happen."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost.config.settings import HostSettings
from ctrlhost.host.host import Host

SECONDS = 60.0


def main() -> int:
    """Run a host with one plugin until it has reconciled the object; return the exit code."""
    done = threading.Event()

    def reconcile(ctx: ctrlhost.Context, request: ctrlhost.Request) -> None:
        if request.name == "one" and ctx.get(request) is not None:
            done.set()

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("once", reconcile, ctrlhost.For("v1", "ConfigMap"))

    plugin = SimpleNamespace(__name__="once", ctrlhost_setup=ctrlhost_setup)
    with Sandbox() as server:
        client = ctrlhost.Client.load(server.kubeconfig)
        host = Host(HostSettings(listen=""), [plugin], client=client)
        host.start()
        client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "default"}})
        reconciled = done.wait(SECONDS)
        stopped = host.stop(SECONDS)
        client.close()
    return 0 if reconciled and stopped else 1


if __name__ == "__main__":
    sys.exit(main())
