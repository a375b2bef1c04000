"""Writes belong to the term in which their work began."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import ctrlhost
from ctrlhost import NotLeading
from ctrlhost.client import HttpRequest
from ctrlhost.testing import ManualClock
from ctrlhost.transport.native import NativeTransport
from tests.support.elections import LIMIT, gain, hold_lease, lapse_and_renew, lease, lose, refused, secret, written
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.waiting import eventually
from tests.support.workqueue_threads import Background

behaviour = pytest.mark.behaviour
MAPS = ctrlhost.For("v1", "ConfigMap", label_selector="mine")


class Captured:
    """A plugin whose set-up only keeps its context."""

    def __init__(self) -> None:
        self.plugin: Any = None

    def setup(self, plugin: ctrlhost.PluginContext) -> None:
        self.plugin = plugin


def leading(ctrlhost_host: Any, clock: ManualClock) -> tuple[Any, Any]:
    """Return a host that leads in its first term, and the context of its plugin."""
    captured = Captured()
    host = ctrlhost_host(plugin_of(captured.setup), clock=clock, leader_elect=True)
    eventually(lambda: captured.plugin.term == 1, LIMIT)
    return host, captured.plugin


@behaviour("supervision/LD7")
def test_a_thread_that_a_plugin_starts_itself_writes_only_while_its_replica_leads(sandbox, ctrlhost_host) -> None:
    go_on, outcome = threading.Event(), []

    def setup(plugin: ctrlhost.PluginContext) -> None:
        client = plugin.client

        def run() -> None:
            assert go_on.wait(LIMIT)
            try:
                client.create(secret("a"))
            except NotLeading as error:
                outcome.append(error.reason)

        threading.Thread(target=run, daemon=True).start()

    hold_lease(ctrlhost.Client.load(sandbox.kubeconfig))
    host = ctrlhost_host(plugin_of(setup), sandbox=sandbox, leader_elect=True)
    go_on.set()
    eventually(lambda: outcome, LIMIT)
    assert outcome == ["term"]
    assert written(host) == []
    assert refused(host) == {("demo", "term"): 1}


@behaviour("supervision/LD7")
def test_a_thread_that_a_plugin_starts_itself_writes_in_any_term(ctrlhost_host, manual_clock) -> None:
    host, plugin = leading(ctrlhost_host, manual_clock)
    client = plugin.client
    client.create(secret("a"))
    lapse_and_renew(host, plugin)
    client.create(secret("b"))
    assert [write.name for write in written(host)] == ["a", "b"]


@behaviour("supervision/LD8")
@pytest.mark.parametrize("asynchronous", [False, True], ids=["def", "async def"])
def test_a_client_from_a_task_stays_in_its_term_on_another_thread(
    ctrlhost_host, manual_clock, asynchronous: bool
) -> None:
    calls, outcome, go_on, captured = [], [], threading.Event(), Captured()

    def setup(plugin: ctrlhost.PluginContext) -> None:
        captured.setup(plugin)

        def run(stop: threading.Event) -> None:
            calls.append(plugin.term)
            if len(calls) == 1:
                outcome.append(Background(write, plugin.client))
            stop.wait(LIMIT)

        def write(client: ctrlhost.Client) -> None:
            assert go_on.wait(LIMIT)
            client.create(secret("late"))

        async def run_async(stop: threading.Event) -> None:
            calls.append(plugin.term)
            if len(calls) == 1:
                outcome.append(Background(write, plugin.client))
            await asyncio.to_thread(stop.wait, LIMIT)

        plugin.add_task("hand-over", run_async if asynchronous else run, needs_leader=True)

    host = ctrlhost_host(plugin_of(setup), clock=manual_clock, leader_elect=True)
    eventually(lambda: calls == [1], LIMIT)
    lose(host, captured.plugin)
    gain(host, captured.plugin)
    # The task of the next term has a client of that term.
    eventually(lambda: calls == [1, 2], LIMIT)
    go_on.set()
    with pytest.raises(NotLeading) as caught:
        outcome[0].result()
    assert caught.value.reason == "term"
    assert written(host) == []
    assert refused(host) == {("demo", "term"): 1}


@behaviour("supervision/LD9")
@pytest.mark.parametrize("asynchronous", [False, True], ids=["def", "async def"])
def test_a_reconcile_of_an_earlier_term_does_not_write_and_runs_again(
    ctrlhost_host, manual_clock, asynchronous: bool
) -> None:
    terms, going, go_on, captured = [], threading.Event(), threading.Event(), Captured()

    def begin(plugin: ctrlhost.PluginContext) -> None:
        terms.append(plugin.term)
        going.set()

    def setup(plugin: ctrlhost.PluginContext) -> None:
        captured.setup(plugin)

        def reconcile(ctx: ctrlhost.Context, request: ctrlhost.Request) -> None:
            begin(plugin)
            assert ctx.client.find("v1", "Secret", "a", "default") is None
            assert go_on.wait(LIMIT)
            # What the plugin's own client is here belongs to the term too.
            client = ctx.client if len(terms) == 1 else plugin.client
            client.create(secret("a", term=str(plugin.term)))

        async def reconcile_async(ctx: ctrlhost.Context, request: ctrlhost.Request) -> None:
            begin(plugin)
            assert await ctx.async_client.find("v1", "Secret", "a", "default") is None
            await asyncio.to_thread(go_on.wait, LIMIT)
            await ctx.async_client.create(secret("a", term=str(plugin.term)))

        plugin.add_controller("c", reconcile_async if asynchronous else reconcile, MAPS)

    host = ctrlhost_host(plugin_of(setup), clock=manual_clock, leader_elect=True)
    host.client.create(config_map("x", labels={"mine": "1"}))
    assert going.wait(LIMIT)
    lapse_and_renew(host, captured.plugin)
    go_on.set()
    eventually(lambda: written(host), LIMIT)
    assert terms == [1, 2]
    (write,) = written(host)
    assert b'"term":"2"' in write.body
    controller = host.controllers["demo/c"]
    eventually(lambda: controller.busy() is None, LIMIT)
    assert controller.status().errors == 0
    assert controller.status().last_error is None
    assert controller.queue.num_requeues(ctrlhost.Request("x", "default")) == 0
    assert refused(host) == {("demo", "term"): 1}


@behaviour("supervision/LD9")
def test_a_hook_of_an_earlier_term_does_not_write_and_runs_again(ctrlhost_host, manual_clock) -> None:
    terms, going, go_on, captured = [], threading.Event(), threading.Event(), Captured()

    def elected(plugin: ctrlhost.PluginContext) -> None:
        terms.append(plugin.term)
        assert plugin.client.find("v1", "Secret", "a", "default") is None
        going.set()
        assert go_on.wait(LIMIT)
        plugin.client.create(secret("a", term=str(plugin.term)))

    host = ctrlhost_host(plugin_of(captured.setup, elected=elected), clock=manual_clock, leader_elect=True, start=False)
    host.host.start()
    assert going.wait(LIMIT)
    lapse_and_renew(host, captured.plugin)
    go_on.set()
    eventually(lambda: written(host), LIMIT)
    assert terms == [1, 2]
    (write,) = written(host)
    assert b'"term":"2"' in write.body
    eventually(lambda: host.host.plugins[0].state == "running", LIMIT)
    assert refused(host) == {("demo", "term"): 1}


@behaviour("supervision/LD13")
def test_every_kind_of_write_is_refused_without_leadership(ctrlhost_host, manual_clock) -> None:
    outcomes, going, go_on, captured = {}, threading.Event(), threading.Event(), Captured()
    writes = {
        "create": lambda client: client.create(secret("a")),
        "replace": lambda client: client.replace(secret("a")),
        "apply": lambda client: client.apply(secret("a")),
        "patch": lambda client: client.patch("v1", "Secret", "a", "default", {"data": {}}),
        "delete": lambda client: client.delete("v1", "Secret", "a", "default"),
        "delete_collection": lambda client: client.delete_collection("v1", "Secret", "default"),
        "subresource": lambda client: client.create(EVICTION, subresource="eviction"),
    }

    def outcome(write: Any, client: Any) -> str:
        try:
            answer = write(client)
            if asyncio.iscoroutine(answer):
                asyncio.run(answer)
        except NotLeading as error:
            return error.reason
        return "sent"

    def setup(plugin: ctrlhost.PluginContext) -> None:
        captured.setup(plugin)

        def reconcile(ctx: ctrlhost.Context, request: ctrlhost.Request) -> None:
            going.set()
            assert go_on.wait(LIMIT)
            clients = {"ctx": ctx.client, "plugin": plugin.client, "async": ctx.async_client}
            for owner, client in clients.items():
                outcomes.update({(owner, name): outcome(write, client) for name, write in writes.items()})
            ctx.events.normal(secret("a"), "Refused", "by the reconcile")
            plugin.events.warning(secret("a"), "Refused", "by the plugin")

        plugin.add_controller("c", reconcile, MAPS)

    host = ctrlhost_host(plugin_of(setup), clock=manual_clock, leader_elect=True)
    host.client.create(config_map("x", labels={"mine": "1"}))
    assert going.wait(LIMIT)
    lose(host, captured.plugin)
    go_on.set()
    eventually(lambda: len(outcomes) == 3 * len(writes), LIMIT)
    assert set(outcomes.values()) <= {"term", "deadline"}, outcomes
    controller = host.controllers["demo/c"]
    eventually(lambda: not controller.status().active, LIMIT)
    assert host.host.events.flush(LIMIT)
    assert written(host) == written(host, "pods") == []
    assert [event for event in host.events() if event["reason"] == "Refused"] == []
    assert sum(refused(host).values()) == 3 * len(writes) + 2


REVIEW = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SelfSubjectAccessReview",
    "metadata": {"name": ""},
    "spec": {"resourceAttributes": {"resource": "secrets", "verb": "get", "namespace": "default"}},
}
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a", "namespace": "default"}}


@behaviour("supervision/LD14")
def test_reads_and_the_writes_of_every_replica_are_sent_without_leadership(sandbox, ctrlhost_host) -> None:
    captured = Captured()

    def setup(plugin: ctrlhost.PluginContext) -> None:
        captured.setup(plugin)

        def reconcile(ctx: ctrlhost.Context, request: ctrlhost.Request) -> None:
            ctx.client.create(secret("by-reconcile"))
            ctx.events.normal(secret("by-reconcile"), "Sent", "by every replica")
            assert ctx.client.get("v1", "Secret", "by-reconcile", "default")

        plugin.add_controller("c", reconcile, MAPS, needs_leader=False)

    admin = ctrlhost.Client.load(sandbox.kubeconfig)
    hold_lease(admin)
    host = ctrlhost_host(plugin_of(setup), sandbox=sandbox, leader_elect=True)
    plugin = captured.plugin
    assert plugin.term is None
    plugin.replica_client.create(secret("by-hand"))
    for client in (plugin.client, plugin.replica_client):
        assert client.get("v1", "Secret", "by-hand", "default")
        assert [obj["metadata"]["name"] for obj in client.list("v1", "Secret", "default")] == ["by-hand"]
        # A review is posted, and writes nothing.
        assert client.create(REVIEW)["status"]["allowed"]
    host.client.create(config_map("x", labels={"mine": "1"}))
    eventually(lambda: len(written(host)) == 2, LIMIT)
    eventually(lambda: [event for event in host.events() if event["reason"] == "Sent"], LIMIT)
    assert [write.name for write in written(host)] == ["by-hand", "by-reconcile"]
    assert host.controllers["demo/c"].status().errors == 0
    assert refused(host) == {}


@behaviour("supervision/LD15")
def test_without_an_election_writes_are_refused_only_after_the_drain(ctrlhost_host) -> None:
    terms, going, go_on, captured = [], threading.Event(), threading.Event(), Captured()

    def setup(plugin: ctrlhost.PluginContext) -> None:
        captured.setup(plugin)
        terms.append(plugin.term)

        def reconcile(ctx: ctrlhost.Context, request: ctrlhost.Request) -> None:
            going.set()
            assert go_on.wait(LIMIT)
            ctx.client.create(secret("while-draining"))
            ctx.events.normal(secret("a"), "Drained", "by the last reconcile")

        plugin.add_controller("c", reconcile, MAPS)

    host = ctrlhost_host(plugin_of(setup))
    plugin = captured.plugin
    plugin.client.create(secret("before"))
    host.client.create(config_map("x", labels={"mine": "1"}))
    assert going.wait(LIMIT)
    stopping = Background(host.host.stop, LIMIT)
    assert host.host.stopping.wait(LIMIT)
    assert plugin.term == 1
    go_on.set()
    assert stopping.result()
    assert plugin.term is None
    with pytest.raises(NotLeading) as caught:
        plugin.client.create(secret("after"))
    assert caught.value.reason == "term"
    assert terms == [1]
    assert [write.name for write in written(host)] == ["before", "while-draining"]
    assert [event["reason"] for event in host.events()] == ["Drained"]
    assert refused(host) == {("demo", "term"): 1}


@behaviour("supervision/LD17")
def test_a_lease_that_lapsed_and_was_renewed_by_its_holder_is_a_new_term(ctrlhost_host, manual_clock) -> None:
    host, plugin = leading(ctrlhost_host, manual_clock)
    before = lease(host.client)
    lapse_and_renew(host, plugin)
    assert plugin.term == 2
    lose(host, plugin)
    assert plugin.term is None
    gain(host, plugin)
    assert plugin.term == 3
    after = lease(host.client)
    assert after["leaseTransitions"] == before["leaseTransitions"]
    assert after["holderIdentity"] == before["holderIdentity"] == host.host.leadership.identity


@behaviour("supervision/LD19")
def test_leadership_that_flips_sends_no_write_outside_a_term_and_loses_no_key(ctrlhost_host, monkeypatch) -> None:
    keys, captured = [f"x{number}" for number in range(16)], Captured()
    exchange, send = threading.Lock(), NativeTransport.send

    def send_alone(self: NativeTransport, request: HttpRequest) -> Any:
        # No request is on its way while leadership changes, so the order at the server is exact.
        with exchange:
            return send(self, request)

    def setup(plugin: ctrlhost.PluginContext) -> None:
        captured.setup(plugin)

        def reconcile(ctx: ctrlhost.Context, request: ctrlhost.Request) -> None:
            term = plugin.term
            # A read in between: leadership may change meanwhile.
            ctx.client.find("v1", "Secret", request.name, "default")
            data = {"metadata": {"annotations": {"run": ctx.reconcile_id, "worker": str(ctx.worker)}}}
            ctx.client.apply({**secret(request.name, term=str(term)), "type": "Opaque"})
            ctx.client.patch("v1", "ConfigMap", request.name, "default", data)

        plugin.add_controller("c", reconcile, MAPS, workers=8)

    monkeypatch.setattr(NativeTransport, "send", send_alone)
    host = ctrlhost_host(
        plugin_of(setup),
        leader_elect=True,
        leader_elect_retry_period="1s",
        controllers={"demo/c": {"base_delay": "5ms"}},
        # Its own writes cause its runs.
        supervision={"hot_loop": False},
    )
    plugin = captured.plugin
    for key in keys:
        host.client.create(config_map(key, labels={"mine": "1"}))
    eventually(lambda: plugin.term == 1, LIMIT)
    (elector,) = host.host.leadership._electors.values()
    spans: dict[int, tuple[int, int]] = {}
    for term in range(1, 61):
        begun = len(spans) and spans[term - 1][1]
        eventually(lambda begun=begun: len(written(host)) > begun + 2, LIMIT)
        with exchange:
            elector.withdraw()
            spans[term] = (begun, len(written(host)))
        elector.stand()
        eventually(lambda term=term: plugin.term == term + 1, LIMIT)
    for number, write in enumerate(written(host)[: spans[60][1]]):
        term = next(term for term, (first, end) in spans.items() if first <= number < end)
        assert f'"term":"{term}"'.encode() in write.body, (number, term, write.body)
    last = spans[60][1]
    eventually(lambda: {record.name for record in written(host)[last:]} == set(keys), LIMIT)
    assert host.controllers["demo/c"].status().errors == 0
