"""Which replica leads for a plugin that has failed in one of them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import ctrlhost
from ctrlhost import NotLeading, PluginRestarted
from ctrlhost.testing import ManualClock
from tests.support.elections import LEASE_DURATION, LIMIT, lease, secret, written
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour
MAPS = ctrlhost.For("v1", "ConfigMap", label_selector="mine")
OWN = {"leader_elect": True, "leader_elect_plugins": ["bad"]}
#: The plugins fail for good.
FINAL = {"restart_limit": 0}


class Recorder:
    """A plugin that works: it keeps its context."""

    def __init__(self) -> None:
        self.plugin: Any = None

    def setup(self, plugin: ctrlhost.PluginContext) -> None:
        self.plugin = plugin
        plugin.add_controller("c", lambda _ctx, _request: None, MAPS)


def raises(_plugin: ctrlhost.PluginContext) -> None:
    raise RuntimeError("no")


def holders(host: Any, name: str) -> set[str]:
    """Return who held a Lease at any time."""
    identities = set()
    for record in host.sandbox.audit:
        if record.resource == "leases" and record.code < 300 and name.encode() in record.body:
            _, _, rest = record.body.partition(b'"holderIdentity":"')
            identities.add(rest.partition(b'"')[0].decode())
    return identities


@behaviour("supervision/LD1")
def test_a_plugin_that_failed_at_its_start_does_not_try_for_its_own_lease(sandbox, ctrlhost_host) -> None:
    first = ctrlhost_host(plugin_of(raises, "bad"), plugin_of(lambda _: None, "good"), sandbox=sandbox, **OWN)
    assert first.host.plugins[0].state != "running"
    works = Recorder()
    second = ctrlhost_host(plugin_of(works.setup, "bad"), sandbox=sandbox, **OWN)
    eventually(lambda: works.plugin.term == 1, LIMIT)
    assert lease(second.client, "ctrlhost-bad")["holderIdentity"] == second.host.leadership.identity
    assert holders(second, "ctrlhost-bad") == {second.host.leadership.identity}
    # The other plugin of the first replica leads there.
    assert lease(second.client)["holderIdentity"] == first.host.leadership.identity


@behaviour("supervision/LD1")
def test_a_plugin_that_has_not_synced_does_not_try_for_its_own_lease(sandbox, ctrlhost_host) -> None:
    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.informer("example.com/v1", "Missing")

    host = ctrlhost_host(plugin_of(setup, "bad"), sandbox=sandbox, **OWN)
    assert host.host.plugins[0].state == "waiting"
    assert lease(host.client, "ctrlhost-bad") == {}


@behaviour("supervision/LD2")
def test_a_leader_whose_plugin_fails_for_good_releases_its_own_lease(sandbox, ctrlhost_host) -> None:
    # The clock of the second replica stands still: it can wait for no lease's end.
    broken, works = Recorder(), Recorder()
    first = ctrlhost_host(plugin_of(broken.setup, "bad"), sandbox=sandbox, supervision=FINAL, **OWN)
    eventually(lambda: broken.plugin.term == 1, LIMIT)
    second = ctrlhost_host(plugin_of(works.setup, "bad"), sandbox=sandbox, clock=ManualClock(), **OWN)
    identity = first.host.leadership.identity
    eventually(lambda: works.plugin.leader == identity, LIMIT)
    (runtime,) = first.host.plugins
    runtime.entries.fail("broken for good")
    eventually(lambda: works.plugin.term == 1, LIMIT)
    assert lease(second.client, "ctrlhost-bad")["holderIdentity"] == second.host.leadership.identity
    assert holders(second, "ctrlhost-bad") == {identity, "", second.host.leadership.identity}
    eventually(lambda: broken.plugin.leader == second.host.leadership.identity, LIMIT)
    assert broken.plugin.term is None


@behaviour("supervision/LD3")
def test_a_lease_is_not_released_while_a_reconcile_of_the_failed_plugin_hangs(sandbox, ctrlhost_host) -> None:
    going, go_on, outcome, works = threading.Event(), threading.Event(), [], Recorder()
    broken = Recorder()

    def setup(plugin: ctrlhost.PluginContext) -> None:
        broken.plugin = plugin

        def reconcile(ctx: ctrlhost.Context, _request: ctrlhost.Request) -> None:
            going.set()
            assert go_on.wait(LIMIT)
            try:
                ctx.client.create(secret("late"))
            except (NotLeading, PluginRestarted) as error:
                outcome.append(error.reason)

        plugin.add_controller("c", reconcile, MAPS)

    first = ctrlhost_host(plugin_of(setup, "bad"), sandbox=sandbox, supervision=FINAL, **OWN)
    first.client.create(config_map("x", labels={"mine": "1"}))
    assert going.wait(LIMIT)
    clock = ManualClock()
    second = ctrlhost_host(plugin_of(works.setup, "bad"), sandbox=sandbox, clock=clock, **OWN)
    identity = first.host.leadership.identity
    eventually(lambda: works.plugin.leader == identity, LIMIT)
    (runtime,) = first.host.plugins
    runtime.entries.fail("broken for good")
    assert not runtime.attempt.drain(0), "the reconcile runs"
    assert broken.plugin.term is None
    assert lease(first.client, "ctrlhost-bad")["holderIdentity"] == identity
    assert works.plugin.term is None

    def taken_over() -> bool:
        clock.advance(LEASE_DURATION / 10)
        return works.plugin.term == 1

    eventually(taken_over, LIMIT, pause=0.01)
    assert lease(second.client, "ctrlhost-bad")["holderIdentity"] == second.host.leadership.identity
    assert holders(second, "ctrlhost-bad") == {identity, second.host.leadership.identity}, "the lease was released"
    go_on.set()
    eventually(lambda: outcome, LIMIT)
    assert written(second) == []


@behaviour("supervision/LD2")
@behaviour("supervision/LD3")
def test_the_lease_is_released_when_the_last_reconcile_of_the_failed_plugin_has_returned(
    sandbox, ctrlhost_host
) -> None:
    going, go_on, works = threading.Event(), threading.Event(), Recorder()

    def setup(plugin: ctrlhost.PluginContext) -> None:
        def reconcile(_ctx: ctrlhost.Context, _request: ctrlhost.Request) -> None:
            going.set()
            assert go_on.wait(LIMIT)

        plugin.add_controller("c", reconcile, MAPS)

    first = ctrlhost_host(plugin_of(setup, "bad"), sandbox=sandbox, supervision=FINAL, **OWN)
    first.client.create(config_map("x", labels={"mine": "1"}))
    assert going.wait(LIMIT)
    # The clock of the second replica stands still: it can wait for no lease's end.
    second = ctrlhost_host(plugin_of(works.setup, "bad"), sandbox=sandbox, clock=ManualClock(), **OWN)
    identity = first.host.leadership.identity
    eventually(lambda: works.plugin.leader == identity, LIMIT)
    (runtime,) = first.host.plugins
    runtime.entries.fail("broken for good")
    assert not runtime.attempt.drain(0), "the reconcile runs"
    assert lease(second.client, "ctrlhost-bad")["holderIdentity"] == identity
    go_on.set()
    eventually(lambda: works.plugin.term == 1, LIMIT)
    assert holders(second, "ctrlhost-bad") == {identity, "", second.host.leadership.identity}


@behaviour("supervision/LD5")
def test_a_shared_lease_is_led_from_a_replica_where_one_of_its_plugins_has_failed(sandbox, ctrlhost_host) -> None:
    works = Recorder()
    host = ctrlhost_host(
        plugin_of(raises, "bad"), plugin_of(works.setup, "good"), sandbox=sandbox, supervision=FINAL, leader_elect=True
    )
    eventually(lambda: works.plugin.term == 1, LIMIT)
    assert lease(host.client)["holderIdentity"] == host.host.leadership.identity
    details = {check.name: check.detail for check in host.host.inspection.checks("healthz")}
    assert "this replica leads for the plugin, although the plugin has failed here" in details["plugin/bad"]
    assert "(hint: `leader_elect_plugins` gives the plugin a lease of its own)" in details["plugin/bad"]
    assert "leads for the plugin" not in details["plugin/good"]


@behaviour("supervision/LD6")
def test_a_shared_lease_is_released_when_all_of_its_plugins_have_failed(sandbox, ctrlhost_host) -> None:
    shared, other, works = Recorder(), Recorder(), Recorder()
    first = ctrlhost_host(
        plugin_of(shared.setup, "one"),
        plugin_of(other.setup, "two"),
        sandbox=sandbox,
        supervision=FINAL,
        leader_elect=True,
    )
    eventually(lambda: shared.plugin.term == 1, LIMIT)
    second = ctrlhost_host(plugin_of(works.setup, "one"), sandbox=sandbox, clock=ManualClock(), leader_elect=True)
    identity = first.host.leadership.identity
    eventually(lambda: works.plugin.leader == identity, LIMIT)
    first.host.plugins[0].entries.fail("broken for good")
    eventually(lambda: first.host.plugins[0].attempt.drain(LIMIT))
    # The other plugin still leads.
    assert other.plugin.term == 1
    assert lease(second.client)["holderIdentity"] == identity
    first.host.plugins[1].entries.fail("broken for good")
    eventually(lambda: works.plugin.term == 1, LIMIT)
    assert holders(second, "ctrlhost") == {identity, "", second.host.leadership.identity}
    assert lease(second.client)["holderIdentity"] == second.host.leadership.identity


def test_a_stop_releases_all_leases_at_once(ctrlhost_host, monkeypatch, caplog) -> None:
    """One lease must not wait for another, whose server may not answer."""
    names = ["one", "two", "three"]
    plugins = [plugin_of(lambda _: None, name) for name in names]
    host = ctrlhost_host(*plugins, leader_elect=True, leader_elect_plugins=names)
    electors = list(host.host.leadership._electors.values())
    eventually(lambda: all(elector.leading for elector in electors), LIMIT)
    all_of_them = threading.Barrier(len(names))

    def together(release: Any) -> Any:
        def call() -> None:
            all_of_them.wait(60)
            release()

        return call

    for elector in electors:
        monkeypatch.setattr(elector, "release", together(elector.release))
    host.host.stop()
    assert not [record for record in caplog.records if "not released in time" in record.getMessage()]
    assert all(lease(host.client, f"ctrlhost-{name}")["holderIdentity"] == "" for name in names)
