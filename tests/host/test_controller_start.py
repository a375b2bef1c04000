"""The start of a controller, from declaration to first reconcile, and its shutdown."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest

import ctrlhost
from ctrlhost import For, InformerFactory, NotSynced, PluginLoadError, Request, Watches
from tests.support.controllers import Bench, Script
from tests.support.objects import crd
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.waiting import create_eventually, eventually
from tests.support.workqueue_threads import Background

MINE = For("v1", "ConfigMap", label_selector="mine")
MISSING = For("example.com/v1", "Widget")


class ClusterBench(Bench):
    """Controllers on informers of a sandbox, without a host."""

    def __init__(self, sandbox: Any) -> None:
        super().__init__()
        self.client = ctrlhost.Client.load(sandbox.kubeconfig)
        self.factory = InformerFactory(self.client)

    def declared(self, *sources: Any, reconcile: Any = None) -> Any:
        plugin = self.plugin()
        plugin.add_controller("pods", reconcile or Script(), *sources)
        return plugin.controllers[0]

    def close(self) -> None:
        super().close()
        self.factory.stop()
        self.client.close()


@pytest.fixture
def bench(sandbox):
    bench = ClusterBench(sandbox)
    yield bench
    bench.close()


@pytest.mark.behaviour("workqueue/K24")
@pytest.mark.behaviour("workqueue/K31")
@pytest.mark.parametrize("sources", [(), (MINE,), (MINE, Watches("v1", "Secret"))])
def test_a_controller_syncs_once_its_informers_run(bench: ClusterBench, sources: tuple[Any, ...]) -> None:
    controller = bench.declared(*sources)
    assert not controller.has_synced()
    controller.attach()
    bench.factory.start()
    assert controller.wait_for_sync(10) is True
    assert controller.has_synced()
    assert controller.waiting() is None
    controller.queue.add(Request("a", "b"))
    assert controller.queue.get() == Request("a", "b")


@pytest.mark.behaviour("workqueue/K20")
@pytest.mark.behaviour("workqueue/K21")
@pytest.mark.behaviour("workqueue/K31")
@pytest.mark.behaviour("workqueue/K34")
@pytest.mark.parametrize("started", [False, True])
def test_a_sync_timeout_names_the_controller_and_the_kind(bench: ClusterBench, started: bool) -> None:
    controller = bench.declared(MINE, Watches("example.com/v1", "Widget"))
    controller.attach()
    if started:
        bench.factory.start()
        eventually(controller.waiting)
        assert controller.waiting().startswith("Widget (example.com/v1): ")
    message = r"controller demo/pods: timed out waiting for caches to sync: .*Widget \(example.com/v1"
    with pytest.raises(NotSynced, match=message):
        controller.wait_for_sync(0.05)


@pytest.mark.behaviour("workqueue/K22")
@pytest.mark.behaviour("workqueue/K31")
@pytest.mark.behaviour("workqueue/K34")
def test_a_cancelled_sync_is_not_an_error(bench: ClusterBench) -> None:
    controller = bench.declared(MISSING)
    controller.attach()
    assert not controller.wait_for_sync(10, already_set())
    # Cancelled in the middle of the wait.
    bench.factory.start()
    stop = threading.Event()
    waiting = Background(controller.wait_for_sync, 3600, stop)
    eventually(lambda: controller.waiting() is not None)
    assert waiting.waits
    stop.set()
    assert waiting.result() is False


def already_set() -> threading.Event:
    stop = threading.Event()
    stop.set()
    return stop


@pytest.mark.behaviour("workqueue/K28")
@pytest.mark.behaviour("workqueue/K31")
@pytest.mark.behaviour("workqueue/K34")
def test_a_source_that_cannot_be_attached_fails_with_its_own_error_and_holds_nothing(bench: ClusterBench) -> None:
    broken = For("v1", "ConfigMap", label_selector="mine", indexes={"who": "data..who"})
    controller = bench.declared(broken)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"invalid index path `data\.\.who`"):
            controller.attach()
    assert bench.factory.informers() == []


def test_two_different_indexes_of_one_name_are_refused(bench: ClusterBench) -> None:
    first = For("v1", "ConfigMap", label_selector="mine", indexes={"who": "data.first"})
    second = Watches("v1", "ConfigMap", label_selector="mine", indexes={"who": "data.last"})
    with pytest.raises(PluginLoadError, match="index ConfigMap by `who`"):
        bench.declared(first, second).attach()
    assert bench.factory.informers() == []


@pytest.mark.behaviour("workqueue/K32")
@pytest.mark.behaviour("workqueue/K33")
@pytest.mark.behaviour("workqueue/K36")
def test_attaching_from_many_threads_attaches_once(bench: ClusterBench) -> None:
    controller = bench.declared(MINE)
    attached: list[Any] = []

    def attach() -> None:
        controller.attach()
        attached.append(controller.informers)

    # The start of the factory comes in between.
    calls = [Background(attach) for _ in range(3)] + [Background(bench.factory.start)]
    for call in [*calls, *(Background(attach) for _ in range(2))]:
        call.result()
    assert controller.wait_for_sync(10)
    (informer,) = bench.factory.informers()
    assert informer.users == 1
    # Later callers wait for the first one.
    assert attached == [(informer,)] * 5
    # Nothing is left to attach: one more call changes nothing.
    handlers = controller.handlers
    controller.attach()
    assert controller.handlers == handlers
    assert (len(handlers), informer.users) == (1, 1)


@pytest.mark.behaviour("workqueue/K30")
def test_keys_other_than_requests_are_reconciled(bench: ClusterBench) -> None:
    reconcile = Script()
    plugin = bench.plugin()
    handle = plugin.add_controller("pods", reconcile, MINE)
    handle.enqueue("a host")  # type: ignore[arg-type]
    (controller,) = plugin.controllers
    controller.attach()
    bench.factory.start()
    assert controller.wait_for_sync(10)
    controller.start_workers()
    eventually(lambda: reconcile.calls == ["a host"])
    assert controller.drain(10)


@pytest.mark.behaviour("workqueue/K35")
def test_a_standby_replica_has_full_caches_and_idle_workers(ctrlhost_host) -> None:
    led, followed = Script(), Script()

    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("leader", led, MINE)
        plugin.add_controller("everywhere", followed, MINE, needs_leader=False)

    host = ctrlhost_host(plugin_of(setup), start=False)
    host.host._tenure.end()
    host.start()
    host.client.create(config_map("ann", labels={"mine": "1"}))
    eventually(lambda: followed.calls == [Request("ann", "default")])
    controller = host.controllers["demo/leader"]
    eventually(lambda: controller.has_synced() and len(controller.queue) == 1)
    assert led.calls == []
    host.host._tenure.begin(float("inf"))
    host.run_until_idle()
    assert led.calls == [Request("ann", "default")]


@pytest.mark.behaviour("workqueue/K38")
@pytest.mark.parametrize("leads", [False, True])
def test_a_stopped_host_leaves_no_thread(ctrlhost_host, sandbox, leads: bool) -> None:
    before = set(threading.enumerate())
    # Those that all hosts and clients of the process share.
    shared = {"ctrlhost answers", "ctrlhost reflectors"}

    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("c", Script(), MINE, workers=3)
        plugin.add_task("t", lambda stop: stop.wait(), needs_leader=True)

    host = ctrlhost_host(plugin_of(setup), sandbox=sandbox, start=False)
    if not leads:
        host.host._tenure.end()
    host.start()
    host.client.create(config_map("ann", labels={"mine": "1"}))
    eventually(lambda: host.controllers["demo/c"].has_synced())
    assert host.stop()
    eventually(lambda: {thread for thread in threading.enumerate() if thread.name not in shared} <= before)


def test_a_plugin_with_an_invalid_declaration_fails_alone(ctrlhost_host) -> None:
    seen = Script()
    good = plugin_of(lambda plugin: plugin.add_controller("c", seen, MINE), "good")
    bad = plugin_of(lambda plugin: plugin.add_controller("c", seen, MINE, MINE), "bad")
    host = ctrlhost_host(bad, good)
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    assert seen.calls == [Request("ann", "default")]
    states = {plugin.name: (plugin.state, plugin.error) for plugin in host.host.plugins}
    assert states["good"][0] == "running"
    assert states["bad"][0] == "failed"
    assert isinstance(states["bad"][1], PluginLoadError)


def test_a_controller_waits_for_its_crd_and_others_start_without_it(ctrlhost_host) -> None:
    widgets, others = Script(), Script()

    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("widgets", widgets, MISSING)
        plugin.add_controller("others", others, MINE)

    host = ctrlhost_host(plugin_of(setup))
    (plugin,) = host.host.plugins
    assert plugin.state == "waiting"
    assert "Widget (example.com/v1)" in plugin.reason
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    assert others.calls == [Request("ann", "default")]
    host.client.create(crd("example.com", "Widget"))
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}}
    create_eventually(host.client, widget)
    for informer in host.controllers["demo/widgets"].informers:
        informer.wake()
    eventually(lambda: widgets.calls == [Request("w", "default")])
    eventually(lambda: plugin.state == "running")


@pytest.mark.behaviour("supervision/CR10")
def test_a_plugin_runs_beside_a_crd_that_has_more_versions(ctrlhost_host, sandbox, caplog) -> None:
    own = crd("example.com", "Widget")
    live = copy.deepcopy(own)
    live["spec"]["versions"].append({**live["spec"]["versions"][0], "name": "v2", "storage": False})
    client = ctrlhost.Client.load(sandbox.kubeconfig)
    name = client.create(live)["metadata"]["name"]
    before = client.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", name)["spec"]
    reconcile = Script()
    host = ctrlhost_host(
        plugin_of(lambda plugin: plugin.add_controller("c", reconcile, MISSING), crds=lambda: [own]), sandbox=sandbox
    )
    host.client.create({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}})
    host.run_until_idle()
    assert reconcile.calls == [Request("a", "default")]
    assert f"CRD {name} stays as it is: it has the versions v2" in caplog.text
    assert client.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", name)["spec"] == before
    client.close()


@pytest.mark.behaviour("supervision/BU18")
def test_each_writer_has_a_field_manager_of_its_own(ctrlhost_host, sandbox) -> None:
    def write(ctx: ctrlhost.Context, request: Request) -> None:
        ctx.client.apply(config_map("made", a="1"))
        ctx.client.patch("v1", "ConfigMap", request.name, request.namespace, {"data": {"seen": "yes"}})

    host = ctrlhost_host(
        plugin_of(
            lambda plugin: plugin.add_controller("c", write, MINE), name="bad", crds=lambda: [crd("x.io", "Thing")]
        ),
        sandbox=sandbox,
        leader_elect=True,
        leader_elect_resource_namespace="default",
    )
    client = ctrlhost.Client.load(sandbox.kubeconfig).derive(field_manager="someone")
    client.create(config_map("ann", labels={"mine": ""}))

    def managers(api_version: str, kind: str, name: str, namespace: str | None = "default") -> set[str]:
        obj = client.find(api_version, kind, name, namespace)
        return {entry["manager"] for entry in obj["metadata"]["managedFields"]} if obj else set()

    eventually(lambda: managers("v1", "ConfigMap", "ann") == {"someone", "ctrlhost-bad"})
    assert managers("v1", "ConfigMap", "made") == {"ctrlhost-bad"}
    assert managers("coordination.k8s.io/v1", "Lease", "ctrlhost") == {"ctrlhost-leader-election"}
    name = "things.x.io"
    field_managers = managers("apiextensions.k8s.io/v1", "CustomResourceDefinition", name, None)
    # The rest is the server's own.
    assert "ctrlhost" in field_managers
    assert not {manager for manager in field_managers if manager.startswith("ctrlhost-")}
    assert host.stop()
    client.close()
