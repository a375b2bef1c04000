"""The queues of a standby: full, but nobody has to work on them."""

from __future__ import annotations

from typing import Any

import pytest

import ctrlhost
from ctrlhost.cli import overview, queue, states
from tests.support.elections import hold_lease
from tests.support.misbehaviour import metric
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.status import status_of
from tests.support.waiting import eventually

LIMIT = 60.0


def setup(plugin: ctrlhost.PluginContext) -> None:
    plugin.add_controller("maps", lambda _ctx, _request: None, ctrlhost.For("v1", "ConfigMap", label_selector="mine"))


@pytest.mark.behaviour("findings3/NO10")
def test_the_queue_of_a_standby_does_not_look_like_a_backlog(sandbox: Any, ctrlhost_host: Any) -> None:
    client = ctrlhost.Client.load(sandbox.kubeconfig)
    for number in range(3):
        client.create(config_map(f"m{number}", labels={"mine": "yes"}))
    hold_lease(client)
    host = ctrlhost_host(plugin_of(setup, "demo"), sandbox=sandbox, leader_elect=True, listen="127.0.0.1:0")
    (controller,) = host.host.plugins[0].controllers
    eventually(lambda: len(controller.queue) == 3, LIMIT)

    assert metric(host, "ctrlhost_workqueue_standby_items", controller="demo/maps") == 3
    assert metric(host, "workqueue_depth", controller="demo/maps", priority="-100") == 0
    assert metric(host, "ctrlhost_workqueue_oldest_item_seconds", controller="demo/maps") == 0

    (facts,) = (entry for entry in status_of(host)["controllers"] if entry["name"] == "demo/maps")
    assert (facts["leading"], facts["queue"]["depth"], facts["queue"]["oldest_seconds"]) == (False, 3, 0.0)
    assert queue._of_queue(facts)[:3] == ["demo/maps", 3, "standby"]
    row = overview._cells(facts)
    assert row[7] == "-"
    assert states.of_controller(facts, None, "") == "standby"
    client.close()

    host.client.patch(
        "coordination.k8s.io/v1",
        "Lease",
        "ctrlhost",
        "default",
        {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}},
    )
    eventually(lambda: len(controller.queue) == 0, LIMIT)
    assert metric(host, "ctrlhost_workqueue_standby_items", controller="demo/maps") == 0
