"""A reconciler's own writes: reads before the cache has them, and suppressed self-events."""

from __future__ import annotations

from typing import Any

import pytest

import ctrlhost
from ctrlhost import For, Request
from ctrlhost.own_writes import lister
from ctrlhost.testing import ManualClock
from tests.support.plugin_modules import config_map
from tests.support.reconcilers import Seen, controller


@pytest.mark.behaviour("informers/CR10")
def test_get_returns_an_own_write_before_the_cache_has_it(ctrlhost_host) -> None:
    seen: list[Any] = []

    def write(ctx: ctrlhost.Context, request: Request) -> None:
        if request.name != "ann" or seen:
            return
        other = Request("copy", request.namespace)
        with host.faults.hold_watches():
            ctx.client.create(config_map("copy", labels={"mine": "1"}, a="1"))
            seen.append(ctx.get(other)["data"]["a"])
            ctx.client.patch("v1", "ConfigMap", "copy", "default", {"data": {"a": "2"}})
            seen.append(ctx.get(other)["data"]["a"])
            ctx.client.replace({**ctx.get(other).to_dict(), "data": {"a": "3"}})
            seen.append(ctx.get(other)["data"]["a"])
            ctx.client.apply(config_map("copy", labels={"mine": "1"}, a="4"))
            seen.append(ctx.get(other)["data"]["a"])
            ctx.client.delete("v1", "ConfigMap", "copy", "default")
            seen.append(ctx.get(other))

    host = ctrlhost_host(controller(write, For("v1", "ConfigMap", label_selector="mine")))
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    assert seen == ["1", "2", "3", "4", None]
    assert host.controllers["demo/c"].status().errors == 0


@pytest.mark.behaviour("informers/CR10")
def test_an_object_kept_by_its_finalizer_is_read_as_being_deleted(ctrlhost_host) -> None:
    seen: list[Any] = []

    def write(ctx: ctrlhost.Context, request: Request) -> None:
        if seen:
            return
        with host.faults.hold_watches():
            ctx.client.delete("v1", "ConfigMap", "ann", "default")
            seen.append(ctx.get(request).deletion_timestamp)

    host = ctrlhost_host(controller(write, For("v1", "ConfigMap", label_selector="mine")))
    kept = config_map("ann", labels={"mine": "1"})
    kept["metadata"]["finalizers"] = ["example.com/keep"]
    host.client.create(kept)
    host.run_until_idle()
    assert seen[0] is not None


@pytest.mark.behaviour("informers/CR10")
def test_an_object_is_gone_once_its_last_finalizer_is_removed(ctrlhost_host) -> None:
    seen: list[Any] = []

    def write(ctx: ctrlhost.Context, request: Request) -> None:
        obj = ctx.get(request)
        if obj is None or obj.deletion_timestamp is None:
            return
        with host.faults.hold_watches():
            ctx.client.patch("v1", "ConfigMap", "ann", "default", {"metadata": {"finalizers": []}})
            seen.append(ctx.get(request))

    host = ctrlhost_host(controller(write, For("v1", "ConfigMap", label_selector="mine")))
    kept = config_map("ann", labels={"mine": "1"})
    kept["metadata"]["finalizers"] = ["example.com/keep"]
    host.client.create(kept)
    host.run_until_idle()
    host.client.delete("v1", "ConfigMap", "ann", "default")
    host.run_until_idle()
    assert seen == [None]


@pytest.mark.behaviour("informers/CR10")
def test_a_list_waits_for_own_writes_and_is_retried_after_a_timeout(
    ctrlhost_host, manual_clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lister, "WAIT_SECONDS", 0.05)
    lists: list[list[str]] = []

    def write(ctx: ctrlhost.Context, request: Request) -> None:
        if request.name != "ann":
            return
        if ctx.client.find("v1", "ConfigMap", "copy", "default") is None:
            with host.faults.hold_watches():
                ctx.client.create(config_map("copy", labels={"mine": "1"}))
                ctx.lister("v1", "ConfigMap").list()
        lists.append(sorted(obj.name for obj in ctx.lister("v1", "ConfigMap").list()))

    host = ctrlhost_host(controller(write, For("v1", "ConfigMap", label_selector="mine")), clock=manual_clock)
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    assert host.controllers["demo/c"].status().last_error.startswith("Stale: ")
    manual_clock.advance(1)
    host.run_until_idle()
    assert lists == [["ann", "copy"]]


def count_up(ctx: ctrlhost.Context, request: Request) -> None:
    """Annotate the reconciled object once."""
    obj = ctx.get(request)
    if obj is not None and "seen" not in obj.annotations:
        ctx.client.patch(
            "v1", "ConfigMap", request.name, request.namespace, {"metadata": {"annotations": {"seen": "1"}}}
        )


@pytest.mark.parametrize(("suppress", "runs"), [(False, 2), (True, 1)])
def test_self_events_can_be_suppressed(ctrlhost_host, suppress: bool, runs: int) -> None:
    seen = Seen(count_up)
    host = ctrlhost_host(controller(seen, For("v1", "ConfigMap", label_selector="mine"), suppress_echo=suppress))
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    assert seen.names() == ["ann"] * runs
    host.client.patch("v1", "ConfigMap", "ann", "default", {"data": {"a": "1"}})
    host.run_until_idle()
    assert seen.names() == ["ann"] * (runs + 1)


def test_a_self_event_with_a_foreign_change_is_reconciled(ctrlhost_host) -> None:
    def act(ctx: ctrlhost.Context, request: Request) -> None:
        if len(seen.requests) == 1:
            with host.faults.hold_watches():
                host.client.patch("v1", "ConfigMap", "ann", "default", {"data": {"theirs": "1"}})
                count_up(ctx, request)

    seen = Seen(act)
    host = ctrlhost_host(controller(seen, For("v1", "ConfigMap", label_selector="mine"), suppress_echo=True))
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    assert len(seen.requests) > 1


def test_writes_are_refused_when_the_replica_is_not_the_leader(ctrlhost_host, manual_clock: ManualClock) -> None:
    def write(ctx: ctrlhost.Context, request: Request) -> None:
        # The lease is lost while the reconcile runs.
        (elector,) = host.host.leadership._electors.values()
        elector.withdraw()
        ctx.client.create(config_map("copy"))

    source = For("v1", "ConfigMap", label_selector="mine")
    host = ctrlhost_host(controller(write, source), clock=manual_clock, leader_elect=True)
    host.client.create(config_map("ann", labels={"mine": "1"}))
    status = host.controllers["demo/c"].status
    host.wait_for(lambda: status().runs and not status().active)
    assert host.client.find("v1", "ConfigMap", "copy", "default") is None
    assert (status().errors, status().queued) == (0, 1)
