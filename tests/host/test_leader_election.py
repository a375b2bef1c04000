"""Leader election: one host acts, the others are on standby."""

from __future__ import annotations

import functools
import threading
import types

import pytest
import yaml
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost.coordination.lease import API_VERSION
from ctrlhost.errors import NotLeading, ServerError
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.waiting import eventually

LIMIT = 60.0

stamped = functools.partial(config_map, labels={"stamp": "yes"})

STAMPER = """
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        source = ctrlhost.For("v1", "ConfigMap", label_selector="stamp=yes")
        plugin.add_controller("stamper", lambda ctx, request: None, source)
"""


def stamper(seen: list[str], name: str = "stamper", during=lambda _: None) -> types.ModuleType:
    """Return a plugin that appends reconciled names to `seen`, after `during(ctx)`."""

    def reconcile(ctx, request):
        during(ctx)
        seen.append(request.name)

    def ctrlhost_setup(plugin):
        plugin.add_controller("all", reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="stamp=yes"))

    module = types.ModuleType(name)
    module.ctrlhost_setup = ctrlhost.hookimpl(ctrlhost_setup)
    return module


def test_nothing_is_written_or_started_after_the_renew_deadline(ctrlhost_host, manual_clock):
    seen, refused, going, go_on = [], [], threading.Event(), threading.Event()

    def during(ctx):
        going.set()
        assert go_on.wait(LIMIT)
        try:
            ctx.client.create(stamped("late"))
        except NotLeading as error:
            refused.append(str(error))

    host = ctrlhost_host(stamper(seen, during=during), clock=manual_clock, leader_elect=True)
    host.client.create(stamped("one"))
    host.client.create(stamped("two"))
    assert going.wait(LIMIT)
    for verb in ("get", "replace"):
        host.faults.next(verb, ServerError("down"), resource="leases", times=1000)
    manual_clock.advance(10)
    go_on.set()
    eventually(lambda: refused, LIMIT)
    host.wait_for(lambda: not host.controllers["stamper/all"].status().active)
    assert len(seen) == 1
    # The elector may have noticed meanwhile.
    (text,) = refused
    reasons = ("this replica does not lead", "the lease was not renewed in time")
    assert text in [f"plugin stamper: the write was not sent: {reason}" for reason in reasons]
    assert host.client.find("v1", "ConfigMap", "late", "default") is None
    host.faults.clear()

    def leads_again():
        manual_clock.advance(1)
        return len(seen) >= 2

    host.wait_for(leads_again)
    assert sorted(set(seen) - {"late"}) == ["one", "two"]


def test_a_leader_task_writes_nothing_after_the_renew_deadline_and_restarts_after_the_next_election(
    ctrlhost_host, manual_clock
):
    results, go_on = [], threading.Event()

    def ctrlhost_setup(plugin):
        def run(_stop):
            results.append("begun")
            assert go_on.wait(LIMIT)
            try:
                plugin.client.create(stamped(f"by-task-{len(results)}"))
            except NotLeading:
                results.append("refused")

        plugin.add_task("writer", run, needs_leader=True)

    module = types.ModuleType("tasks")
    module.ctrlhost_setup = ctrlhost.hookimpl(ctrlhost_setup)
    host = ctrlhost_host(module, clock=manual_clock, leader_elect=True)
    host.wait_for(lambda: results == ["begun"])
    for verb in ("get", "replace"):
        host.faults.next(verb, ServerError("down"), resource="leases", times=1000)
    manual_clock.advance(10)
    go_on.set()
    host.wait_for(lambda: results == ["begun", "refused"])
    (plugin,) = host.host.plugins
    host.wait_for(lambda: plugin.attempt._term is None)
    host.faults.clear()

    def written():
        manual_clock.advance(1)
        return host.client.find("v1", "ConfigMap", "by-task-3", "default")

    assert host.wait_for(written)


def test_a_task_may_have_the_name_of_a_controller(ctrlhost_host):
    seen, ran = [], threading.Event()
    module = stamper(seen)
    set_up = module.ctrlhost_setup

    def ctrlhost_setup(plugin):
        set_up(plugin)
        plugin.add_task("all", lambda _stop: ran.set(), needs_leader=True)

    module.ctrlhost_setup = ctrlhost.hookimpl(ctrlhost_setup)
    host = ctrlhost_host(module, leader_elect=True)
    host.client.create(stamped("one"))
    host.wait_for(lambda: seen)
    assert ran.wait(LIMIT)


