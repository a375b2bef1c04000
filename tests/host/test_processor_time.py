"""The processor time of each plugin, by its threads, and the rest as that of the host."""

from __future__ import annotations

import time
from typing import Any

import pytest

import ctrlhost
from ctrlhost import Request
from tests.support.plugin_modules import plugin_of


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))


@pytest.mark.behaviour("operations/OP121")
def test_a_plugin_that_computes_has_that_time_in_its_counter(ctrlhost_host: Any) -> None:
    burnt: list[float] = []
    handles: list[Any] = []

    def reconcile(_ctx: ctrlhost.Context, _request: Request) -> None:
        began = time.thread_time()
        burn(2)
        burnt.append(time.thread_time() - began)

    busy = plugin_of(lambda plugin: handles.append(plugin.add_controller("c", reconcile)), "busy")
    idle = plugin_of(lambda plugin: plugin.add_controller("c", reconcile), "idle")
    host = ctrlhost_host(busy, idle)
    registry = host.host.state.metrics.registry

    def seconds(plugin: str) -> float:
        value = registry.get_sample_value("ctrlhost_plugin_cpu_seconds_total", {"plugin": plugin})
        assert value is not None
        return float(value)

    before = {plugin: seconds(plugin) for plugin in ("busy", "idle", "_host")}
    process = time.process_time() - sum(before.values())
    handles[0].enqueue(Request("a"))
    host.wait_for(lambda: burnt, 60)
    after = {plugin: seconds(plugin) for plugin in before}
    assert after["busy"] - before["busy"] == pytest.approx(burnt[0], rel=0.1)
    assert after["idle"] - before["idle"] < 0.2
    assert all(after[plugin] >= before[plugin] for plugin in before)
    assert sum(after.values()) + process == pytest.approx(time.process_time(), rel=0.05)
    # The time of threads that have ended stays.
    host.stop()
    assert seconds("busy") >= after["busy"]
