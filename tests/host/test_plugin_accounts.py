"""Plugins with a kubeconfig of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

import ctrlhost
from tests.support.elections import LIMIT, secret, written
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour


class Writer:
    """A plugin that writes a Secret for each ConfigMap, of which it has no rights of its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.plugin: Any = None

    def setup(self, plugin: ctrlhost.PluginContext) -> None:
        self.plugin = plugin
        plugin.add_controller("c", self.reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="mine"))

    def reconcile(self, ctx: ctrlhost.Context, request: ctrlhost.Request) -> None:
        ctx.client.apply(secret(f"{self.name}-{request.name}"))


@behaviour("supervision/CR8")
def test_plugins_write_with_accounts_of_their_own_and_share_the_watch_of_the_host(ctrlhost_host, tmp_path) -> None:
    log = tmp_path / "audit.log"
    with Sandbox(rbac=True, audit_log=log) as sandbox:
        first, second, third = Writer("one"), Writer("two"), Writer("three")
        accounts = {
            name: {"kubeconfig": str(sandbox.kubeconfig_for(user=name, groups=["system:masters"]))}
            for name in ("one", "two")
        }
        host = ctrlhost_host(
            *(plugin_of(writer.setup, writer.name) for writer in (first, second, third)),
            sandbox=sandbox,
            supervision=accounts,
        )
        host.client.create(config_map("x", labels={"mine": "1"}))
        eventually(lambda: len(written(host)) == 3, LIMIT)
        host.run_until_idle()
        users = {record.name: record.user for record in written(host)}
        administrator = users.pop("three-x")
        assert users == {"one-x": "one", "two-x": "two"}
        assert administrator not in ("one", "two")
        managers = {
            name: host.client.get("v1", "Secret", name, "default")["metadata"]["managedFields"][0]["manager"]
            for name in ("one-x", "two-x", "three-x")
        }
        assert managers == {"one-x": "ctrlhost-one", "two-x": "ctrlhost-two", "three-x": "ctrlhost-three"}
        assert first.plugin.client.get("v1", "ConfigMap", "x", "default")
        host.stop()
    requests = [json.loads(line) for line in log.read_text().splitlines()]
    watches = [
        (request["auditID"], request["user"]["username"])
        for request in requests
        if request["verb"] == "watch" and request["objectRef"]["resource"] == "configmaps"
    ]
    assert [user for _, user in dict.fromkeys(watches)] == [administrator]
    reads = [
        request for request in requests if request["verb"] == "get" and request.get("objectRef", {}).get("name") == "x"
    ]
    assert [read["user"]["username"] for read in reads] == ["one"]


@behaviour("supervision/CR9")
@pytest.mark.parametrize("content", [None, "no: [kubeconfig", "apiVersion: v1\nkind: Config\n"], ids=str)
def test_an_unusable_kubeconfig_fails_its_plugin_only(ctrlhost_host, tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "kubeconfig-of-bad"
    if content is not None:
        path.write_text(content)
    bad, good = Writer("bad"), Writer("good")
    host = ctrlhost_host(
        plugin_of(bad.setup, "bad"),
        plugin_of(good.setup, "good"),
        supervision={"bad": {"kubeconfig": str(path)}},
    )
    states = {plugin.name: plugin for plugin in host.host.plugins}
    assert states["bad"].state in ("failing", "failed")
    assert str(path) in states["bad"].reason
    assert "supervision.bad.kubeconfig" in states["bad"].reason
    assert bad.plugin is None
    assert states["good"].state == "running"
    host.client.create(config_map("x", labels={"mine": "1"}))
    eventually(lambda: [write.name for write in written(host)] == ["good-x"], LIMIT)


@behaviour("supervision/CR9")
def test_a_plugin_runs_when_its_kubeconfig_has_been_repaired(ctrlhost_host, sandbox, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig-of-bad"
    bad = Writer("bad")
    host = ctrlhost_host(
        plugin_of(bad.setup, "bad"),
        sandbox=sandbox,
        supervision={"bad": {"kubeconfig": str(path), "restart_delay": "10ms"}},
    )
    assert bad.plugin is None
    path.write_text(Path(sandbox.kubeconfig).read_text())
    eventually(lambda: host.host.plugins[0].state == "running", LIMIT)
    assert bad.plugin.client.find("v1", "Secret", "none", "default") is None
