"""Bursts of objects whose reconciles fail: what is new, or has changed, does not wait for them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import ctrlhost
from ctrlhost import For, Request
from ctrlhost.testing import ManualClock
from tests.support.plugin_modules import config_map
from tests.support.reconcilers import controller
from tests.support.waiting import eventually

BURST = 300
#: A worker takes so many keys at once, at most.
BATCH = 64


@pytest.mark.behaviour("findings3/NC16")
@pytest.mark.parametrize("retried", [False, True], ids=["first runs", "retries"])
def test_a_new_object_and_a_change_come_before_a_failing_first_list(
    ctrlhost_host: Any, sandbox: Any, retried: bool
) -> None:
    client = ctrlhost.Client.load(sandbox.kubeconfig)
    namespace = f"burst-{'retries' if retried else 'first'}"
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for number in range(BURST):
        client.create(config_map(f"bad-{number}", namespace))
    runs: list[str] = []
    held, proceed = threading.Event(), threading.Event()
    hold_after = BURST if retried else 1

    def fail(ctx: ctrlhost.Context, request: Request) -> None:
        if request.namespace != namespace or request.name.startswith("kube-"):
            return
        runs.append(request.name)
        if len(runs) == hold_after:
            held.set()
            assert proceed.wait(60)
        if request.name != "good" and not (request.name == "bad-7" and ctx.get(request)["data"] == {"k": "new"}):
            raise ValueError("no daemon")

    clock = ManualClock()
    source = For("v1", "ConfigMap", namespaces=[namespace])
    host = ctrlhost_host(controller(fail, source), clock=clock, sandbox=sandbox)
    assert held.wait(60)
    queue = host.controllers["demo/c"].queue
    before = len(runs)
    if retried:
        # All of them wait for their back-off, and are due at once.
        proceed.set()
        eventually(lambda: len(queue.snapshot().delayed) >= BURST - 1)
        held.clear()
        hold_after, before = len(runs) + 1, len(runs)
        proceed.clear()
        clock.advance(1)
        assert held.wait(60)
    host.client.create(config_map("good", namespace))
    host.client.patch("v1", "ConfigMap", "bad-7", namespace, {"data": {"k": "new"}})
    wanted = {Request("good", namespace), Request("bad-7", namespace)}
    eventually(lambda: wanted <= {queued.key for queued in queue.snapshot().queued if queued.priority == 0})
    proceed.set()
    eventually(lambda: "good" in runs)
    eventually(lambda: runs.count("bad-7") >= 1 + retried)
    after = runs[before:]
    assert after.index("good") <= BATCH
    assert len(queue) > 0 or len(runs) >= BURST
