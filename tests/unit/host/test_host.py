"""Hosts in this process: their states, order of hooks and independence."""

from __future__ import annotations

import threading
import types
from typing import TYPE_CHECKING

import pytest
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost import ConfigError, PluginNotFound
from ctrlhost.config.load import Configuration
from ctrlhost.config.settings import HostSettings
from ctrlhost.host.host import Host
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMIT = 30.0


def plugin(name: str, **hooks: Callable[..., object]) -> types.ModuleType:
    module = types.ModuleType(name)
    for hook, function in hooks.items():
        setattr(module, hook, ctrlhost.hookimpl(function))
    return module


def config_maps(seen: list[str], changed: threading.Condition | None = None, **options: object) -> Callable[..., None]:
    def reconcile(_ctx: ctrlhost.Context, request: ctrlhost.Request) -> None:
        seen.append(request.name)
        if changed is not None:
            with changed:
                changed.notify_all()

    def ctrlhost_setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("all", reconcile, ctrlhost.For("v1", "ConfigMap", namespaces=["default"]), **options)

    return ctrlhost_setup


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as server:
        yield server


@pytest.fixture
def make_host(sandbox):
    hosts = []

    def make(*plugins, tree=None, **settings):
        host = Host(
            HostSettings(**{"listen": "", **settings}),
            plugins,
            configuration=Configuration({"host": {}, "plugins": {}, "controllers": {}, **(tree or {})}, "test.toml"),
            sandbox=sandbox,
        )
        hosts.append(host)
        return host

    yield make
    for host in hosts:
        host.stop(LIMIT)
        if host.client is not None:
            host.client.close()


def state(host: Host, name: str) -> tuple[str, str]:
    (runtime,) = [plugin for plugin in host.plugins if plugin.name == name]
    return runtime.state, runtime.reason


def test_two_hosts_in_one_process_run_the_same_plugin_side_by_side(make_host, sandbox):
    first_seen, second_seen = [], []
    first = make_host(plugin("one", ctrlhost_setup=config_maps(first_seen)))
    second = make_host(plugin("one", ctrlhost_setup=config_maps(second_seen)))
    for host in (first, second):
        host.start()
        assert host.wait_ready(LIMIT)
        assert state(host, "one") == ("running", "")
    assert first.stop(LIMIT)
    assert state(first, "one") == ("stopped", "")
    assert state(second, "one") == ("running", "")
    changed = threading.Condition()
    third_seen = []
    third = make_host(plugin("one", ctrlhost_setup=config_maps(third_seen, changed)))
    third.start()
    client = ctrlhost.Client.load(sandbox.kubeconfig)
    client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "side", "namespace": "default"}})
    with changed:
        assert changed.wait_for(lambda: "side" in third_seen, LIMIT)
    assert "side" not in first_seen
    client.close()


def test_hooks_are_called_in_the_order_of_the_contract(make_host):
    calls, running = [], threading.Event()

    def note(name):
        return lambda plugin: calls.append(name)

    def ctrlhost_setup(plugin):
        calls.append("setup")
        plugin.add_task("task", lambda stop: (calls.append("task"), running.set()))

    host = make_host(
        plugin(
            "ordered",
            ctrlhost_settings=lambda: calls.append("settings"),
            ctrlhost_crds=lambda: calls.append("crds") or [],
            ctrlhost_setup=ctrlhost_setup,
            ctrlhost_synced=note("synced"),
            ctrlhost_elected=note("elected"),
            ctrlhost_deposed=note("deposed"),
            ctrlhost_stopping=note("stopping"),
        )
    )
    host.start()
    assert running.wait(LIMIT)
    assert host.stop(LIMIT)
    assert calls == ["settings", "setup", "crds", "synced", "elected", "task", "stopping"]


