"""`ctrlhost dev`: the host is replaced when a source changes."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import textwrap
from typing import TYPE_CHECKING

import pytest
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost.authoring.start_objects import StartObjects
from ctrlhost.cli import execute
from tests.support.host_process import HostProcess
from tests.support.kubeconfigs import kubeconfig, written
from tests.support.objects import config_map
from tests.support.plugin_sources import to_greet
from tests.support.processes import children_of, processes
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.host.conftest import Distributions

SOURCE = """
    import subprocess

    import ctrlhost

    # A process that a careless plugin would leave behind.
    CHILD = subprocess.Popen(["sleep", "600"])

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_controller("greeter", reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="greet=yes"))

    def reconcile(ctx, request):
        ctx.log.info("%s: VERSION of %s with %s", request.name, ctx.get(request).uid, CHILD.pid)
        ctx.log.debug("a line of level debug")
"""
WIDGET = """
apiVersion: host.test/v1
kind: Widget
metadata: {name: w, namespace: default}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: ann, namespace: default, labels: {greet: "yes"}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: Ann_is_no_name, namespace: default}
"""


def write(file: Path, version: str, source: str = SOURCE) -> None:
    file.write_text(textwrap.dedent(source).replace("VERSION", version))


@pytest.fixture
def start_dev(distributions: Distributions) -> Iterator[Callable[..., HostProcess]]:
    running: list[HostProcess] = []

    def start(*arguments: str) -> HostProcess:
        running.append(HostProcess(*arguments, command="dev", environment=distributions.environment()))
        return running[-1]

    yield start
    for process in running:
        process.end()


def alive(pid: int) -> bool:
    return any(process.pid == pid and not process.zombie for process in processes())


@pytest.mark.behaviour("authoring/AN10")
def test_a_change_replaces_the_host_and_keeps_the_objects(tmp_path, start_dev):
    file, manifest = tmp_path / "greeter.py", tmp_path / "objects.yml"
    write(file, "one")
    manifest.write_text(WIDGET)
    dev = start_dev(str(file), f"--manifest={manifest}")
    dev.line("dev: applied ConfigMap ann")
    dev.line("ConfigMap Ann_is_no_name was not applied: ")
    uid = ctrlhost.Client.load(dev.kubeconfig).get("v1", "ConfigMap", "ann", "default")["metadata"]["uid"]
    first = dev.line(f"ann: one of {uid} with ")["msg"]
    dev.line("a line of level debug")
    (host,) = children_of(dev.pid)
    # As long as the other version: neither size nor second of the file may matter.
    write(file, "two")
    dev.line("greeter.py changed; starting anew")
    second = dev.line(f"ann: two of {uid} with ")["msg"]
    eventually(lambda: not alive(int(first.split()[-1])), 30, "the end of what the first host started")
    assert not alive(host.pid)
    (host,) = children_of(dev.pid)
    # One sandbox all the time: its kubeconfig is printed once.
    assert [line for line in dev.output if line.startswith("kubeconfig: ")] == [f"kubeconfig: {dev.kubeconfig}"]
    # A module beside the file is a source, too.
    (tmp_path / "further.py").write_text("")
    dev.line("further.py changed; starting anew")
    third = dev.wait_for(
        lambda: next((line["msg"] for line in dev.lines if ": two of" in line["msg"] and line["msg"] != second), None),
        "a run of the third host",
    )
    assert not alive(host.pid)
    (host,) = children_of(dev.pid)
    assert dev.stop() == 0
    assert not any(alive(pid) for pid in (host.pid, *(int(line.split()[-1]) for line in (second, third))))
    assert "applied Widget" not in dev.text


def test_a_start_object_of_a_kind_that_is_not_served_says_once_what_it_waits_for():
    widget = {"apiVersion": "host.test/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}}
    with Sandbox() as sandbox:
        impatient = StartObjects([widget, {**widget, "metadata": {"name": "v", "namespace": "default"}}], patience=0)
        patient = StartObjects([widget], patience=3600)
        for objects in (impatient, patient):
            objects.open(str(sandbox.kubeconfig), None)
        (line,) = impatient.apply()
        assert line.startswith("Widget w waits: ")
        assert "host.test/v1" in line
        assert impatient.apply() == patient.apply() == []
        for objects in (impatient, patient):
            objects.close()


def test_a_server_that_does_not_answer_is_asked_for_one_object_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("ctrlhost.authoring.start_objects._TIMEOUT", 0.1)
    objects = StartObjects([to_greet("ann"), to_greet("bob")], patience=0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        cluster = {"server": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        objects.open(str(written(tmp_path, kubeconfig(cluster))), None)
        (line,) = objects.apply()
        objects.close()
    assert line.startswith("ConfigMap ann waits: ")


def test_a_start_object_that_no_request_can_carry_is_told(tmp_path):
    (tmp_path / "odd.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: odd, namespace: 5}\n")
    objects = StartObjects.read([tmp_path / "odd.yaml"])
    with Sandbox() as sandbox:
        objects.open(str(sandbox.kubeconfig), None)
        (line,) = objects.apply()
        assert line.startswith("ConfigMap odd was not applied: ")
        assert objects.apply() == []
        objects.close()


@pytest.mark.behaviour("findings3/NB12")
def test_start_objects_may_be_in_lists_and_have_generated_names(tmp_path):
    items = "[{metadata: {name: a, namespace: default}}, {metadata: {generateName: b-, namespace: default}}]"
    (tmp_path / "list.yaml").write_text(f"{{apiVersion: v1, kind: ConfigMapList, items: {items}}}")
    (tmp_path / "more.yaml").write_text(f"{{kind: List, items: [{json.dumps(config_map('c'))}]}}")
    objects = StartObjects.read([tmp_path / "list.yaml", tmp_path / "more.yaml"])
    with Sandbox() as sandbox:
        objects.open(str(sandbox.kubeconfig), None)
        lines = objects.apply()
        assert lines[0::2] == ["applied ConfigMap a", "applied ConfigMap c"]
        assert re.fullmatch("applied ConfigMap b-[a-z0-9]{5}", lines[1])
        assert objects.apply() == []
        client = ctrlhost.Client.load(str(sandbox.kubeconfig))
        names = {obj["metadata"]["name"] for obj in client.list("v1", "ConfigMap", "default")}
        assert names >= {"a", "c", lines[1].split()[-1]}
        objects.close()


def test_a_link_and_the_settings_of_a_deployment_run_on_the_sandbox(tmp_path, start_dev):
    write(tmp_path / "v1.py", "one")
    (tmp_path / "greeter.py").symlink_to("v1.py")
    (tmp_path / "ctrlhost.toml").write_text('[host]\nsandbox = true\ncontext = "production"\n')
    dev = start_dev(str(tmp_path / "greeter.py"), f"--config={tmp_path}/ctrlhost.toml")
    ctrlhost.Client.load(dev.kubeconfig).create(to_greet("ann"))
    dev.line("ann: one of ")
    assert dev.stop() == 0


def test_a_first_host_that_finds_an_invalid_command_line_ends_the_command(tmp_path, start_dev):
    file, taken = tmp_path / "greeter.py", socket.create_server(("127.0.0.1", 0))
    write(file, "one")
    with taken:
        port = taken.getsockname()[1]
        for option, message in (
            (f"--listen=127.0.0.1:{port}", f"error: host.listen: port {port} is in use"),
            (f"--kubeconfig={tmp_path}/none", f"kubeconfig {tmp_path}/none: No such file"),
        ):
            dev = start_dev(str(file), option)
            assert dev.process.wait(60) == 2
            dev.line(message)
            assert "waiting for a change" not in dev.text


@pytest.mark.behaviour("authoring/AN10")
def test_nothing_is_left_of_the_host_when_its_parent_is_killed(tmp_path, start_dev):
    file = tmp_path / "greeter.py"
    write(file, "one")
    dev = start_dev(str(file))
    ctrlhost.Client.load(dev.kubeconfig).create(to_greet("ann"))
    left = int(dev.line("ann: one of ")["msg"].split()[-1])
    (host,) = children_of(dev.pid)
    os.kill(dev.pid, signal.SIGKILL)
    eventually(lambda: not alive(host.pid), 30, "the end of the host")
    os.kill(left, signal.SIGKILL)


DECLARED = """
    import subprocess, sys

    import ctrlhost

    plugin = ctrlhost.Plugin()
    print("left", subprocess.Popen(["sleep", "600"]).pid, file=sys.stderr, flush=True)

    @plugin.controller("v1/ConfigMap")
    def reconcile(ctx): ...
