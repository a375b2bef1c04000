"""A dry run of a host: nothing changes, and the log says what would."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

import ctrlhost
from ctrlhost import Client, For, Request
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.plugin_sources import GREETER, WIDGETS, to_greet
from tests.support.reconcilers import controller

DRY = "dry run: would "


def state(client: Client) -> dict[str, str]:
    """Return the versions of all objects of some kinds."""
    kinds = [
        *(("v1", kind) for kind in ("ConfigMap", "Secret", "Service", "Namespace", "Pod", "Event")),
        *(("apps/v1", kind) for kind in ("Deployment", "StatefulSet")),
        ("coordination.k8s.io/v1", "Lease"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ]
    return {
        "/".join((kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])): obj["metadata"][
            "resourceVersion"
        ]
        for version, kind in kinds
        for obj in client.list(version, kind)
    }


def dry_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line.removeprefix(DRY) for line in caplog.messages if line.startswith(DRY)]


def test_each_verb_changes_nothing(ctrlhost_host: Any, sandbox: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ctrlhost.dry_run")
    client = Client.load(sandbox.kubeconfig)
    for name in ("own", "other"):
        client.create(config_map(name, labels={"mine": name}, a="1"))
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    metadata = {"name": "web", "namespace": "default"}
    client.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
    before, answers, read = state(client), {}, []

    def reconcile(ctx: ctrlhost.Context, request: Request) -> None:
        assert ctx.dry_run
        obj = ctx.get(request)
        assert obj is not None
        answers["create"] = ctx.client.create(config_map("new", a="1"), owner=obj)
        answers["replace"] = ctx.client.replace({**obj.to_dict(), "data": {"a": "2"}})
        # Own writes are not followed: the cache shows what is.
        read.append((ctx.get(request)["data"], len(ctx.lister("v1", "ConfigMap").list())))
        answers["patch"] = ctx.client.patch("v1", "ConfigMap", "other", "default", {"data": {"a": None}})
        applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own"}, "data": {"a": "3"}}
        answers["apply"] = ctx.client.apply(applied)
        scale = {"spec": {"replicas": 5}}
        answers["scale"] = ctx.client.patch("apps/v1", "Deployment", "web", "default", scale, subresource="scale")
        answers["delete"] = ctx.client.delete("v1", "ConfigMap", "other", "default")
        ctx.client.delete_collection("v1", "ConfigMap", "default", label_selector="mine")
        ctx.events.warning(obj, "Odd", "something is odd")

    host = ctrlhost_host(
        controller(reconcile, For("v1", "ConfigMap", label_selector="mine=own")), sandbox=sandbox, dry_run=True
    )
    host.run_until_idle()
    host.controllers["demo/c"].queue.add(Request("own", "default"))
    host.run_until_idle()
    assert host.controllers["demo/c"].status().runs == 2
    assert host.controllers["demo/c"].status().errors == 0
    assert state(client) == before
    assert answers["create"]["metadata"]["uid"]
    assert answers["replace"]["data"] == {"a": "2"}
    assert answers["apply"]["data"] == {"a": "3"}
    assert answers["scale"]["spec"]["replicas"] == 5
    assert read == [({"a": "1"}, 1)] * 2
    lines = dry_lines(caplog)
    assert len(lines) == len(set(lines)) == 8
    assert lines[0].startswith("create ConfigMap default/new: metadata.ownerReferences[0].apiVersion: ")
    assert lines[0].endswith('data.a: "1"')
    assert lines[1:] == [
        'update ConfigMap default/own: data.a: "1" -> "2"',
        'update ConfigMap default/other: data: {"a": "1"} -> (none)',
        'update ConfigMap default/own: data.a: "1" -> "3"',
        "update deployments default/web (scale): spec.replicas: 1 -> 5",
        "delete configmaps default/other",
        "delete all configmaps in default that match mine",
        "record event Warning Odd about ConfigMap default/own: something is odd",
    ]


def test_async_writes_and_those_of_tasks_have_no_effect(
    ctrlhost_host: Any, sandbox: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ctrlhost.dry_run")
    client = Client.load(sandbox.kubeconfig)
    client.create(config_map("own", labels={"mine": "own"}))
    before = state(client)

    async def reconcile(ctx: ctrlhost.Context, request: Request) -> None:
        await ctx.async_client.create(config_map("async", a="1"))

    def setup(plugin: ctrlhost.PluginContext) -> None:
        assert plugin.dry_run
        plugin.add_controller("c", reconcile, For("v1", "ConfigMap", label_selector="mine=own"))
        plugin.add_task("task", lambda stop: plugin.client.create(config_map("task", a="1")))
        plugin.add_task("replica", lambda stop: plugin.replica_client.create(config_map("replica", a="1")))

    host = ctrlhost_host(plugin_of(setup), sandbox=sandbox, dry_run=True)
    host.wait_for(lambda: len(dry_lines(caplog)) == 3)
    host.run_until_idle()
    assert sorted(dry_lines(caplog)) == [
        f'create ConfigMap default/{name}: data.a: "1"' for name in ("async", "replica", "task")
    ]
    assert state(client) == before


@pytest.mark.behaviour("operations/OP141")
def test_the_lead_and_the_crds_stay_and_the_sandbox_is_refused(
    start_host: Any, distributions: Any, ctrlhost: Any
) -> None:
    distributions.add("greeter", GREETER)
    distributions.add("widgets", WIDGETS)
    leader = start_host("--sandbox", "--leader-elect", "--namespace=none", plugins="greeter")
    leader.line("plugin greeter running")
    client = Client.load(leader.kubeconfig)
    client.create(to_greet("ann"))
    lease = leader.eventually(lambda: client.find("coordination.k8s.io/v1", "Lease", "ctrlhost", "default"), "Lease")
    holder = leader.eventually(
        lambda: client.get("coordination.k8s.io/v1", "Lease", "ctrlhost", "default")["spec"].get("holderIdentity"),
        "holder",
    )
    flags = (f"--kubeconfig={leader.kubeconfig}", "--leader-elect", "--install-crds", "--dry-run")
    host = start_host(*flags, plugins="greeter,widgets")
    # It acts as if it led.
    line = host.line('dry run: would create ConfigMap default/ann-greeting: data.greeting: "hello Ann"')
    assert (line["plugin"], line["key"]) == ("greeter", "default/ann")
    host.line("dry run: would create CustomResourceDefinition widgets.host.test: ", 'spec.group: "host.test"')
    host.line("plugin widgets waiting")
    assert "installed CRD" not in host.text
    assert host.stop() == 0
    after = client.get("coordination.k8s.io/v1", "Lease", "ctrlhost", "default")
    assert after["spec"]["holderIdentity"] == holder
    assert after["spec"]["leaseTransitions"] == lease["spec"].get("leaseTransitions", 0)
    assert client.find("apiextensions.k8s.io/v1", "CustomResourceDefinition", "widgets.host.test") is None
    assert client.find("v1", "ConfigMap", "ann-greeting", "default") is None
    assert not [obj for obj in client.list("coordination.k8s.io/v1", "Lease") if obj["metadata"]["name"] != "ctrlhost"]
    assert leader.stop() == 0
    for arguments in (["--dry-run", "--sandbox"], ["--sandbox", "--set=host.dry_run=true"]):
        refused = ctrlhost("run", "--plugins=greeter", *arguments)
        assert refused.returncode == 2
        assert "worth protecting" in refused.stderr
        assert "Traceback" not in refused.stderr


@pytest.mark.behaviour("operations/OP141")
def test_only_the_difference_of_an_installed_crd_is_shown(start_host: Any, distributions: Any) -> None:
    distributions.add("widgets", WIDGETS)
    first = start_host("--sandbox", plugins="widgets")
    first.line("plugin widgets running")
    client = Client.load(first.kubeconfig)
    name = "widgets.host.test"
    patch = {"spec": {"names": {"shortNames": ["wi"]}}}
    client.patch("apiextensions.k8s.io/v1", "CustomResourceDefinition", name, None, patch)
    before = client.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", name)
    distributions.add("gadgets", WIDGETS.replace('"singular": "widget"', '"singular": "widget", "categories": ["all"]'))
    host = start_host(f"--kubeconfig={first.kubeconfig}", "--install-crds", "--dry-run", plugins="gadgets")
    line = host.line(f"dry run: would update CustomResourceDefinition {name}: ")
    assert 'spec.names.categories: (none) -> ["all"]' in line["msg"]
    host.line("plugin gadgets running")
    assert "updated CRD" not in host.text
    assert host.stop() == 0
    assert client.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", name) == before
    assert first.stop() == 0


def test_an_isolated_plugin_writes_nothing_either(start_host: Any, distributions: Any) -> None:
    distributions.add("greeter", GREETER)
    first = start_host("--sandbox", "--namespace=none", plugins="greeter")
    client = Client.load(first.kubeconfig)
    client.create(to_greet("ann"))
    host = start_host(f"--kubeconfig={first.kubeconfig}", "--dry-run", "--isolate=greeter", plugins="greeter")
    host.line('dry run: would create ConfigMap default/ann-greeting: data.greeting: "hello Ann"')
    assert host.stop() == 0
    assert client.find("v1", "ConfigMap", "ann-greeting", "default") is None
    assert first.stop() == 0


@pytest.mark.behaviour("operations/OP139")
def test_no_line_of_a_dry_run_has_the_value_of_a_secret(
    ctrlhost_host: Any, sandbox: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client = Client.load(sandbox.kubeconfig)
    metadata = {"name": "web", "namespace": "default"}
    client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"p": "s3cr3t-old"}})

    def reconcile(ctx: ctrlhost.Context, request: Request) -> None:
        obj = ctx.get(request)
        if request.name != "web" or obj is None:
            return
        ctx.client.replace({**obj.to_dict(), "stringData": {"p": "s3cr3t-new"}})
        ctx.client.create(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "new"}, "stringData": {"p": "s3cr3t-more"}}
        )

    host = ctrlhost_host(controller(reconcile, For("v1", "Secret")), sandbox=sandbox, dry_run=True)
    host.run_until_idle()
    lines = dry_lines(caplog)
    assert lines == ["update Secret default/web: data.p: *** -> ***", "create Secret default/new: stringData.p: ***"]
    for value in ("s3cr3t", "czNjcjN0"):
        assert value not in caplog.text
    assert json.dumps(client.get("v1", "Secret", "web", "default")["data"]) == '{"p": "czNjcjN0LW9sZA=="}'
