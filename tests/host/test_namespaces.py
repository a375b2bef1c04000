"""Hosts and controllers limited to namespaces, on a real API server."""

from __future__ import annotations

from typing import Any

import pytest

import ctrlhost
from ctrlhost import For, Owns, Request, Watches
from tests.support.objects import crd
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.reconcilers import controller
from tests.support.waiting import eventually

CRD = crd("host.test", "Zone", "Cluster")


def zone(name: str) -> dict[str, Any]:
    return {"apiVersion": "host.test/v1", "kind": "Zone", "metadata": {"name": name}}


def namespace(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


class Seen(list[str]):
    """A reconciler that records its keys, and whether the object exists."""

    def __call__(self, ctx: ctrlhost.Context, request: Request) -> None:
        sign = "" if ctx.get(request) is not None else "no "
        self.append(f"{sign}{request.namespace}/{request.name}")


@pytest.mark.parametrize("where", ["host", "controller", "source"])
def test_a_controller_follows_the_namespaces_that_have_the_label(ctrlhost_host, where: str) -> None:
    seen, chosen = Seen(), ("label:team=a",)
    source = For("v1", "ConfigMap", label_selector="mine", namespaces=chosen if where == "source" else None)
    overrides = {"demo/c": {"namespaces": list(chosen)}} if where == "controller" else {}
    host = ctrlhost_host(controller(seen, source), namespaces=chosen if where == "host" else (), controllers=overrides)
    for name, labels in (("one", {"team": "a"}), ("two", {})):
        host.client.create(namespace(name, **labels))
        host.client.create(config_map("x", name, labels={"mine": "1"}))
    host.run_until_idle()
    assert seen == ["one/x"]
    host.client.patch("v1", "Namespace", "two", None, {"metadata": {"labels": {"team": "a"}}})
    host.run_until_idle()
    assert seen == ["one/x", "two/x"]
    host.client.patch("v1", "Namespace", "one", None, {"metadata": {"labels": {"team": None}}})
    host.run_until_idle()
    assert seen == ["one/x", "two/x", "no one/x"]
    # The controller gets no events of other namespaces.
    host.client.create(config_map("y", "one", labels={"mine": "1"}))
    host.run_until_idle()
    assert len(seen) == 3


def test_an_own_write_to_an_unwatched_namespace_does_not_block_lists(ctrlhost_host) -> None:
    lists: list[list[str]] = []

    def write(ctx: ctrlhost.Context, request: Request) -> None:
        if ctx.client.find("v1", "ConfigMap", "copy", "elsewhere") is None:
            ctx.client.create(config_map("copy", "elsewhere", labels={"mine": "1"}))
        lists.append([obj.key for obj in ctx.lister("v1", "ConfigMap").list()])

    host = ctrlhost_host(controller(write, For("v1", "ConfigMap", label_selector="mine", namespaces=["team-*"])))
    host.client.create(namespace("elsewhere"))
    host.client.create(namespace("team-a"))
    host.client.create(config_map("x", "team-a", labels={"mine": "1"}))
    host.run_until_idle()
    assert lists == [["team-a/x"]]
    assert host.controllers["demo/c"].status().last_error is None


@pytest.mark.parametrize("known", [True, False])
def test_a_namespace_limit_adds_no_informer_of_a_cluster_scoped_custom_kind(
    ctrlhost_host, sandbox, known: bool
) -> None:
    seen = Seen()
    hooks: dict[str, Any] = {"crds": lambda: [CRD]} if known else {}

    def idle(ctx: ctrlhost.Context, request: Request) -> None:
        pass

    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("c", seen, For("host.test/v1", "Zone"), Owns("v1", "ConfigMap"))
        plugin.add_controller("d", idle, Watches("host.test/v1", "Zone", map=lambda obj: [Request("d")]))

    host = ctrlhost_host(plugin_of(setup, **hooks), namespaces=("default", "kube-system"))
    if not known:
        # The host cannot know in advance that another vendor's kind is cluster-scoped.
        host.client.create(CRD)
    eventually(lambda: all(controller.has_synced() for controller in host.controllers.values()))
    host.client.create(zone("a"))
    host.run_until_idle()
    eventually(lambda: "/a" in seen)
    (informer,) = [entry for entry in host.host.factory.informers() if entry.kind == "Zone"]
    eventually(lambda: len(informer.parts) == 1)
    assert [obj.name for obj in informer.lister.list()] == ["a"]
    assert seen == ["/a"]
