"""The audit log: a line for each write of plugins, which no reconcile waits for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost.controller.audit_file import AuditFile
from tests.host.conftest import Distributions, StartHost
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour
FIELDS = {
    *("time", "plugin", "controller", "key", "run", "verb", "resource", "namespace", "name", "fields", "more"),
    "outcome",
}
SECRET = "the-value-of-a-secret"
WIDE = {f"k{number}": "v" for number in range(60)}

#: The limit of the size of files lets a part of the second line through, as a full disk does.
TORN = """
import resource, sys, time
from ctrlhost.controller import audit_file
audit_file._RETRY = 0
resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
audit = audit_file.AuditFile(sys.argv[1])
audit.put(b'{"n":1}\\n')
audit.put(b'{"n":2}\\n')
while not audit._lost:
    time.sleep(0.01)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
audit.put(b'{"n":3}\\n')
audit.close()
"""


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def write_all(client: ctrlhost.Client) -> None:
    """Make a write of each kind."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}
    client.create({**secret, "stringData": {"password": SECRET}})
    client.apply(config_map("applied", a="1", b="2"))
    made = client.create(config_map("made", x="1", y="2"))
    client.replace({**made, "data": {"x": "1", "y": "3"}})
    client.patch("v1", "ConfigMap", "made", "default", {"data": {"x": None, "z": "4"}})
    change = [{"op": "test", "path": "/data/z", "value": "4"}, {"op": "replace", "path": "/data/z", "value": SECRET}]
    client.patch("v1", "ConfigMap", "made", "default", change, type="json")
    client.create(config_map("wide", **WIDE))
    with pytest.raises(ctrlhost.AlreadyExists):
        client.create(config_map("made"))
    client.delete("v1", "ConfigMap", "made", "default")
    client.delete_collection("v1", "ConfigMap", "default", label_selector="none")
    client.get("v1", "ConfigMap", "applied", "default")


@behaviour("oncall/OC32")
def test_each_write_is_a_line_without_values(
    sandbox: Sandbox, ctrlhost_host: Callable[..., Any], tmp_path: Path
) -> None:
    path, ends = tmp_path / "audit.log", threading.Event()

    def reconcile(ctx: ctrlhost.Context, _request: ctrlhost.Request) -> None:
        try:
            write_all(ctx.client)
        finally:
            ends.set()

    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("c", reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="go"))
        plugin.add_task("task", lambda _stop: plugin.client.create(config_map("of-a-task")))

    host = ctrlhost_host(plugin_of(setup), sandbox=sandbox, audit_log=str(path))
    host.client.create(config_map("go", labels={"go": ""}))
    assert ends.wait(60)
    eventually(lambda: len(lines(path)) >= 11, 60, "eleven lines")
    by_task, of_run = [], []
    for line in lines(path):
        assert line.keys() == FIELDS
        assert datetime.fromisoformat(line["time"]).tzinfo is not None
        assert (line["plugin"], line["namespace"]) == ("demo", "default")
        (of_run if line["controller"] else by_task).append(line)
    assert [(line["key"], line["run"], line["verb"], line["name"]) for line in by_task] == [
        ("", "", "create", "of-a-task")
    ]
    assert {(line["controller"], line["key"]) for line in of_run} == {("demo/c", "default/go")}
    assert len({line["run"] for line in of_run}) == 1
    assert of_run[0]["run"] != ""
    written = [(line["verb"], line["resource"], line["name"], line["fields"], line["outcome"]) for line in of_run]
    assert written == [
        ("create", "secrets", "s", ["stringData.password"], "201"),
        ("apply", "configmaps", "applied", ["data.a", "data.b"], "201"),
        ("create", "configmaps", "made", ["data.x", "data.y"], "201"),
        ("update", "configmaps", "made", ["data.x", "data.y"], "200"),
        ("patch", "configmaps", "made", ["data.x", "data.z"], "200"),
        ("patch", "configmaps", "made", ["/data/z"], "200"),
        ("create", "configmaps", "wide", [f"data.k{number}" for number in range(50)], "201"),
        ("create", "configmaps", "made", ["data"], "409"),
        ("delete", "configmaps", "made", [], "200"),
        ("deletecollection", "configmaps", "", [], "200"),
    ]
    assert [line["more"] for line in of_run if line["name"] == "wide"] == [10]
    assert SECRET not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o640


@behaviour("oncall/OC32")
def test_a_replaced_object_of_a_cache_has_the_fields_that_change(
    sandbox: Sandbox, ctrlhost_host: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "audit.log"

    def reconcile(ctx: ctrlhost.Context, request: ctrlhost.Request) -> None:
        obj = ctx.get(request)
        if obj is not None and obj["data"].get("n") != "2":
            changed = obj.to_dict()
            ctx.client.replace({**changed, "data": {"n": "2", "kept": changed["data"]["kept"]}})

    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("c", reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="go"))

    host = ctrlhost_host(plugin_of(setup), sandbox=sandbox, audit_log=str(path))
    host.client.create(config_map("go", labels={"go": ""}, n="1", kept="k", gone="g"))
    eventually(lambda: lines(path), 60, "a line")
    (line,) = lines(path)
    assert (line["verb"], line["fields"], line["outcome"]) == ("update", ["data.n", "data.gone"], "200")


