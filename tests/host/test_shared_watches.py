"""The watches that a host opens: one for each resource and selection, whichever plugins ask for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost import For, Request
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.waiting import eventually

MAPS = "/api/v1/configmaps"


class Server:
    """A sandbox with namespaces `a` and `b`, and the watches that were opened at it."""

    def __init__(self, directory: Path) -> None:
        self._audit = directory / "audit"
        self.sandbox = Sandbox(audit_log=self._audit).start()
        self.client = ctrlhost.Client.load(self.sandbox.kubeconfig)
        for name in ("a", "b"):
            self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            self.client.create(config_map("red", name, labels={"color": "red"}))
            self.client.create(config_map("blue", name, labels={"color": "blue"}))

    def watches(self, resource: str) -> list[tuple[str, str, str]]:
        """Return path, label selector and field selector of the watches of a resource, without repetitions."""
        watches: dict[tuple[str, str, str], None] = {}
        for line in self._audit.read_text().splitlines():
            event = json.loads(line)
            if event["verb"] == "watch" and event["objectRef"]["resource"] == resource:
                url = urlsplit(event["requestURI"])
                query = parse_qs(url.query)
                selectors = (query.get(f"{name}Selector", [""])[0] for name in ("label", "field"))
                watches[url.path, *selectors] = None
        return sorted(watches)

    def opened(self, resource: str) -> int:
        """Return how many watches of a resource were opened."""
        lines = map(json.loads, self._audit.read_text().splitlines())
        return sum(line["verb"] == "watch" and line["objectRef"]["resource"] == resource for line in lines)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path)
    yield running
    running.client.close()
    running.sandbox.stop()


class Seen:
    """A plugin with a controller, which records the ConfigMaps that it sees."""

    def __init__(self, name: str, **scope: Any) -> None:
        self.seen: set[tuple[str, str]] = set()

        def reconcile(ctx: ctrlhost.Context, request: Request) -> None:
            if ctx.get(request) is not None:
                self.seen.add((request.namespace, request.name))

        source = For("v1", "ConfigMap", **scope)
        self.module = plugin_of(lambda plugin: plugin.add_controller("c", reconcile, source), name)

    def saw(self, *wanted: tuple[str, str]) -> None:
        eventually(lambda: {watch for watch in self.seen if "kube" not in str(watch)} == set(wanted), what=str(wanted))


RED_A, RED_B, BLUE_A, BLUE_B = (("a", "red"), ("b", "red"), ("a", "blue"), ("b", "blue"))


@pytest.mark.behaviour("operations/OP133")
def test_namespaces_of_two_plugins_are_watched_one_by_one_and_never_cluster_wide(ctrlhost_host, server) -> None:
    first, second = Seen("first", namespaces=["a"]), Seen("second", namespaces=["b"])
    ctrlhost_host(first.module, second.module, sandbox=server.sandbox)
    first.saw(RED_A, BLUE_A)
    second.saw(RED_B, BLUE_B)
    assert server.watches("configmaps") == [
        ("/api/v1/namespaces/a/configmaps", "", ""),
        ("/api/v1/namespaces/b/configmaps", "", ""),
    ]
    assert server.opened("configmaps") == 2


@pytest.mark.behaviour("operations/OP133")
@pytest.mark.parametrize("reverse", [False, True], ids=["narrow first", "wide first"])
def test_a_selection_that_another_plugin_covers_is_served_from_its_watch(ctrlhost_host, server, reverse) -> None:
    red, in_a, every = Seen("red", label_selector="color=red"), Seen("one", namespaces=["a"]), Seen("every")
    named = Seen("named", field_selector="metadata.name=blue,metadata.namespace=b")
    plugins = [red.module, in_a.module, named.module, every.module]
    ctrlhost_host(*(reversed(plugins) if reverse else plugins), sandbox=server.sandbox)
    red.saw(RED_A, RED_B)
    in_a.saw(RED_A, BLUE_A)
    named.saw(BLUE_B)
    every.saw(RED_A, BLUE_A, RED_B, BLUE_B)
    assert server.watches("configmaps") == [(MAPS, "", "")]
    assert server.opened("configmaps") == 1
    # Changes reach those whose selection they enter.
    server.client.create(config_map("new", "b", labels={"color": "red"}))
    red.saw(RED_A, RED_B, ("b", "new"))
    every.saw(RED_A, BLUE_A, RED_B, BLUE_B, ("b", "new"))
    in_a.saw(RED_A, BLUE_A)


@pytest.mark.behaviour("operations/OP133")
def test_one_selection_is_one_watch_that_keeps_what_either_plugin_reads(ctrlhost_host, server) -> None:
    parts: dict[str, Any] = {}

    def plugin(name: str, read: str) -> Any:
        def reconcile(ctx: ctrlhost.Context, request: Request) -> None:
            obj = ctx.get(request)
            parts[name] = None if obj is None else obj.get_path(*read.split("."))

        source = For("v1", "ConfigMap", namespaces=["a"], reads=[read.partition(".")[0]])
        return plugin_of(lambda plugin: plugin.add_controller("c", reconcile, source), name)

    server.client.create(config_map("full", "a", text="yes"))
    ctrlhost_host(plugin("data", "data.text"), plugin("more", "immutable"), sandbox=server.sandbox)
    eventually(lambda: set(parts) == {"data", "more"})
    assert server.opened("configmaps") == 1


def informers(host: Any) -> dict[str, Any]:
    """Return the informers of ConfigMaps by key."""
    return {informer.key: informer for informer in host.host.factory.informers() if informer.kind == "ConfigMap"}


@pytest.mark.behaviour("operations/OP134")
def test_transforms_and_field_selectors_that_only_the_server_knows_have_their_own_watches(
    ctrlhost_host, server
) -> None:
    handles: dict[str, list[Any]] = {}

    def slim(obj: Any) -> Any:
        return {**obj.to_dict(), "spec": {}}

    def another(obj: Any) -> Any:
        return {**obj.to_dict(), "spec": {}}

    def plugin(name: str, *scopes: dict[str, Any]) -> Any:
        def setup(plugin: ctrlhost.PluginContext) -> None:
            handles[name] = [plugin.informer("v1", "Pod", **scope) for scope in scopes]

        return plugin_of(setup, name)

    host = ctrlhost_host(
        plugin("one", {"transform": slim}, {"transform": slim}, {"transform": another}, {}),
        plugin("two", {"transform": slim}, {}),
        plugin("nodes", {"field_selector": "spec.nodeName=n"}),
        sandbox=server.sandbox,
    )
    eventually(lambda: all(of_plugin.has_synced for handle in handles.values() for of_plugin in handle))
    same, again, different, plain = (handle.key for handle in handles["one"])
    others, shared = (handle.key for handle in handles["two"])
    assert same == again
    assert plain == shared
    assert len({same, different, others, plain}) == 4
    # One without a transform, one for each function and plugin, and one for the selector.
    eventually(lambda: server.opened("pods") == 5)
    assert len(host.host.factory.informers()) == 5
    assert server.watches("pods") == [("/api/v1/pods", "", ""), ("/api/v1/pods", "", "spec.nodeName=n")]


@pytest.mark.behaviour("operations/OP134")
def test_the_rest_keep_the_wide_watch_and_their_cache_when_the_wide_user_goes(ctrlhost_host, server) -> None:
    narrow = Seen("narrow", namespaces=["a"])
    wide = Seen("wide")
    host = ctrlhost_host(narrow.module, wide.module, sandbox=server.sandbox)
    wide.saw(RED_A, BLUE_A, RED_B, BLUE_B)
    narrow.saw(RED_A, BLUE_A)
    before = {obj.key for obj in informers(host)["ConfigMap.v1 namespaces=a"].lister.list("a")}
    next(plugin for plugin in host.host.plugins if plugin.name == "wide").stop(5.0)
    eventually(lambda: informers(host)["ConfigMap.v1"].users == 1)
    assert {obj.key for obj in informers(host)["ConfigMap.v1 namespaces=a"].lister.list("a")} == before
    server.client.create(config_map("late", "a"))
    narrow.saw(RED_A, BLUE_A, ("a", "late"))
    assert server.watches("configmaps") == [(MAPS, "", "")]
    assert server.opened("configmaps") == 1


def test_a_wider_informer_that_comes_later_has_a_watch_of_its_own_and_the_status_says_so(ctrlhost_host, server) -> None:
    narrow = Seen("narrow", namespaces=["a"])
    host = ctrlhost_host(narrow.module, sandbox=server.sandbox, listen="127.0.0.1:0")
    narrow.saw(RED_A, BLUE_A)
    factory = host.host.factory
    wide = factory.informer("v1", "ConfigMap")
    joined = factory.informer("v1", "ConfigMap", namespaces=["a"])
    factory.start()
    eventually(lambda: wide.has_synced and joined.has_synced)
    assert server.watches("configmaps") == [("/api/v1/configmaps", "", ""), ("/api/v1/namespaces/a/configmaps", "", "")]
    assert server.opened("configmaps") == 2
    (line,) = [check for check in host.host.inspection.checks("readyz") if check.name == "informer/ConfigMap.v1"]
    assert line.passed
    assert line.detail.endswith("; has a watch of its own beside ConfigMap.v1 namespaces=a until the host starts again")


@pytest.mark.behaviour("operations/OP131")
@pytest.mark.parametrize(
    ("plugins", "labels"),
    [(["hostname"], "akash.network=true"), (["ingress-status"], ""), (["hostname", "ingress-status"], "")],
    ids=["hostname", "ingress-status", "both"],
)
def test_the_bundled_plugins_share_the_watch_of_ingresses(ctrlhost_host, server, plugins, labels) -> None:
    from ctrlhost_hostname import plugin

    for definition in plugin.ctrlhost_crds():
        server.client.create(definition)
    free = {"hostname": {"rest-address": "127.0.0.1", "rest-port": 0}}
    host = ctrlhost_host(*plugins, sandbox=server.sandbox, settings=free if "hostname" in plugins else {})
    assert all(plugin.controllers for plugin in host.host.plugins)
    eventually(lambda: server.watches("ingresses"))
    host.run_until_idle()
    assert server.watches("ingresses") == [("/apis/networking.k8s.io/v1/ingresses", labels, "")]
    assert server.opened("ingresses") == 1
