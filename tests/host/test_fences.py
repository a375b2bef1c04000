"""What an earlier run of a plugin may still send after a restart: nothing."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import ctrlhost
from ctrlhost import PluginRestarted
from ctrlhost.client.async_client import AsyncClient
from tests.support.elections import LIMIT, refused, secret, written
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour
MAPS = ctrlhost.For("v1", "ConfigMap", label_selector="mine")
SOON = {"restart_delay": "10ms"}


@behaviour("supervision/LC13")
def test_clients_of_an_earlier_run_send_nothing(ctrlhost_host) -> None:
    contexts: list[Any] = []
    host = ctrlhost_host(plugin_of(contexts.append), supervision=SOON)
    (old,) = contexts
    kept = [old.client, old.replica_client]
    old.client.create(secret("before"))
    host.host.plugins[0].entries.fail("broken")
    eventually(lambda: len(contexts) == 2 and host.host.plugins[0].state == "running", LIMIT)
    requests = [host.host.client.metrics.requests(code) for code in ("200", "201", "404")]
    for client in (*kept, old.client, old.replica_client, AsyncClient(kept[0]).client):
        with pytest.raises(PluginRestarted):
            client.create(secret("after"))
        with pytest.raises(PluginRestarted):
            client.get("v1", "Secret", "before", "default")
        with pytest.raises(PluginRestarted):
            # Its kind would have to be discovered first.
            client.get("example.com/v1", "Unknown", "x", "default")
        with pytest.raises(PluginRestarted):
            list(client.list("v1", "Secret", "default"))
        with pytest.raises(PluginRestarted):
            client.transport.stream("/api/v1/secrets", query={"watch": True})
    assert requests == [host.host.client.metrics.requests(code) for code in ("200", "201", "404")]
    assert [write.name for write in written(host)] == ["before"]
    assert refused(host) == {("demo", "restarted"): 5}
    contexts[1].client.create(secret("new"))
    assert [write.name for write in written(host)] == ["before", "new"]


@behaviour("supervision/LC14")
def test_a_reconcile_of_an_earlier_run_that_hangs_does_not_write(ctrlhost_host) -> None:
    runs, outcome, go_on = [], [], threading.Event()

    def setup(plugin: ctrlhost.PluginContext) -> None:
        run = len(runs)
        runs.append(plugin)

        def reconcile(ctx: ctrlhost.Context, request: ctrlhost.Request) -> None:
            if run == 0:
                going.set()
                assert go_on.wait(LIMIT)
            try:
                ctx.client.apply(secret(request.name, run=str(run)))
            except PluginRestarted as error:
                outcome.append(error.reason)
                raise

        plugin.add_controller("c", reconcile, MAPS)

    going = threading.Event()
    host = ctrlhost_host(plugin_of(setup), supervision=SOON)
    host.client.create(config_map("x", labels={"mine": "1"}))
    assert going.wait(LIMIT)
    host.host.plugins[0].entries.fail("broken")
    eventually(lambda: written(host), LIMIT)
    go_on.set()
    eventually(lambda: outcome, LIMIT)
    assert outcome == ["restarted"]
    (write,) = written(host)
    assert b'"run":"1"' in write.body
    assert host.controllers["demo/c"].status().errors == 0
