"""A plugin `bad` that misbehaves beside a plugin `good`, in one host."""

from __future__ import annotations

import threading
from typing import Any

import ctrlhost
from ctrlhost.testing.host import HostUnderTest
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.waiting import eventually

#: Deadlines of the plugin `bad`, in seconds, short enough for a test.
SHORT = {"hook": 0.5, "stopping": 0.5, "callback": 0.5, "page": 0.5, "probe": 0.5}


class Hang:
    """A call that blocks until `release`, which the test ends with."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self._released = threading.Event()

    def __call__(self, *_: Any) -> None:
        self.begun.set()
        self._released.wait(120)

    def release(self) -> None:
        self._released.set()


class Good:
    """The plugin that reconciles ConfigMaps; notes their names."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.module = plugin_of(
            lambda plugin: plugin.add_controller("all", self.reconcile, ctrlhost.For("v1", "ConfigMap")), "good"
        )

    def reconcile(self, _ctx: ctrlhost.Context, request: ctrlhost.Request) -> None:
        self.seen.append(request.name)

    def goes_on(self, host: HostUnderTest) -> None:
        """Check that an event reaches the reconciler."""
        name = f"probe-{len(self.seen)}"
        host.client.create(config_map(name))
        eventually(lambda: name in self.seen, what="good goes on")


def state_of(host: HostUnderTest, name: str) -> str:
    return next(plugin.state for plugin in host.host.plugins if plugin.name == name)


def reason_of(host: HostUnderTest, name: str) -> str:
    return next(plugin.reason for plugin in host.host.plugins if plugin.name == name)


def metric(host: HostUnderTest, name: str, /, **labels: str) -> float | None:
    """Return a value of the host's exposition; None without the series."""
    from prometheus_client.parser import text_string_to_metric_families

    for family in text_string_to_metric_families(host.host.inspection.exposition("")[0].decode()):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return float(sample.value)
    return None
