"""A host that several tests look at."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import ctrlhost
from ctrlhost import For, Request, Watches
from tests.support.plugin_modules import config_map, plugin_of


@pytest.fixture
def slow_map(ctrlhost_host: Any) -> Iterator[tuple[Any, threading.Event]]:
    """Run three controllers over one informer; the map of `other/slow` waits for the event with three objects."""
    release = threading.Event()

    def slow(obj: Any) -> list[Request]:
        if obj.name.startswith("held"):
            release.wait(60)
        return []

    def reconcile(_ctx: ctrlhost.Context, _request: Request) -> None:
        """Do nothing."""

    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("all", reconcile, For("v1", "ConfigMap"))
        plugin.add_controller("some", reconcile, For("v1", "ConfigMap", label_selector="mine", reads="metadata"))

    def setup_slow(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("slow", reconcile, Watches("v1", "ConfigMap", map=slow))

    host = ctrlhost_host(plugin_of(setup), plugin_of(setup_slow, "other"), listen="127.0.0.1:0")
    for number in range(3):
        host.client.create(config_map(f"held{number}"))
    yield host, release
    release.set()


@pytest.fixture
def long_queue(ctrlhost_host: Any) -> Any:
    """A standby, so that nothing empties the queue of `demo/c`, which has 100,000 keys."""

    def setup(plugin: ctrlhost.PluginContext) -> None:
        source = For("v1", "ConfigMap", label_selector="none")
        plugin.add_controller("c", lambda _ctx, _request: None, source, needs_leader=True)

    leader = ctrlhost_host(plugin_of(setup), leader_elect=True)
    leader.wait_for(lambda: leader.host.leadership.leases()[0].mine)
    host = ctrlhost_host(plugin_of(setup), sandbox=leader.sandbox, leader_elect=True, listen="127.0.0.1:0")
    host.controllers["demo/c"].queue.add_many([Request(f"a{number}", "default") for number in range(100_000)])
    return host
