"""Readiness and leadership of a replica whose plugin waits for a kind or a right."""

from __future__ import annotations

from typing import Any

import pytest

import ctrlhost
from ctrlhost.testing import ManualClock
from tests.host.supervision.test_probes import fetch
from tests.support.elections import LIMIT, lease
from tests.support.plugin_modules import plugin_of
from tests.support.waiting import eventually

pytestmark = pytest.mark.behaviour("findings3/NO2")

SERVED = {"listen": "127.0.0.1:0"}
ELECTED = {**SERVED, "leader_elect": True}
START_TIMEOUT = 120.0


def works(plugin: ctrlhost.PluginContext) -> None:
    plugin.add_controller("maps", lambda _ctx, _request: None, ctrlhost.For("v1", "ConfigMap"))


def waits(plugin: ctrlhost.PluginContext) -> None:
    """Set up the next version of the same plugin, which also needs a kind that is missing."""
    works(plugin)
    plugin.add_controller("news", lambda _ctx, _request: None, ctrlhost.For("example.com/v1", "Missing"))


def readyz(host: Any) -> tuple[int, str]:
    return fetch(host, "/readyz?verbose")


def ready(host: Any) -> None:
    eventually(lambda: readyz(host)[0] == 200, LIMIT)


def unready(host: Any, why: str) -> None:
    def matches() -> bool:
        status, text = readyz(host)
        return status == 503 and f"[-]startup failed: {why}" in text

    eventually(matches, LIMIT)


def test_a_waiting_plugin_delays_the_first_readiness_for_a_limited_time(sandbox: Any, ctrlhost_host: Any) -> None:
    clock = ManualClock()
    host = ctrlhost_host(plugin_of(waits, "news"), sandbox=sandbox, clock=clock, **SERVED)
    assert host.host.plugins[0].state == "waiting"
    unready(host, "news not started yet")
    clock.advance(START_TIMEOUT - 1)
    unready(host, "news not started yet")
    clock.advance(1)
    ready(host)
    # The reason is said, before and after.
    assert "[+]plugin/news ok: waiting: Missing (example.com/v1)" in readyz(host)[1]


def test_a_replica_that_waits_comes_after_one_that_runs(sandbox: Any, ctrlhost_host: Any) -> None:
    old = ctrlhost_host(plugin_of(works, "news"), sandbox=sandbox, **ELECTED)
    first = old.host.leadership.identity
    eventually(lambda: lease(old.client).get("holderIdentity") == first, LIMIT)
    clock = ManualClock()
    new = ctrlhost_host(plugin_of(waits, "news"), sandbox=sandbox, clock=clock, **ELECTED)
    clock.advance(START_TIMEOUT)
    # A rolling upgrade stops here, however long it takes.
    unready(new, f"news waits, and {first} runs it")

    old.host.stop(LIMIT)
    # The clock of the waiting replica stands still, so that it leaves the free lease to others.
    other = ctrlhost_host(plugin_of(works, "news"), sandbox=sandbox, **ELECTED)
    eventually(lambda: lease(other.client)["holderIdentity"] == other.host.leadership.identity, LIMIT)

    other.host.stop(LIMIT)
    mine = new.host.leadership.identity

    def leads() -> bool:
        clock.advance(20)
        return lease(new.client)["holderIdentity"] == mine

    # Nobody else is there: it leads for what can run.
    eventually(leads, LIMIT)
    ready(new)


def test_replicas_that_all_wait_are_ready(sandbox: Any, ctrlhost_host: Any) -> None:
    clocks = [ManualClock(), ManualClock()]
    hosts = [ctrlhost_host(plugin_of(waits, "news"), sandbox=sandbox, clock=clock, **ELECTED) for clock in clocks]

    def led() -> bool:
        clocks[0].advance(5)
        return lease(hosts[0].client).get("holderIdentity") == hosts[0].host.leadership.identity

    eventually(led, LIMIT)
    written = hosts[0].client.get("coordination.k8s.io/v1", "Lease", "ctrlhost", hosts[0].host.leadership.namespace)
    assert written["metadata"]["annotations"]["ctrlhost.dev/waiting"] == "news"
    for host, clock in zip(hosts, clocks, strict=True):
        clock.advance(START_TIMEOUT)
        ready(host)
