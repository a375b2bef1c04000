"""An isolated plugin works as it does in the host: its reads, writes, events, listeners and log."""

from __future__ import annotations

import json
import os
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

from ctrlhost import Client
from tests.host.conftest import StartHost
from tests.support.host_process import LIMIT, HostProcess
from tests.support.isolated_plugins import child_of
from tests.support.plugin_modules import config_map
from tests.support.waiting import create_eventually, eventually

EVERYTHING = """
    import json
    import ctrlhost

    def team(obj):
        return [obj.get_path("data", "team", default="none")]

    def small(obj):
        metadata = {"name": obj.name, "namespace": obj.namespace, "resourceVersion": obj.resource_version}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"only": obj.namespace}}

    def to_config_map(service):
        return [ctrlhost.Request(service.name, service.namespace)]

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_controller(
            "maps",
            reconcile,
            ctrlhost.For("v1", "ConfigMap", label_selector="mine=1", namespaces=["label:team=a"],
                         indexes={"team": team, "path": "data.team"}),
            ctrlhost.Owns("v1", "Secret"),
            ctrlhost.Watches("v1", "Service", map=to_config_map, reads=["spec.ports"]),
            ctrlhost.Watches("v1", "Pod", map=ctrlhost.ByLabel("of"), reads="metadata"),
        )
        plugin.add_controller("accounts", reconcile_async, ctrlhost.For("v1", "ServiceAccount", label_selector="mine"))
        shrunk = plugin.informer("v1", "ConfigMap", label_selector="mine=1", transform=small)
        plain = plugin.informer("v1", "ConfigMap", label_selector="mine=1")

        async def app(scope, receive, send):
            listed = {
                "shrunk": sorted((obj.namespace, obj.name, obj["data"]["only"]) for obj in shrunk.lister.list()),
                "plain": sorted((obj.namespace, obj.name) for obj in plain.lister.list()),
            }
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": json.dumps(listed).encode()})

        plugin.add_listener("127.0.0.1:0", app)
        plugin.add_task("once", lambda stop: plugin.log.info("task runs"))

    def reconcile(ctx, request):
        obj = ctx.get(request)
        if obj is None:
            ctx.log.info("gone: %s", request.name)
            return
        maps = ctx.lister("v1", "ConfigMap")
        by_function = sorted(item.name for item in maps.by_index("team", obj["data"]["team"]))
        by_path = sorted(item.name for item in maps.by_index("path", obj["data"]["team"]))
        services, pods = (ctx.lister("v1", kind).list(request.namespace) for kind in ("Service", "Pod"))
        ports = [service.get_path("spec", "ports", 0, "port") for service in services]
        pods = [pod.name for pod in pods]
        ctx.log.info("reconciled: %s team %s %s services %s pods %s", request.name, by_function, by_path, ports, pods)
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": obj.name, "uid": obj.uid, "controller": True}
        metadata = {"name": f"of-{obj.name}", "namespace": obj.namespace, "ownerReferences": [owner]}
        ctx.client.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
        ctx.events.normal(obj, "Seen", "the plugin has seen it")

    async def reconcile_async(ctx, request):
        account = await ctx.async_client.get("v1", "ServiceAccount", request.name, request.namespace)
        ctx.log.info("async: %s", account["metadata"]["name"])
"""

LOGS = """
    import logging, os, sys, warnings
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        import structlog
        plugin.log.info("line: of the plugin")
        logging.getLogger("library").warning("line: of a library")
        logging.getLogger("ctrlhost.test").warning("line: of the host's code")
        logging.getLogger("urllib3").error("line: of urllib3")
        logging.warning("line: of the root")
        structlog.get_logger("own").warning("line: of structlog")
        plugin.add_controller("c", reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="mine=1"))
        plugin.add_task("once", lambda stop: plugin.log.info("line: of a task"))

    def reconcile(ctx, request):
        ctx.log.info("line: of a reconcile")
        raise ValueError("line: an error")
"""

