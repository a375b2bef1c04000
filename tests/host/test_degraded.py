"""Why a plugin is degraded: runs that fail, a long wait, a backlog."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

import ctrlhost
from ctrlhost import For, Request
from ctrlhost.testing import ManualClock
from tests.support.objects import crd
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.reconcilers import controller


def degraded(host: Any) -> Any:
    return host.host.plugins[0].entries.degraded


def ready_line(host: Any) -> str:
    return next(check for check in host.host.inspection.checks("readyz") if check.name == "plugin/demo")


def metric(host: Any, reason: str) -> float | None:
    labels = {"plugin": "demo", "reason": reason}
    return host.host.state.metrics.registry.get_sample_value("ctrlhost_plugin_degraded", labels)


def test_failing_keys_degrade_until_they_succeed(
    ctrlhost_host: Any, manual_clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ctrlhost.host")
    failing = {"ann"}

    def reconcile(ctx: ctrlhost.Context, request: Request) -> None:
        if request.name in failing:
            raise KeyError("spec")

    host = ctrlhost_host(controller(reconcile, For("v1", "ConfigMap", label_selector="mine")), clock=manual_clock)
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.client.create(config_map("bob", labels={"mine": "1"}))
    host.client.create(config_map("cid", labels={"mine": "1"}))
    host.wait_for(lambda: host.controllers["demo/c"].outcomes()[:2] == (3, 1))
    # A success of another key ends nothing.
    manual_clock.advance(299)
    host.client.patch("v1", "ConfigMap", "bob", "default", {"data": {"n": "1"}})
    host.run_until_idle()
    host.host._review.check()
    assert "errors" not in degraded(host)
    manual_clock.advance(1)
    host.wait_for(lambda: "errors" in degraded(host))
    why = degraded(host)["errors"]
    assert why.startswith("demo/c: 1 of 3 keys fails, 1 cause; 1 key: KeyError at tests/host/test_degraded.py:")
    assert why.endswith(": 'spec'")
    check = ready_line(host)
    assert check.passed
    assert "degraded: errors: demo/c: 1 of 3 keys fails, " in check.detail
    assert metric(host, "errors") == 1
    failing.clear()
    host.client.patch("v1", "ConfigMap", "ann", "default", {"data": {"n": "1"}})
    host.wait_for(lambda: "errors" not in degraded(host))
    assert metric(host, "errors") == 0
    lines = [record.message for record in caplog.records if "degraded" in record.message]
    assert [line.partition(": demo/c")[0] for line in lines] == [
        "plugin demo degraded: errors",
        "plugin demo no longer degraded: errors",
    ]


def test_a_plugin_that_waits_for_over_a_minute_is_degraded(ctrlhost_host: Any, manual_clock: ManualClock) -> None:
    host = ctrlhost_host(controller(lambda ctx, request: None, For("example.com/v1", "Missing")), clock=manual_clock)
    host.wait_for(lambda: host.host.plugins[0].state == "waiting")
    review = host.host._review
    review.check()
    manual_clock.advance(60)
    review.check()
    assert "waiting" not in degraded(host)
    manual_clock.advance(1)
    host.wait_for(lambda: "waiting" in degraded(host))
    assert degraded(host)["waiting"].startswith("for 61 s: Missing (example.com/v1)")
    assert ready_line(host).passed
    host.client.create(crd("example.com", "Missing"))
    host.wait_for(lambda: host.host.plugins[0].state == "running" or manual_clock.advance(1))
    host.wait_for(lambda: "waiting" not in degraded(host))


def test_a_key_that_is_queued_for_over_five_minutes_degrades(ctrlhost_host: Any, manual_clock: ManualClock) -> None:
    release = threading.Event()
    handles: list[Any] = []

    def setup(plugin: ctrlhost.PluginContext) -> None:
        handles.append(plugin.add_controller("c", lambda ctx, request: release.wait(60) and None))

    # A worker that is stuck would be replaced.
    host = ctrlhost_host(plugin_of(setup), clock=manual_clock, controllers={"demo/c": {"slow_after": "1h"}})
    review = host.host._review
    host.wait_for(lambda: host.controllers["demo/c"].working)
    review.check()
    handles[0].enqueue(Request("runs"))
    host.wait_for(lambda: host.controllers["demo/c"].status().active)
    handles[0].enqueue(Request("waits"))
    manual_clock.advance(300)
    review.check()
    assert "backlog" not in degraded(host)
    manual_clock.advance(5)
    host.wait_for(lambda: "backlog" in degraded(host))
    assert degraded(host)["backlog"] == "the oldest key of demo/c has been queued for 305 s"
    release.set()
    host.wait_for(lambda: "backlog" not in degraded(host))
