"""A controller that counts its objects, on a real API server with delayed watches."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

import ctrlhost
from ctrlhost import Expectations, For, Owns, Request
from ctrlhost.testing import ManualClock
from tests.support.plugin_modules import config_map, plugin_of


def owner_of(obj: ctrlhost.Object) -> Request | None:
    owner = next((reference for reference in obj.owner_references if reference.controller), None)
    return None if owner is None else Request(owner.name, obj.namespace)


class Replicas:
    """A reconciler that keeps the number of Secrets in the ConfigMap, with generated names."""

    def __init__(self, counts: Expectations[Request] | None, before_writes: Callable[[], Any]) -> None:
        self.counts = counts
        self.before_writes = before_writes
        self.created = 0

    def __call__(self, ctx: ctrlhost.Context, request: Request) -> None:
        owner = ctx.get(request)
        if owner is None or (self.counts is not None and not self.counts.satisfied(request)):
            return
        # The plain cache, without the own writes that a plugin's listers add.
        mine = [secret for secret in self.secrets.lister.list(request.namespace) if owner_of(secret) == request]
        wanted = int(owner["data"]["replicas"])
        if self.counts is not None:
            self.counts.expect_creations(request, max(wanted - len(mine), 0))
            self.counts.expect_deletions(request, [secret.uid for secret in mine[wanted:]])
        self.before_writes()
        for _ in range(wanted - len(mine)):
            self.created += 1
            metadata = {"generateName": f"{request.name}-", "namespace": request.namespace}
            self.client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata}, owner=owner)
        for secret in mine[wanted:]:
            self.client.delete("v1", "Secret", secret.name, secret.namespace)

    def setup(self, plugin: ctrlhost.PluginContext) -> None:
        self.client = plugin.services.client
        self.secrets = plugin.informer("v1", "Secret")
        if self.counts is not None:
            self.counts.watch(self.secrets, owner_of)
        plugin.add_controller(
            "c",
            self,
            For("v1", "ConfigMap", label_selector="mine"),
            Owns("v1", "Secret"),
        )


@pytest.mark.parametrize(("expecting", "created"), [(True, 3), (False, 9)])
def test_expectations_prevent_double_creation_while_the_cache_lags(
    ctrlhost_host, manual_clock: ManualClock, expecting: bool, created: int
) -> None:
    lag = ExitStack()
    holding: list[Any] = []

    def hold() -> None:
        if not holding:
            holding.append(lag.enter_context(host.faults.hold_watches()))

    replicas = Replicas(Expectations(manual_clock) if expecting else None, hold)
    host = ctrlhost_host(plugin_of(replicas.setup), clock=manual_clock)
    controller = host.controllers["demo/c"]
    with lag:
        host.client.create(config_map("web", labels={"mine": "1"}, replicas="3"))
        for runs in (1, 2, 3):
            host.wait_for(lambda runs=runs: controller.status().runs >= runs)
            if runs < 3:
                controller.queue.add(Request("web", "default"))
    assert replicas.created == created
    if not expecting:
        return
    host.run_until_idle()
    assert len(list(host.client.list("v1", "Secret", "default"))) == 3
    # All expectations are met, so the next changes are reconciled: fewer, then more.
    for wanted in (1, 2):
        host.client.patch("v1", "ConfigMap", "web", "default", {"data": {"replicas": str(wanted)}})
        host.run_until_idle()
        assert len(list(host.client.list("v1", "Secret", "default"))) == wanted
    assert replicas.created == 4


def test_expectations_expire(ctrlhost_host, manual_clock: ManualClock) -> None:
    counts: Expectations[Request] = Expectations(manual_clock)
    replicas = Replicas(counts, lambda: None)
    host = ctrlhost_host(plugin_of(replicas.setup), clock=manual_clock)
    counts.expect_creations(Request("web", "default"), 1)
    host.client.create(config_map("web", labels={"mine": "1"}, replicas="1"))
    host.run_until_idle()
    assert replicas.created == 0
    manual_clock.advance(300)
    host.client.patch("v1", "ConfigMap", "web", "default", {"data": {"x": "y"}})
    host.run_until_idle()
    assert replicas.created == 1