COMPUTES = """
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_controller("c", reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="mine=1"), workers=4)

    def reconcile(ctx, request):
        ctx.log.info("computes: %s", request.name)
        while not ctx.stopping:
            pass
"""

GOOD = """
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_controller("all", reconcile, ctrlhost.For("v1", "ConfigMap"))

    def reconcile(ctx, request):
        ctx.log.info("good saw %s", request.name)
"""


def owned_by_plugin(client: Client, name: str, namespace: str) -> bool:
    return client.find("v1", "Secret", f"of-{name}", namespace) is not None


def labelled(name: str, namespace: str, team: str) -> dict[str, Any]:
    return {**config_map(name, namespace, labels={"mine": "1"}), "data": {"team": team}}


@pytest.mark.parametrize("isolated", [(), ("--isolate=bad",)], ids=["in the host", "isolated"])
def test_all_that_a_plugin_does(
    distributions: Any, start_host: StartHost, sandbox: Any, isolated: tuple[str, ...]
) -> None:
    distributions.add("bad", EVERYTHING)
    client = Client.load(sandbox.kubeconfig)
    for name, team in (("one", "a"), ("two", "b")):
        metadata = {"name": name, "labels": {"team": team}}
        client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    host = start_host(f"--kubeconfig={sandbox.kubeconfig}", *isolated, plugins="bad")
    host.line("plugin bad running")
    host.line("task runs")
    client.create(labelled("x", "one", "red"))
    client.create(labelled("y", "two", "red"))
    host.line("reconciled: x team ['x'] ['x'] services [] pods []")
    eventually(lambda: owned_by_plugin(client, "x", "one"), LIMIT)
    client.delete("v1", "Secret", "of-x", "one")
    # Its owner is reconciled.
    eventually(lambda: owned_by_plugin(client, "x", "one"), LIMIT)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x", "namespace": "one"}}
    client.create({**service, "spec": {"ports": [{"port": 8080}]}})
    host.line("reconciled: x team ['x'] ['x'] services [8080] pods []")
    labels = {"of": "x"}
    create_eventually(
        client,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "one", "labels": labels},
            "spec": {"containers": [{"name": "main", "image": "image"}]},
        },
    )
    host.line("reconciled: x team ['x'] ['x'] services [8080] pods ['p']")
    assert "reconciled: y" not in host.text
    # A namespace enters the selection, and leaves it.
    space = client.get("v1", "Namespace", "two")
    client.replace({**space, "metadata": {**space["metadata"], "labels": {"team": "a"}}})
    host.line("reconciled: y team ['x', 'y'] ['x', 'y']")
    space = client.get("v1", "Namespace", "two")
    client.replace({**space, "metadata": {**space["metadata"], "labels": {"team": "b"}}})
    host.line("gone: y")
    account = {"name": "someone", "namespace": "one", "labels": {"mine": "1"}}
    client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    host.line("async: someone")
    address = host.line("plugin bad listens on http://")["msg"].rpartition(" ")[2]
    with urllib.request.urlopen(address, timeout=LIMIT) as answer:
        body = json.loads(answer.read())
    assert body == {
        "shrunk": [["one", "x", "one"], ["two", "y", "two"]],
        "plain": [["one", "x"], ["two", "y"]],
    }
    seen = eventually(
        lambda: [event for event in client.list("events.k8s.io/v1", "Event") if event["reason"] == "Seen"], LIMIT
    )
    assert {event["regarding"]["name"] for event in seen} <= {"x", "y"}
    assert ("pid" in host.line("async: someone")) == bool(isolated)
    client.delete("v1", "ConfigMap", "x", "one")
    host.line("gone: x")
    client.close()
    assert host.stop() == 0
    assert not [line for line in host.lines if line["level"] == "error"], host.text


