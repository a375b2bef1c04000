"""Controllers without a cluster, for tests of the path from the queue to the reconciler."""

from __future__ import annotations

import threading
from typing import Any

from prometheus_client import CollectorRegistry

from ctrlhost import Request
from ctrlhost.client import Client
from ctrlhost.clock import SystemClock
from ctrlhost.config.settings import Supervision
from ctrlhost.controller.controller import Controller
from ctrlhost.controller.metrics import ReconcileMetrics
from ctrlhost.controller.services import PluginServices
from ctrlhost.coordination.term import Candidacy, Tenure
from ctrlhost.events.recorder import EventRecorder
from ctrlhost.informers import InformerFactory
from ctrlhost.plugin.context import PluginContext

WEB = Request("web", "default")
DB = Request("db", "default")


class Bench:
    """Plugins on a host's services without an API server."""

    def __init__(self, clock: Any = None) -> None:
        self.clock = clock or SystemClock()
        self.registry = CollectorRegistry()
        self.tenure = Tenure.endless()
        self.stopping = threading.Event()
        self.overrides: dict[str, Any] = {}
        self.metrics = ReconcileMetrics()
        self.registry.register(self.metrics)
        self.client = Client("http://127.0.0.1:9")
        self.factory: Any = InformerFactory(self.client)
        self.supervision: Any = lambda _plugin: Supervision()
        self._plugins: list[PluginContext] = []

    def plugin(self, name: str = "demo") -> PluginContext:
        services = PluginServices(
            client=self.client,
            factory=self.factory,
            clock=self.clock,
            events=EventRecorder(self.client, self.clock),
            candidacy=Candidacy(self.tenure),
            stopping=self.stopping,
            controller_overrides=self.overrides,
            metrics=self.metrics,
            supervision=lambda plugin: self.supervision(plugin),
        )
        plugin = PluginContext(name, None, services)
        self._plugins.append(plugin)
        return plugin

    def controller(self, reconcile: Any, *, start: bool = True, **options: Any) -> Controller:
        """Return a controller whose only source is `enqueue`."""
        plugin = self.plugin()
        plugin.add_controller("pods", reconcile, **options)
        (controller,) = plugin.controllers
        controller.attach()
        if start:
            controller.start_workers()
        return controller

    def sample(self, name: str, **labels: str) -> float | None:
        """Return the value of a metric of the controller."""
        return self.registry.get_sample_value(f"controller_runtime_{name}", {"controller": "demo/pods", **labels})

    def results(self) -> dict[str, int]:
        """Return the number of runs by result, without zeros."""
        names = ("success", "error", "requeue", "requeue_after")
        counts = {name: int(self.sample("reconcile_total", result=name) or 0) for name in names}
        return {name: count for name, count in counts.items() if count}

    def close(self) -> None:
        for plugin in self._plugins:
            for controller in plugin.controllers:
                controller.drain(5)
            plugin.close()


class Script:
    """A reconciler with one step per run, which is a value to return or an exception to raise."""

    def __init__(self, *steps: Any) -> None:
        self.steps = list(steps)
        self.calls: list[Any] = []
        self.attempts: list[int] = []
        self.priorities: list[int] = []

    def __call__(self, ctx: Any, request: Any) -> Any:
        self.attempts.append(ctx.attempt)
        self.priorities.append(ctx.priority)
        self.calls.append(request)
        step = self.steps.pop(0) if self.steps else None
        if isinstance(step, BaseException):
            raise step
        return step


def idle(controller: Controller) -> bool:
    """Return whether the controller has no work."""
    return controller.busy() is None
