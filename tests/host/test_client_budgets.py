"""Requests of a plugin beyond its budget wait; those of others, leases and events do not."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import ctrlhost
from ctrlhost import TransportError
from tests.support.elections import LIMIT, lease, secret, written
from tests.support.plugin_modules import plugin_of
from tests.support.waiting import eventually
from tests.support.workqueue_threads import Background

behaviour = pytest.mark.behaviour
QPS = 10


class Captured:
    def __init__(self) -> None:
        self.plugin: Any = None

    def setup(self, plugin: ctrlhost.PluginContext) -> None:
        self.plugin = plugin


def throttled(host: Any, plugin: str) -> float:
    text = host.host.inspection.exposition("")[0].decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "ctrlhost_client_throttled_seconds_total" and sample.labels["plugin"] == plugin:
                return float(sample.value)
    raise AssertionError(f"no seconds of {plugin}")


@behaviour("supervision/BU12")
def test_a_plugin_beyond_its_budget_waits_and_others_do_not(ctrlhost_host) -> None:
    bad, good = Captured(), Captured()
    host = ctrlhost_host(
        plugin_of(bad.setup, "bad"), plugin_of(good.setup, "good"), supervision={"bad": {"client_qps": QPS}}
    )
    assert throttled(host, "bad") == throttled(host, "good") == 0

    def write(number: int) -> str:
        try:
            bad.plugin.client.create(secret(f"bad-{number}"), timeout=0.5)
        except TransportError as error:
            # One whose turn came at the end of its timeout may have been sent.
            return "no turn" if "the plugin's `client_qps` is 10" in str(error) and not error.sent else "late"
        return "sent"

    began = time.monotonic()
    writing = [Background(write, number) for number in range(100)]
    for number in range(100):
        good.plugin.client.create(secret(f"good-{number}"), timeout=0.5)
    outcomes = [future.result() for future in writing]
    assert set(outcomes) - {"late"} == {"sent", "no turn"}
    moments = [record.monotonic for record in written(host) if record.name.startswith("bad-")]
    assert len(moments) <= 100 - outcomes.count("no turn")
    # Twice the rate at once, and then the rate.
    assert len(moments) <= 2 * QPS + QPS * (max(moments) - began) + 1
    assert throttled(host, "bad") > 0
    assert throttled(host, "good") == 0


@behaviour("supervision/BU12")
def test_a_request_within_its_timeout_waits_for_its_turn(ctrlhost_host) -> None:
    bad = Captured()
    host = ctrlhost_host(plugin_of(bad.setup, "bad"), supervision={"bad": {"client_qps": QPS}})
    began = time.monotonic()
    for _ in range(2 * QPS + 5):
        # Reads count as writes do; watches do not.
        assert bad.plugin.client.find("v1", "Secret", "none", "default") is None
    # The bucket has no more tokens before.
    assert time.monotonic() - began >= 5 / QPS
    assert throttled(host, "bad") > 0
    stream = bad.plugin.client.transport.stream("/api/v1/secrets", query={"watch": True})
    stream.close()


@behaviour("supervision/BU13")
@behaviour("supervision/LD18")
def test_a_plugin_that_waits_for_its_budget_delays_no_renewal(ctrlhost_host) -> None:
    bad, stop = Captured(), threading.Event()
    host = ctrlhost_host(
        plugin_of(bad.setup, "bad"),
        supervision={"bad": {"client_qps": 0.1}},
        leader_elect=True,
        leader_elect_lease_duration="3s",
        leader_elect_renew_deadline="2s",
        leader_elect_retry_period="100ms",
    )
    plugin = bad.plugin
    eventually(lambda: plugin.term == 1, LIMIT)

    def read() -> None:
        while not stop.is_set():
            with contextlib.suppress(TransportError):
                plugin.client.find("v1", "Secret", "none", "default", timeout=1)

    readers = [Background(read) for _ in range(32)]
    eventually(lambda: throttled(host, "bad") > 32, LIMIT)
    renewals = len(written(host, "leases"))
    eventually(lambda: len(written(host, "leases")) >= renewals + 30, LIMIT)
    assert plugin.term == 1, "never lost"
    assert lease(host.client)["leaseTransitions"] == 0
    stop.set()
    for reader in readers:
        reader.result()