def test_a_process_writes_with_the_account_of_its_plugin(
    distributions: Any, start_host: StartHost, tmp_path: Path
) -> None:
    distributions.add("bad", EVERYTHING)
    distributions.add("good", EVERYTHING)
    with Sandbox(rbac=True) as sandbox:
        client = Client.load(sandbox.kubeconfig)
        client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "one", "labels": {"team": "a"}}})
        own = sandbox.kubeconfig_for(user="somebody", groups=["system:masters"])
        host = start_host(
            f"--kubeconfig={sandbox.kubeconfig}",
            f"--set=supervision.bad.kubeconfig={own}",
            "--isolate=bad,good",
            plugins="bad,good",
        )
        client.create(labelled("x", "one", "red"))

        def users() -> set[str]:
            return {record.user for record in sandbox.audit if record.resource == "secrets"}

        eventually(lambda: len(users()) == 2, LIMIT)
        assert "somebody" in users()
        client.close()
        assert host.stop() == 0


@pytest.mark.parametrize("form", ["json", "console"])
def test_each_line_of_the_log_names_the_plugin_and_the_process(
    distributions: Any, start_host: StartHost, sandbox: Any, form: str
) -> None:
    distributions.add("bad", LOGS)
    distributions.add("good", LOGS.replace("line: ", "other: "))
    host = start_host(
        f"--kubeconfig={sandbox.kubeconfig}", "--isolate=bad", f"--set=host.log_format={form}", plugins="bad,good"
    )
    client = Client.load(sandbox.kubeconfig)
    client.create(config_map("x", labels={"mine": "1"}))
    client.close()
    parts = ("the plugin", "a library", "the host's code", "urllib3", "the root", "structlog", "a task", "a reconcile")
    lines = [host.line(f"line: of {part}") for part in parts]
    assert host.stop() == 0
    if form == "json":
        child = child_of(lines[0])
        assert child != host.pid
        assert {(line["plugin"], line["pid"]) for line in lines} == {("bad", child)}
        failed = [line for line in host.lines if "line: an error" in json.dumps(line)]
        assert failed
        assert {(line["plugin"], line["pid"]) for line in failed} == {("bad", child)}
        # Not only those of the plugin.
        assert len([line for line in host.lines if line.get("pid") == child]) > len(lines) + len(failed)
        assert not [line for line in host.lines if "other: " in line["msg"] and "pid" in line]
    else:
        number = lines[0]["msg"].partition("pid=")[2].split()[0]
        assert all(f" pid={number}" in line["msg"] for line in lines)
        # The host's own lines say in their text what they are about.
        anonymous = [
            part for part, line in zip(parts, lines, strict=True) if not re.search(" bad(/c .*)?: ", line["msg"])
        ]
        assert anonymous == ["the host's code"]


def processor_seconds(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@pytest.mark.behaviour("supervision/PI4")
def test_a_process_that_computes_costs_the_host_nothing(
    distributions: Any, start_host: StartHost, sandbox: Any
) -> None:
    distributions.add("bad", COMPUTES)
    distributions.add("good", GOOD)
    client = Client.load(sandbox.kubeconfig)
    host: HostProcess = start_host(f"--kubeconfig={sandbox.kubeconfig}", "--isolate=bad", plugins="good,bad")
    for number in range(4):
        client.create(config_map(f"x{number}", labels={"mine": "1"}))
    lines = [host.line(f"computes: x{number}") for number in range(4)]
    (child,) = {child_of(line) for line in lines}
    theirs, ours = processor_seconds(child), processor_seconds(host.pid)
    names = [f"event-{number}" for number in range(20)]
    for name in names:
        client.create(config_map(name))
        host.line(f"good saw {name}")
    # By processor time, whatever else the machine does.
    eventually(lambda: processor_seconds(child) > theirs + 3, LIMIT, pause=0.05)
    spent, used = processor_seconds(host.pid) - ours, processor_seconds(child) - theirs
    assert spent < used / 4
    assert host.get("/readyz")[0] == 200
    assert "no heartbeat" not in host.text
    assert (host.metric("ctrlhost_plugin_cpu_seconds_total", plugin="bad") or 0) > 3
    assert host.stop() == 0
    client.close()