def test_a_plugin_with_its_own_lease_loses_only_that(ctrlhost_host, manual_clock, sandbox):
    client = ctrlhost.Client.load(sandbox.kubeconfig)
    spec = {"holderIdentity": "a pod that is gone", "leaseDurationSeconds": 15}
    metadata = {"name": "ctrlhost-two", "namespace": "default"}
    client.create({"apiVersion": API_VERSION, "kind": "Lease", "metadata": metadata, "spec": spec})
    first, second = [], []
    host = ctrlhost_host(
        stamper(first, "one"),
        stamper(second, "two"),
        clock=manual_clock,
        sandbox=sandbox,
        leader_elect=True,
        leader_elect_plugins=["two"],
    )
    client.create(stamped("x"))
    host.wait_for(lambda: first)
    eventually(lambda: client.find(API_VERSION, "Lease", "ctrlhost", "default"), LIMIT)
    assert second == []
    assert [plugin.state for plugin in host.host.plugins] == ["running", "running"]

    def leads():
        manual_clock.advance(1)
        return second

    host.wait_for(leads)
    holder = client.get(API_VERSION, "Lease", "ctrlhost-two", "default")["spec"]["holderIdentity"]
    assert holder == host.host.leadership.identity
    host.stop()
    for name in ("ctrlhost", "ctrlhost-two"):
        assert client.get(API_VERSION, "Lease", name, "default")["spec"]["holderIdentity"] == ""
    reasons = {event["reason"] for event in client.list("events.k8s.io/v1", "Event", "default")}
    assert "LeaderElection" in reasons
    client.close()


def test_a_lease_is_not_released_while_a_reconcile_runs(ctrlhost_host, manual_clock, sandbox):
    going, go_on = threading.Event(), threading.Event()
    host = ctrlhost_host(
        stamper([], during=lambda _: (going.set(), go_on.wait(LIMIT))),
        clock=manual_clock,
        sandbox=sandbox,
        leader_elect=True,
    )
    client = ctrlhost.Client.load(sandbox.kubeconfig)
    client.create(stamped("x"))
    assert going.wait(LIMIT)
    assert not host.stop(0.2)
    holder = client.get(API_VERSION, "Lease", "ctrlhost", "default")["spec"]["holderIdentity"]
    assert holder == host.host.leadership.identity, "another may lead only when the lease has run out"
    go_on.set()
    client.close()


def test_manifests_have_two_replicas_and_rights_on_exactly_the_leases(distributions, ctrlhost):
    distributions.add("stamper", STAMPER)
    manifests = list(
        yaml.safe_load_all(
            ctrlhost(
                "manifests",
                "--plugins=stamper",
                "--image=none",
                "--leader-elect",
                "--set=host.leader_elect_plugins=stamper",
            ).stdout
        )
    )
    (role,) = [manifest for manifest in manifests if manifest["kind"] == "Role"]
    assert role["metadata"]["namespace"] == "ctrlhost-system"
    rules = [rule for rule in role["rules"] if rule["resources"] == ["leases"]]
    assert {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]} in rules
    (named,) = [rule for rule in rules if "resourceNames" in rule]
    assert named["resourceNames"] == ["ctrlhost-stamper"]
    assert sorted(named["verbs"]) == ["get", "list", "update", "watch"]
    (deployment,) = [manifest for manifest in manifests if manifest["kind"] == "Deployment"]
    assert deployment["spec"]["replicas"] == 2
    assert "--leader-elect" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]


def test_without_the_setting_no_lease_is_touched(ctrlhost_host):
    host = ctrlhost_host(stamper([]))
    assert host.host.leadership is None
    assert list(host.client.list(API_VERSION, "Lease", "default")) == []
    assert isinstance(host.sandbox, Sandbox)


@pytest.mark.behaviour("findings3/NO7")
def test_begin_and_end_of_a_leadership_are_two_events(sandbox, ctrlhost_host):
    identities = []
    for _ in range(2):
        host = ctrlhost_host(plugin_of(lambda _plugin: None, "idle"), sandbox=sandbox, leader_elect=True)
        identities.append(host.host.leadership.identity)
        eventually(lambda host=host: host.host.leadership.leases()[0].mine, LIMIT)
        host.host.stop(LIMIT)
    client = ctrlhost.Client.load(sandbox.kubeconfig)
    events = list(client.list("events.k8s.io/v1", "Event", "default"))
    notes = [event["note"] for event in events if event["regarding"]["kind"] == "Lease"]
    wanted = [f"{identity} {what}" for identity in identities for what in ("became leader", "stopped leading")]
    assert sorted(notes) == sorted(wanted)
    assert {event["reason"] for event in events if event["note"] in wanted} == {"LeaderElection"}
    client.close()
