"""A host behind a bad network: its controller has created all objects once the network is quiet."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

import ctrlhost
from ctrlhost import Client, For
from ctrlhost.config.load import Configuration
from ctrlhost.config.settings import HostSettings
from ctrlhost.host.host import Host
from ctrlhost.testing import FaultProxy, HurriedClock
from ctrlhost.workqueue import ItemExponentialFailureRateLimiter
from tests.support.control_plane import ControlPlane
from tests.support.plugin_modules import plugin_of
from tests.support.waiting import eventually

FAULTS = int(os.environ.get("CTRLHOST_FAULTS", "10000")) // 20
LABELS = {"storm": "source"}


def mirror(ctx: Any, request: ctrlhost.Request) -> None:
    source = ctx.get(request)
    if source is None:
        # No garbage collector runs, so the controller deletes the copy.
        if ctx.client.find("v1", "ConfigMap", f"copy-{request.name}", request.namespace):
            ctx.client.delete("v1", "ConfigMap", f"copy-{request.name}", request.namespace)
        return
    copy = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"copy-{request.name}", "namespace": request.namespace},
        "data": dict(source.get("data") or {}),
    }
    ctx.client.apply(copy)


@pytest.fixture
def proxy(control_plane: ControlPlane, faults: Any) -> FaultProxy:
    fault_proxy: FaultProxy = faults(control_plane)
    return fault_proxy


@pytest.mark.timeout(120 + FAULTS // 5)
def test_no_reconcile_is_lost_in_a_storm(control_plane: ControlPlane, namespace: str, proxy: FaultProxy) -> None:
    source = For("v1", "ConfigMap", namespaces=[namespace], label_selector="storm=source")
    # A key that fails fourteen times in a row waits longer than this test: queues count real seconds.
    limiter = ItemExponentialFailureRateLimiter(0.005, 1.0)
    plugin = plugin_of(
        lambda plugin: plugin.add_controller("c", mirror, source, workers=2, rate_limiter=limiter), "mirror"
    )
    # Else reconciles of more than 6 ms count as stuck, and eight of them restart the plugin. A restart forgets the
    # deletions that were not reconciled, for which a controller without owner references cannot make up.
    unhurried = {"mirror/c": {"slow_after": "0s"}}
    host = Host(
        HostSettings(listen=""),
        (plugin,),
        configuration=Configuration({"host": {"listen": ""}, "plugins": {}, "controllers": unhurried}, ""),
        client=Client.load(proxy.kubeconfig),
        clock=HurriedClock(10_000),
    )
    rng = random.Random(proxy.seed)
    host.start()
    try:
        assert host.wait_ready(30)
        proxy.storm(0.4, within=0.02, silence=0.05)

        def write_until_enough() -> bool:
            write(rng, control_plane.client, namespace)
            return proxy.total >= FAULTS

        eventually(write_until_enough, 60 + FAULTS / 10, "the storm's faults", pause=0.005)
        proxy.calm()
        proxy.drop()
        wanted = sources(control_plane.client, namespace)
        eventually(lambda: copies(control_plane.client, namespace) == wanted, 60, "the copies of all", pause=0.1)
    finally:
        proxy.calm()
        host.stop(10)


def write(rng: random.Random, client: Client, namespace: str) -> None:
    name = f"m{rng.randrange(15)}"
    try:
        if rng.random() < 0.7:
            metadata = {"name": name, "namespace": namespace, "labels": LABELS}
            data = {"n": str(rng.random())}
            client.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
        else:
            client.delete("v1", "ConfigMap", name, namespace)
    except (ctrlhost.NotFound, ctrlhost.Conflict):
        pass


def sources(client: Client, namespace: str) -> dict[str, Any]:
    maps = client.list("v1", "ConfigMap", namespace, label_selector="storm=source")
    return {obj["metadata"]["name"]: obj["data"] for obj in maps}


def copies(client: Client, namespace: str) -> dict[str, Any]:
    targets = client.list("v1", "ConfigMap", namespace)
    prefix = "copy-"
    return {
        obj["metadata"]["name"].removeprefix(prefix): obj["data"]
        for obj in targets
        if obj["metadata"]["name"].startswith(prefix)
    }