"""
BROKEN = [
    (f"{SOURCE}\n    def broken(:\n", "SyntaxError: "),
    (f"{SOURCE}\n    @ctrlhost.hookimpl\n    def ctrlhost_sett(plugin): ...\n", "there is no hook `ctrlhost_sett`"),
    (DECLARED, "takes (ctx), but is called with (ctx, obj)"),
]


@pytest.mark.slow
@pytest.mark.behaviour("authoring/AN11")
def test_a_host_that_fails_waits_for_the_next_change(tmp_path, start_dev):
    file = tmp_path / "greeter.py"
    write(file, "good0")
    dev = start_dev(str(file))
    ctrlhost.Client.load(dev.kubeconfig).create(to_greet("ann"))
    dev.line("ann: good0 of ")
    for number in range(10):
        source, message = BROKEN[number % len(BROKEN)]
        before = len(dev.lines)
        write(file, f"bad{number}", source)
        failed = dev.line("plugin greeter failed at import", after=before)
        assert failed["exception"].startswith("Traceback (most recent call last)")
        assert message in failed["exception"]
        dev.line("the host ended with exit code 1; waiting for a change", after=before)
        assert children_of(dev.pid) == []
        # Nor is anything left that it has started, before the next change.
        left = [int(line["msg"].split()[1]) for line in dev.lines[before:] if line["msg"].startswith("left ")]
        assert len(left) == (source is DECLARED)
        eventually(lambda pids=left: not any(map(alive, pids)), 30, "the end of what the host has started")
        if number % 5 == 4:
            write(file, f"good{number}")
            dev.line(f"ann: good{number} of ", after=before)
    assert dev.stop() == 0


def test_the_command_line_is_checked_before_anything_starts(tmp_path, capsys):
    file, broken = tmp_path / "greeter.py", tmp_path / "broken.yaml"
    write(file, "one")
    broken.write_text("kind: ConfigMap\n")
    (tmp_path / "number.yaml").write_text("apiVersion: 1\nkind: ConfigMap\nmetadata: {name: a}\n")
    (tmp_path / "nameless.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ''}\n")
    (tmp_path / "broken.txt").write_text("a: [")
    for arguments, message in (
        ([], "no plugins selected; name a file"),
        ([str(tmp_path / "nothing.py")], "nothing.py: no such file"),
        (["--plugins=nowhere"], "plugin `nowhere` is not installed"),
        ([str(file), "--sandbox"], "`ctrlhost dev` runs on a sandbox anyway; leave --sandbox out"),
        ([str(file), "--context=x"], "--context has no effect without --kubeconfig"),
        ([str(file), "--install-crds"], "--install-crds has no effect without --kubeconfig"),
        (
            [str(file), f"--set=supervision.greeter.kubeconfig={tmp_path}/production"],
            "supervision.greeter.kubeconfig: the plugin would act on another cluster than the sandbox",
        ),
        ([str(file), f"--manifest={broken}"], f"{broken}: a document is no object"),
        ([str(file), f"--manifest={tmp_path}/number.yaml"], "number.yaml: a document is no object"),
        ([str(file), f"--manifest={tmp_path}/nameless.yaml"], "nameless.yaml: a document is no object"),
        ([str(file), f"--manifest={tmp_path}/broken.txt"], "broken.txt: invalid YAML"),
        ([str(file), f"--manifest={tmp_path}/none.yaml"], "none.yaml: No such file or directory"),
    ):
        assert execute(["dev", *arguments]) == 2
        printed = capsys.readouterr()
        assert message in printed.err
        assert printed.out == ""
