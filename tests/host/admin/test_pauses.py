"""Pause and resume: runs end, none begins, events are merged."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost import Client, For, Request
from ctrlhost.host.admin import Admin
from tests.host.conftest import Distributions, StartHost
from tests.host.replicas import LONG
from tests.support.admin import ACTING, EITHER, Acting, act, done
from tests.support.host_process import LIMIT
from tests.support.plugin_modules import config_map
from tests.support.reconcilers import controller
from tests.support.status import get, key_of, page_of, status_of
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour


@EITHER
@behaviour("operations/OP84")
def test_a_pause_lets_runs_end_and_begins_none(shared: Acting, plugin: str) -> None:
    gate, names = shared.folder / f"gate-{plugin}", [f"{plugin}/{letter}" for letter in ("a", "b", "c", "free")]
    long, late = f"{plugin}-long", f"{plugin}-late"
    shared.create("a", long, hold=str(gate))
    shared.ran(f"{plugin}/a", f"default/{long}")
    answer = done(shared.host, "pause", plugin=plugin)
    assert answer == {"controllers": names, "changed": True, "running": 1, "queued": answer["queued"]}
    assert done(shared.host, "pause", plugin=plugin)["changed"] is False
    by = f"uid {os.geteuid()} pid {os.getpid()}"
    assert shared.host.line(f"admin: pause {plugin} by {by}: ok")["level"] == "info"

    for label in ("a", "b"):
        shared.create(label, f"{late}-{label}")
    other = "apart" if plugin == "inside" else "inside"
    shared.ran(f"{other}/b", f"default/{late}-b")
    eventually(lambda: page_of(shared.host, f"{plugin}/b")["total"] == 1)
    gate.touch()
    shared.host.line(f"ended {plugin}/a default/{long}")
    eventually(lambda: page_of(shared.host, f"{plugin}/a")["total"] == 1)
    assert [shared.runs(f"{plugin}/{letter}", f"default/{late}-{letter}") for letter in "ab"] == [0, 0]
    assert done(shared.host, "pause", plugin=plugin, controller="a") == {
        "controllers": [f"{plugin}/a"], "changed": False, "running": 0, "queued": 1,
    }  # fmt: skip

    controllers = {controller["name"]: controller for controller in status_of(shared.host)["controllers"]}
    for name in names:
        assert controllers[name]["paused"]
        assert controllers[name]["paused_by"] == by
        assert controllers[name]["paused_since"].endswith("Z")
    assert not controllers[f"{other}/a"]["paused"]
    assert controllers[f"{other}/a"]["paused_by"] is None
    verdict = key_of(shared.host, f"{plugin}/a", f"default/{late}-a")
    assert (verdict["verdict"], verdict["facts"]) == ("paused", [f"controller {plugin}/a was paused by {by}"])
    begun = [
        datetime.fromisoformat(moment) for moment in (verdict["since"], controllers[f"{plugin}/a"]["paused_since"])
    ]
    assert abs(begun[0] - begun[1]) < timedelta(seconds=1)
    shared.host.line(f"plugin {plugin} degraded: paused: {plugin}/a by {by}, {plugin}/b by {by}")

    resumed = done(shared.host, "resume", plugin=plugin, controller="b")
    assert (resumed["controllers"], resumed["changed"]) == ([f"{plugin}/b"], True)
    shared.ran(f"{plugin}/b", f"default/{late}-b")
    assert shared.runs(f"{plugin}/a", f"default/{late}-a") == 0
    assert done(shared.host, "resume", plugin=plugin)["changed"] is True
    assert done(shared.host, "resume", plugin=plugin)["changed"] is False
    shared.ran(f"{plugin}/a", f"default/{late}-a")
    shared.host.line(f"plugin {plugin} no longer degraded: paused")


@EITHER
@behaviour("operations/OP85")
def test_changes_during_a_pause_are_merged(shared: Acting, plugin: str) -> None:
    other = "apart" if plugin == "inside" else "inside"
    names = [f"merged-{plugin}-{number}" for number in range(10)]
    for name in names:
        shared.create("c", name, n="0")
        shared.ran(f"{plugin}/c", f"default/{name}")
    done(shared.host, "pause", plugin=plugin, controller="c")
    for count in range(1, 101):
        for name in names:
            shared.client.patch("v1", "ConfigMap", name, "default", {"data": {"n": str(count)}})

    def delivered() -> bool:
        informers = status_of(shared.host)["informers"]
        return not any(informer["cost"]["pending"] for informer in informers)

    for name in names:
        shared.host.line(f"run {other}/c default/{name} 100 ")
    eventually(delivered)
    eventually(lambda: page_of(shared.host, f"{plugin}/c")["total"] == 10)
    before = len(shared.host.lines)
    assert done(shared.host, "resume", plugin=plugin, controller="c")["queued"] <= 10
    for name in names:
        shared.host.line(f"run {plugin}/c default/{name} 100 ", after=before)
    eventually(lambda: page_of(shared.host, f"{plugin}/c")["total"] == 0)
    runs = [line for line in shared.host.lines[before:] if line["msg"].startswith(f"run {plugin}/c default/merged-")]
    assert len(runs) == 10


def test_a_pause_outlives_a_restart_of_the_plugin(shared: Acting) -> None:
    """The process of an isolated plugin is killed; the next one knows what an operator has done."""
    host, name = shared.host, "after-restart"
    done(host, "pause", plugin="apart", controller="b")
    done(host, "log-level", target="apart", level="debug", seconds=3600)
    shared.create("c", f"{name}-first")
    line = host.line(f"run apart/c default/{name}-first ")
    before = len(host.lines)
    os.kill(int(line["msg"].rpartition(" ")[2]), signal.SIGKILL)
    host.line("plugin apart running", after=before)
    shared.create("b", name)
    shared.create("c", f"{name}-c")
    eventually(lambda: get(host, f"/keys/apart/b?key=default/{name}")[1].get("verdict") == "paused")
    host.line(f"a debug line of default/{name}-c", after=before)
    assert shared.runs("apart/b", f"default/{name}") == 0
    assert done(host, "resume", plugin="apart")["controllers"] == ["apart/a", "apart/b", "apart/c", "apart/free"]
    shared.host.line(f"run apart/b default/{name} ")
    done(host, "log-level", target="apart", level="info", seconds=0)


def test_a_pause_outlives_a_restart_in_the_process_of_the_host(ctrlhost_host: Any) -> None:
    source = For("v1", "ConfigMap", label_selector="mine")
    reconciled: list[Request] = []
    plugin = controller(lambda ctx, request: reconciled.append(request), source)
    host = ctrlhost_host(plugin, supervision={"demo": {"restart_delay": "10ms"}})
    (runtime,) = host.host.plugins
    before = host.controllers["demo/c"]
    assert before.pause("somebody")
    runtime.failed_now(runtime.attempt, "on purpose")
    eventually(lambda: runtime.state == "running" and host.controllers["demo/c"] is not before)
    after = host.controllers["demo/c"]
    assert after.pause_state == before.pause_state
    host.client.create(config_map("a", labels={"mine": "1"}))
    eventually(lambda: len(after.queue) == 1)
    assert reconciled == []
    assert after.resume()
    eventually(lambda: reconciled == [Request("a", "default")])


@pytest.mark.parametrize("controller", [None, "c"])
def test_a_plugin_that_restarts_can_be_paused(ctrlhost_host: Any, controller: str | None) -> None:
    gate = threading.Event()
    plugin = _Gated(gate, attempt=2)
    host = ctrlhost_host(plugin, supervision={"demo": {"restart_delay": "10ms"}})
    (runtime,) = host.host.plugins
    eventually(lambda: runtime.state == "running")
    runtime.failed_now(runtime.attempt, "on purpose")
    eventually(lambda: len(plugin.begun) == 2)
    known = {"controllers": ["demo/c"], "running": 0, "queued": 0}
    assert _asked(host, "pause", controller) == (200, known | {"changed": True})
    assert _asked(host, "pause", controller) == (200, known | {"changed": False})
    status, answer = _asked(host, "pause", "d")
    assert (status, answer["error"], answer["hint"]) == (404, "no controller `demo/d`", "did you mean `demo/c`?")
    # The controller has been made; its workers have not begun.
    gate.set()
    eventually(lambda: runtime.state == "running")
    (after,) = runtime.controllers
    assert after.pause_state.by == "a test"
    host.client.create(config_map("a", labels={"mine": "1"}))
    eventually(lambda: len(after.queue) == 1)
    assert plugin.reconciled == []
    assert _asked(host, "resume", controller) == (200, known | {"changed": True, "queued": 1})
    eventually(lambda: plugin.reconciled == [Request("a", "default")])


def test_a_plugin_that_was_never_set_up_can_be_paused_as_a_whole(ctrlhost_host: Any) -> None:
    gate = threading.Event()
    plugin = _Gated(gate, attempt=1, before=True)
    host = ctrlhost_host(plugin, start=False)
    host.host.start()
    (runtime,) = host.host.plugins
    eventually(lambda: len(plugin.begun) == 1)
    unknown = {"controllers": [], "running": 0, "queued": 0}
    assert _asked(host, "pause") == (200, unknown | {"changed": True})
    assert _asked(host, "pause", "c")[0] == 409
    gate.set()
    eventually(lambda: runtime.state == "running")
    assert runtime.controllers[0].pause_state.by == "a test"
    assert _asked(host, "resume")[1]["changed"] is True
    assert not runtime.controllers[0].paused


@behaviour("operations/OP84")
def test_an_isolated_plugin_without_a_process_can_be_paused(shared: Acting) -> None:
    host, name = shared.host, "without-process"
    names = [f"apart/{letter}" for letter in ("a", "b", "c", "free")]
    shared.create("c", f"{name}-first")
    line = host.line(f"run apart/c default/{name}-first ")
    before = len(host.lines)
    os.kill(int(line["msg"].rpartition(" ")[2]), signal.SIGKILL)
    host.line("plugin apart failing", after=before)
    answer = done(host, "pause", plugin="apart")
    assert (answer["controllers"], answer["changed"]) == (names, True)
    assert done(host, "resume", plugin="apart", controller="c")["controllers"] == ["apart/c"]
    host.line("plugin apart running", after=before)
    for label in "bc":
        shared.create(label, f"{name}-{label}")
    shared.ran("apart/c", f"default/{name}-c")
    eventually(lambda: get(host, f"/keys/apart/b?key=default/{name}-b")[1].get("verdict") == "paused")
    assert shared.runs("apart/b", f"default/{name}-b") == 0
    assert done(host, "resume", plugin="apart")["controllers"] == names
    shared.ran("apart/b", f"default/{name}-b")


class _Gated:
    """A plugin with one controller whose set-up waits in one of its attempts."""

    __name__ = "demo"

    def __init__(self, gate: threading.Event, attempt: int, *, before: bool = False) -> None:
        self.begun: list[int] = []
        self.reconciled: list[Request] = []
        self._gate, self._attempt, self._before = gate, attempt, before

    @ctrlhost.hookimpl
    def ctrlhost_setup(self, plugin: Any) -> None:
        number = len(self.begun) + 1
        waits = number == self._attempt
        if waits and self._before:
            self._wait(number)
        source = For("v1", "ConfigMap", label_selector="mine")
        plugin.add_controller("c", lambda _ctx, request: self.reconciled.append(request), source)
        if waits and not self._before:
            self._wait(number)
        elif not waits:
            self.begun.append(number)

    def _wait(self, number: int) -> None:
        self.begun.append(number)
        assert self._gate.wait(LIMIT)


def _asked(host: Any, action: str, controller: str | None = None) -> tuple[int, Any]:
    body = json.dumps({"plugin": "demo", "controller": controller}).encode()
    status, answer = Admin(host.host.state).act(action, body, "a test")
    return status, json.loads(answer)


@behaviour("operations/OP86")
@behaviour("operations/OP88")
def test_a_pause_is_of_one_replica_and_the_setting_of_all(
    sandbox: Sandbox, start_host: StartHost, distributions: Distributions, runtime: Path
) -> None:
    distributions.add("inside", ACTING)
    config = runtime / "settings.toml"
    config.write_text('[controllers."inside/b"]\npaused = true\n')
    client = Client.load(sandbox.kubeconfig)

    def start(name: str) -> Acting:
        host = start_host(
            "--leader-elect",
            "--admin",
            f"--kubeconfig={sandbox.kubeconfig}",
            f"--config={config}",
            "--set=host.leader_elect_resource_namespace=default",
            *LONG.options(),
            plugins="inside",
            HOSTNAME=name,
            XDG_RUNTIME_DIR=str(runtime),
        )
        host.line("plugin inside running")
        return Acting(host, client, runtime)

    first = start("first")
    first.create("a", "before")
    first.ran("inside/a", "default/before")
    second = start("second")
    eventually(lambda: "standing by for first_" in second.host.get("/healthz?verbose")[1])
    for body in ({"keys": ["default/before"]}, {"all": True}):
        status, answer = act(second.host, "enqueue", controller="inside/a", **body)
        assert (status, answer["error"]) == (409, "this replica stands by for `inside/a`")
        assert re.fullmatch(r"first_\S+ leads: ask that replica", answer["hint"])
    second.host.line("admin: enqueue inside/a all by uid ", ": 409 this replica stands by for `inside/a`")

    assert done(first.host, "pause", plugin="inside")["changed"] is True
    for label in ("a", "b"):
        first.create(label, f"after-{label}")
    for replica in (first, second):
        eventually(lambda replica=replica: page_of(replica.host, "inside/b")["total"] == 1)
    eventually(lambda: page_of(first.host, "inside/a")["total"] == 1)
    first.host.signal(signal.SIGKILL)
    first.host.wait()
    # As if its lease had expired.
    client.patch("coordination.k8s.io/v1", "Lease", "ctrlhost", "default", {"spec": {"holderIdentity": ""}})
    second.ran("inside/a", "default/after-a")
    controllers = {controller["name"]: controller for controller in status_of(second.host)["controllers"]}
    assert (controllers["inside/a"]["paused"], controllers["inside/a"]["leading"]) == (False, True)
    assert (controllers["inside/b"]["paused"], controllers["inside/b"]["paused_by"]) == (True, "the setting `paused`")
    assert page_of(second.host, "inside/b")["total"] == 1
    assert second.runs("inside/b", "default/after-b") == 0
    assert done(second.host, "resume", plugin="inside", controller="b")["changed"] is True
    second.ran("inside/b", "default/after-b")
