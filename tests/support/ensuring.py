"""A host on either server whose reconciler ensures what a test wants."""

from __future__ import annotations

from typing import Any

import ctrlhost
from ctrlhost.config.settings import HostSettings
from ctrlhost.host.host import Host
from ctrlhost.testing.faults import Faults, FaultyTransport
from tests.support.operators import Requests, operator
from tests.support.waiting import eventually


class Operator:
    """A host whose reconciler ensures `wanted`, and its requests."""

    def __init__(self, control_plane: Any, namespace: str, *wanted: dict[str, Any]) -> None:
        self.wanted = list(wanted)
        #: The options of `ctx.ensure`.
        self.options: dict[str, Any] = {}
        self.runs = 0
        self.errors: list[Exception] = []
        self.faults = Faults()
        self.requests = Requests(self)
        transport = FaultyTransport(ctrlhost.Client.load(str(control_plane.kubeconfig)).transport, self.faults)
        source = ctrlhost.For("v1/ConfigMap", namespaces=[namespace], label_selector="mine")
        kinds = {(obj["apiVersion"], obj["kind"]) for obj in wanted}
        owns = [ctrlhost.Owns(*kind, namespaces=[namespace]) for kind in sorted(kinds)]
        plugin = operator(self.reconcile, *owns, kind=source)
        self.host = Host(HostSettings(listen=""), (plugin,), client=ctrlhost.Client.over(transport))
        self.host.start()
        assert self.host.wait_ready(30)

    def reconcile(self, ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        try:
            for child in self.wanted:
                ctx.ensure(child, **self.options)
        except Exception as error:
            self.errors.append(error)
            raise
        finally:
            self.runs += 1

    def run_again(self, namespace: str) -> None:
        before = self.runs
        queue = self.host.plugins[0].controllers[0].queue
        queue.add(ctrlhost.Request("cache", namespace))
        eventually(lambda: self.runs > before and not len(queue))

    def stop(self) -> None:
        assert self.host.stop(10)
        assert self.host.client is not None
        self.host.client.close()