def test_no_worker_runs_before_the_plugin_has_prepared(make_host, sandbox):
    client = ctrlhost.Client.load(sandbox.kubeconfig)
    client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "early", "namespace": "default"}})
    seen, at_synced, changed = [], [], threading.Condition()
    host = make_host(
        plugin(
            "p", ctrlhost_setup=config_maps(seen, changed), ctrlhost_synced=lambda plugin: at_synced.append(list(seen))
        )
    )
    host.start()
    with changed:
        assert changed.wait_for(lambda: "early" in seen, LIMIT)
    assert at_synced == [[]]
    client.close()


def test_controllers_that_need_leadership_wait_for_it_and_others_do_not(make_host):
    calls, changed = [], threading.Condition()

    def note(name):
        def call(_):
            with changed:
                calls.append(name)
                changed.notify_all()

        return call

    def ctrlhost_setup(plugin):
        plugin.add_task("anywhere", note("anywhere"))
        plugin.add_task("leader", note("leader"), needs_leader=True)

    host = make_host(
        plugin(
            "p",
            ctrlhost_setup=ctrlhost_setup,
            ctrlhost_elected=lambda plugin: note("elected")(plugin),
            ctrlhost_deposed=lambda plugin: note("deposed")(plugin),
        )
    )
    host._tenure.end()
    host.start()
    with changed:
        assert changed.wait_for(lambda: calls == ["anywhere"], LIMIT)
    assert host.wait_ready(LIMIT)
    host._tenure.begin(float("inf"))
    with changed:
        assert changed.wait_for(lambda: calls == ["anywhere", "elected", "leader"], LIMIT)
    host._tenure.end()
    with changed:
        assert changed.wait_for(lambda: calls[-1] == "deposed", LIMIT)


def test_a_plugin_that_fails_to_prepare_runs_no_worker(make_host):
    seen = []

    def ctrlhost_synced(plugin):
        raise RuntimeError("no peers")

    bad = plugin("bad", ctrlhost_setup=config_maps(seen), ctrlhost_synced=ctrlhost_synced)
    host = make_host(bad, tree={"supervision": {"restart_limit": 0}})
    host.start()
    assert host.wait_ready(LIMIT)
    assert state(host, "bad")[0] == "failed"
    assert "ctrlhost_synced: RuntimeError: no peers (tests/unit/host/test_host.py:" in state(host, "bad")[1]
    assert seen == []
    assert host.stop(LIMIT)
    assert state(host, "bad")[0] == "failed"


def test_a_failed_plugin_uses_no_informer(make_host):
    def ctrlhost_setup(plugin):
        plugin.informer("v1", "Secret")
        config_maps([])(plugin)

    def ctrlhost_synced(plugin):
        raise RuntimeError("no peers")

    host = make_host(
        plugin("bad", ctrlhost_setup=ctrlhost_setup, ctrlhost_synced=ctrlhost_synced),
        plugin("worse", ctrlhost_setup=lambda plugin: [plugin.informer("v1", "Pod"), 1 / 0]),
        tree={"supervision": {"restart_limit": 0}},
    )
    host.start()
    assert host.wait_ready(LIMIT)
    assert host.factory is not None
    factory = host.factory
    eventually(lambda: factory.informers() == [])


def test_what_only_a_failed_plugin_wanted_is_not_watched_for_others(make_host):
    host = make_host(
        plugin("bad", ctrlhost_setup=lambda plugin: [plugin.informer("v1", "ConfigMap"), 1 / 0]),
        plugin("good", ctrlhost_setup=config_maps([])),
        tree={"supervision": {"restart_limit": 0}},
    )
    host.start()
    assert host.wait_ready(LIMIT)
    assert [plugin.state for plugin in host.plugins] == ["failed", "running"]
    assert host.factory is not None
    scopes = [informer.scope for informer in host.factory.informers()]
    assert [scope.namespaces for scope in scopes if scope.kind == "ConfigMap"] == [("default",)]


def test_the_second_of_two_plugins_with_one_name_fails(make_host):
    first, second = plugin("same", ctrlhost_crds=list_nothing), plugin("same", ctrlhost_crds=list_nothing)
    host = make_host(first, second)
    host.start()
    assert host.wait_ready(LIMIT)
    assert [plugin.state for plugin in host.plugins] == ["running", "failed"]
    assert "another plugin of this name" in host.plugins[1].reason