@behaviour("oncall/OC32")
@pytest.mark.parametrize("place", ["missing folder", "a folder", "a pipe without a reader"])
def test_a_path_that_cannot_be_written_is_one_line_and_stops_nothing(
    sandbox: Sandbox,
    ctrlhost_host: Callable[..., Any],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    place: str,
) -> None:
    path = tmp_path / "folder" / "audit.log"
    if place == "a folder":
        path.mkdir(parents=True)
    elif place != "missing folder":
        path.parent.mkdir()
        os.mkfifo(path)

    def reconcile(ctx: ctrlhost.Context, request: ctrlhost.Request) -> None:
        ctx.client.apply(config_map(f"{request.name}-written"))

    host = ctrlhost_host(
        plugin_of(
            lambda plugin: plugin.add_controller("c", reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="go"))
        ),
        sandbox=sandbox,
        audit_log=str(path),
    )
    for number in range(20):
        host.client.create(config_map(f"go-{number}", labels={"go": ""}))
    for number in range(20):
        name = f"go-{number}-written"
        eventually(lambda name=name: host.client.find("v1", "ConfigMap", name, "default"), 60, name)

    def told() -> list[str]:
        return [record.message for record in caplog.records if record.name == "ctrlhost.audit"]

    if place == "a pipe without a reader":
        assert told() == []
        return
    eventually(told, 60, "a line of the log")
    (line,) = told()
    assert line.startswith(f"audit log {path} cannot be written, and writes go on without it: ")
    if place == "missing folder":
        path.parent.mkdir()
        numbers = iter(range(10_000))

        def written() -> bool:
            host.client.create(config_map(f"later-{next(numbers)}", labels={"go": ""}))
            return bool(lines(path))

        eventually(written, 60, "a line in the file", pause=0.1)
        assert "is written again; lines lost: " in told()[1]
        assert len(told()) == 2


@behaviour("oncall/OC32")
def test_a_line_that_a_full_disk_has_cut_leaves_the_next_one_whole(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    subprocess.run([sys.executable, "-c", TORN, str(path)], check=True, timeout=60)
    assert path.read_text().splitlines() == ['{"n":1}', '{"', '{"n":3}']


@behaviour("oncall/OC32")
def test_lines_to_stderr_are_whole(capfd: pytest.CaptureFixture[str]) -> None:
    audit = AuditFile("stderr")
    for number in range(1000):
        audit.put(b'{"n":%d}\n' % number)
    audit.close()
    assert [json.loads(line)["n"] for line in capfd.readouterr().err.splitlines()] == list(range(1000))


#: Writes for each object that it is told to, in its own process or beside others.
WRITES = """
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        source = ctrlhost.For("v1", "ConfigMap", label_selector="go")
        plugin.add_controller("c", reconcile, source)

    def reconcile(ctx, request):
        if ctx.get(request) is not None:
            ctx.client.apply({"apiVersion": "v1", "kind": "ConfigMap", "data": {"by": ctx.plugin}, "metadata": {
                "name": f"{request.name}-{ctx.plugin}", "namespace": request.namespace}})
"""


@behaviour("oncall/OC32")
def test_all_processes_write_one_log_which_is_rotated(
    start_host: StartHost, distributions: Distributions, tmp_path: Path
) -> None:
    for name in ("inside", "apart"):
        distributions.add(name, WRITES)
    path = tmp_path / "audit.log"
    host = start_host("--sandbox", "--isolate=apart", f"--set=host.audit_log={path}", plugins="inside,apart")
    for name in ("inside", "apart"):
        host.line(f"plugin {name} running")
    client = ctrlhost.Client.load(host.kubeconfig)

    def plugins(name: str) -> list[str]:
        return sorted(line["plugin"] for line in lines(path) if line["key"] == f"default/{name}")

    client.create(config_map("one", labels={"go": ""}))
    eventually(lambda: plugins("one") == ["apart", "inside"], 60, "both processes write")
    rotated = tmp_path / "audit.log.1"
    path.rename(rotated)
    host.signal(signal.SIGHUP)
    host.line("settings reloaded")
    client.create(config_map("two", labels={"go": ""}))
    eventually(lambda: plugins("two") == ["apart", "inside"], 60, "both processes write to the new file")
    assert {line["key"] for line in lines(rotated)} == {"default/one"}
    assert {line["controller"] for line in lines(path)} == {"inside/c", "apart/c"}