def test_a_plugin_named_twice_is_loaded_once(make_host):
    same = plugin("same", ctrlhost_crds=list_nothing)
    assert len(make_host(same, same).plugins) == 1
    assert len(make_host("naming", "naming").plugins) == 1


def test_an_unknown_plugin_is_refused_before_the_start(make_host):
    with pytest.raises(PluginNotFound, match="plugin `nowhere` is not installed"):
        make_host("nowhere").start()


def test_settings_of_plugins_are_validated_against_their_types(make_host):
    host = make_host(plugin("p", ctrlhost_crds=list_nothing), tree={"plugins": {"p": {"size": 3}}})
    with pytest.raises(ConfigError, match=r"plugins\.p\.size: the plugin `p` has no settings \(in test\.toml\)"):
        host.start()


def test_an_override_changes_the_controller(make_host):
    tree = {"controllers": {"p/all": {"workers": 3, "namespaces": ["kube-system"]}}}
    host = make_host(plugin("p", ctrlhost_setup=config_maps([])), tree=tree)
    host.start()
    assert host.wait_ready(LIMIT)
    (controller,) = host.plugins[0].controllers
    assert controller.status().workers == 3


@pytest.mark.parametrize(("name", "hint"), [("none", "known: p/all"), ("al", "did you mean `p/all`?")])
def test_an_override_of_an_unknown_controller_is_refused(make_host, name, hint):
    tree = {"controllers": {f"p/{name}": {"workers": 3}}}
    host = make_host(plugin("p", ctrlhost_setup=config_maps([])), tree=tree)
    with pytest.raises(
        ConfigError, match=rf"controllers\.p/{name}: plugin `p` has no controller of this name"
    ) as refused:
        host.start()
    assert refused.value.hint == hint


def test_a_stopped_host_stays_stopped(make_host):
    host = make_host(plugin("p", ctrlhost_setup=config_maps([])))
    host.start()
    assert host.stop(LIMIT)
    assert host.stop(0)
    assert host.wait_ready(LIMIT)


def test_plugins_may_have_health_checks_and_pages(make_host):
    healthy = threading.Event()

    def check():
        if not healthy.is_set():
            raise RuntimeError("no peers")

    def ctrlhost_setup(plugin):
        plugin.add_health_check("peers", check)
        plugin.add_page("/status", "an app")

    host = make_host(plugin("p", ctrlhost_setup=ctrlhost_setup))
    host.start()
    assert host.wait_ready(LIMIT)
    failed = {entry.name: entry.detail for entry in host.inspection.checks("healthz") if not entry.passed}
    assert failed == {"p/peers": "RuntimeError: no peers"}
    assert all(entry.passed for entry in host.inspection.checks("readyz"))
    healthy.set()
    assert all(entry.passed for entry in host.inspection.checks("healthz"))
    assert list(host.inspection.pages()["p"]) == ["/status"]


def test_a_host_without_a_server_opens_no_port(make_host):
    host = make_host(plugin("p", ctrlhost_crds=list_nothing))
    host.start()
    assert host.address is None


def list_nothing():
    return []


def test_a_namespace_limit_applies_to_informers_and_not_to_cluster_scoped_kinds(make_host):
    def ctrlhost_setup(plugin):
        plugin.informer("v1", "Secret")
        plugin.informer("v1", "Node")
        plugin.add_controller("nodes", lambda ctx, request: None, ctrlhost.For("v1", "Namespace"))

    host = make_host(plugin("p", ctrlhost_setup=ctrlhost_setup), namespaces=("default", "kube-system"))
    host.start()
    assert host.wait_ready(LIMIT)
    assert host.factory is not None
    scopes = {informer.scope.kind: informer.scope.namespaces for informer in host.factory.informers()}
    assert scopes == {"Secret": ("default", "kube-system"), "Node": None, "Namespace": None}
