"""The admin API at the local socket: pause, resume, enqueue and levels of the log."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ctrlhost import Client
from ctrlhost.sandbox import Sandbox
from tests.host.conftest import Distributions
from tests.support.admin import act, done, send, socket_of
from tests.support.host_process import HostProcess
from tests.support.plugin_modules import config_map
from tests.support.status import get, key_of, page_of, status_of
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour

#: Three controllers; `a` reconciles what is labelled a=1, and so on. It does what the data says.
ACTING = """
    import os
    import time
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        for name in ("a", "b", "c"):
            source = ctrlhost.For("v1", "ConfigMap", label_selector=f"{name}=1")
            plugin.add_controller(name, reconcile, source)
        plugin.add_controller("free", reconcile)

    def reconcile(ctx, request):
        found = ctx.get(request) if ctx.controller.rpartition("/")[2] != "free" else None
        data = found.to_dict().get("data", {}) if found is not None else {}
        ctx.log.info("run %s %s %s in %d", ctx.controller, request, data.get("n", "-"), os.getpid())
        ctx.log.debug("a debug line of %s", request)
        while "hold" in data and not os.path.exists(data["hold"]):
            time.sleep(0.01)
        if data.get("fail") and not os.path.exists(data["fail"]):
            raise KeyError("spec")
        ctx.log.info("ended %s %s", ctx.controller, request)
"""

#: `inside` runs in the process of the host, `apart` in one of its own.
EITHER = pytest.mark.parametrize("plugin", ["inside", "apart"])


class Acting:
    """A host that can be acted on, and its API server."""

    def __init__(self, host: HostProcess, client: Client, folder: Path) -> None:
        self.host = host
        self.client = client
        self.folder = folder

    def create(self, label: str, name: str, **data: str) -> None:
        self.client.create(config_map(name, labels={label: "1"}, **data))

    def runs(self, controller: str, key: str) -> int:
        """Return how often a key was reconciled so far."""
        return len([one for one in self.host.lines if one["msg"].startswith(f"run {controller} {key} ")])

    def ran(self, controller: str, key: str, times: int = 1) -> None:
        """Wait until a key was reconciled so many times."""
        self.host.wait_for(lambda: self.runs(controller, key) >= times, f"{times} runs of {key}")
        assert self.runs(controller, key) == times

    def log_of(self, action: str) -> dict[str, Any]:
        """Return the last line about an action."""
        return [one for one in self.host.lines if one["msg"].startswith(f"admin: {action}")][-1]


@pytest.fixture(scope="module")
def module_folder() -> Iterator[Path]:
    # Paths of pytest can be longer than the address of a socket.
    with TemporaryDirectory(prefix="admin-") as made:
        yield Path(made)


@pytest.fixture(scope="module")
def shared(module_folder: Path) -> Iterator[Acting]:
    """One host for all tests of this module; each test uses names of its own."""
    site = module_folder / "site"
    site.mkdir()
    installed = Distributions(site)
    for name in ("inside", "apart"):
        installed.add(name, ACTING)
    config = module_folder / "settings.toml"
    names = [f"{plugin}/{name}" for plugin in ("inside", "apart") for name in "abc"]
    # The tests count lines.
    config.write_text(
        "[supervision]\nlog_lines = 0\n"
        + "".join(f'[controllers."{name}"]\nbase_delay = "10m"\nmax_delay = "10m"\n' for name in names)
    )
    environment = installed.environment(XDG_RUNTIME_DIR=str(module_folder))
    arguments = ["--sandbox", "--admin", "--plugins=inside,apart", "--isolate=apart", f"--config={config}"]
    with HostProcess(*arguments, environment=environment) as host:
        for name in ("inside", "apart"):
            host.line(f"plugin {name} running")
        yield Acting(host, Client.load(host.kubeconfig), module_folder)


@EITHER
@behaviour("operations/OP84")
def test_a_pause_lets_runs_end_and_begins_none(shared: Acting, plugin: str) -> None:
    gate, names = shared.folder / f"gate-{plugin}", [f"{plugin}/{one}" for one in ("a", "b", "c", "free")]
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
    assert [shared.runs(f"{plugin}/{one}", f"default/{late}-{one}") for one in "ab"] == [0, 0]
    assert done(shared.host, "pause", plugin=plugin, controller="a") == {
        "controllers": [f"{plugin}/a"], "changed": False, "running": 0, "queued": 1,
    }  # fmt: skip

    shown = {one["name"]: one for one in status_of(shared.host)["controllers"]}
    for name in names:
        assert shown[name]["paused"]
        assert shown[name]["paused_by"] == by
        assert shown[name]["paused_since"].endswith("Z")
    assert not shown[f"{other}/a"]["paused"]
    assert shown[f"{other}/a"]["paused_by"] is None
    verdict = key_of(shared.host, f"{plugin}/a", f"default/{late}-a")
    assert (verdict["verdict"], verdict["facts"]) == ("paused", [f"controller {plugin}/a was paused by {by}"])
    begun = [datetime.fromisoformat(one) for one in (verdict["since"], shown[f"{plugin}/a"]["paused_since"])]
    assert abs(begun[0] - begun[1]) < timedelta(seconds=1)
    shared.host.line(f"plugin {plugin} degraded: paused: {plugin}/a by {by}, {plugin}/b by {by}")

    one = done(shared.host, "resume", plugin=plugin, controller="b")
    assert (one["controllers"], one["changed"]) == ([f"{plugin}/b"], True)
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
        return not any(one["cost"]["pending"] for one in informers)

    for name in names:
        shared.host.line(f"run {other}/c default/{name} 100 ")
    eventually(delivered)
    eventually(lambda: page_of(shared.host, f"{plugin}/c")["total"] == 10)
    before = len(shared.host.lines)
    assert done(shared.host, "resume", plugin=plugin, controller="c")["queued"] <= 10
    for name in names:
        shared.host.line(f"run {plugin}/c default/{name} 100 ", after=before)
    eventually(lambda: page_of(shared.host, f"{plugin}/c")["total"] == 0)
    runs = [one for one in shared.host.lines[before:] if one["msg"].startswith(f"run {plugin}/c default/merged-")]
    assert len(runs) == 10


@EITHER
@behaviour("operations/OP87")
def test_an_enqueued_key_does_not_wait_for_its_back_off(shared: Acting, plugin: str) -> None:
    fixed, name, controller = shared.folder / f"fixed-{plugin}", f"failing-{plugin}", f"{plugin}/b"
    shared.create("b", name, fail=str(fixed))
    key = f"default/{name}"
    waiting = eventually(lambda: (one := key_of(shared.host, controller, key))["verdict"] == "backing off" and one)
    assert 500 < waiting["due_seconds"] <= 720
    assert waiting["facts"][0].startswith("1 failures, ")
    for times in (2, 3):
        answer = done(shared.host, "enqueue", controller=controller, keys=[key])
        assert answer == {"controller": controller, "queued": 1, "warnings": []}
        shared.ran(controller, key, times)
        again = eventually(lambda: (one := key_of(shared.host, controller, key))["verdict"] == "backing off" and one)
        assert again["facts"][0].startswith("1 failures, "), "the failures start anew"
    failing = {one["key"]: one for one in page_of(shared.host, controller, part="failing")["items"]}
    assert failing[key]["failures"] == 1
    fixed.touch()
    done(shared.host, "enqueue", controller=controller, keys=[key])
    shared.host.line(f"ended {controller} {key}")
    eventually(lambda: key not in str(page_of(shared.host, controller, part="failing")))


@EITHER
@behaviour("operations/OP88")
def test_keys_that_are_not_in_the_cache_and_all_keys(shared: Acting, plugin: str) -> None:
    controller, wanted = f"{plugin}/a", [f"default/all-{plugin}-{number}" for number in range(3)]
    for key in wanted:
        shared.create("a", key.partition("/")[2])
        shared.ran(controller, key)
    missing = f"default/missing-{plugin}"
    answer = done(shared.host, "enqueue", controller=controller, keys=[missing, wanted[0]])
    assert answer == {
        "controller": controller, "queued": 2, "warnings": [f"{missing} is not in the cache of ConfigMap"],
    }  # fmt: skip
    shared.ran(controller, missing)
    shared.ran(controller, wanted[0], 2)
    shared.log_of(f"enqueue {controller} {missing} {wanted[0]} by ")

    done(shared.host, "pause", plugin=plugin, controller="a")
    objects = list(shared.client.list("v1", "ConfigMap", "default", label_selector="a=1"))
    for priority, given in ((-100, {}), (7, {"priority": 7})):
        answer = done(shared.host, "enqueue", controller=controller, all=True, **given)
        assert answer["queued"] == len(objects)
        (warning,) = answer["warnings"]
        assert warning.startswith(f"{controller} is paused by uid ")
        items = page_of(shared.host, controller, limit=1000)["items"]
        assert {one["key"] for one in items} == {f"default/{one['metadata']['name']}" for one in objects}
        assert {one["priority"] for one in items} == {priority}
    done(shared.host, "resume", plugin=plugin, controller="a")
    shared.ran(controller, wanted[1], 2)
    status, answer = act(shared.host, "enqueue", controller=f"{plugin}/free", all=True)
    assert (status, answer["hint"]) == (409, "name its keys")
    assert done(shared.host, "enqueue", controller=f"{plugin}/free", keys=["any"])["warnings"] == []
    shared.ran(f"{plugin}/free", "any")


@EITHER
@behaviour("operations/OP89")
def test_a_level_of_the_log_ends_by_itself(shared: Acting, plugin: str) -> None:
    other, key = "apart" if plugin == "inside" else "inside", f"default/level-{plugin}"
    shared.create("a", key.partition("/")[2])
    for one in (plugin, other):
        shared.ran(f"{one}/a", key)

    def again(times: int) -> int:
        """Reconcile the key in both plugins; return the debug lines so far."""
        for one in (plugin, other):
            done(shared.host, "enqueue", controller=f"{one}/a", keys=[key])
            shared.ran(f"{one}/a", key, times)
            ended = f"ended {one}/a {key}"
            shared.host.wait_for(lambda: len([x for x in shared.host.lines if x["msg"] == ended]) == times, ended)  # noqa: B023 - called here
        return len([one for one in shared.host.lines if one["msg"] == f"a debug line of {key}"])

    assert again(2) == 0
    answer = done(shared.host, "log-level", target=plugin, level="debug", seconds=3600)
    assert (answer["target"], answer["level"], answer["was"]) == (plugin, "debug", "info")
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ", answer["until"])
    assert again(3) == 1
    line = shared.host.line(f"a debug line of {key}")
    assert (line["plugin"], line["controller"]) == (plugin, f"{plugin}/a")
    answer = done(shared.host, "log-level", target=plugin, level="debug", seconds=0.01)
    assert answer["was"] == "debug"
    runs = iter(range(4, 1000))
    eventually(lambda: again(next(runs)) == again(next(runs)), what="the level ends")
    for level in ("debug", "info"):
        assert done(shared.host, "log-level", target=None, level=level, seconds=0)["until"] is None
    assert done(shared.host, "log-level", level="info", seconds=0)["was"] == "info"


@behaviour("operations/OP42")
@behaviour("operations/OP43")
@pytest.mark.parametrize(
    ("action", "body", "status", "error", "hint"),
    [
        ("pause", b'{"plugin": "' + b"x" * (65 << 10) + b'"}', 413, "the body is longer than 65536 bytes", None),
        ("pause", b"plugin=inside", 400, "the body is not JSON: ", None),
        ("pause", b'["inside"]', 400, "the body is no JSON object", None),
        ("pause", {"plugni": "inside"}, 400, "unknown field `plugni`", "did you mean `plugin`?"),
        ("pause", {"plugin": 1}, 400, "invalid request: Expected `str`, got `int` - at `$.plugin`", None),
        ("pause", {}, 400, "invalid request: Object missing required field `plugin`", None),
        ("resume", {"plugin": "insde"}, 404, "no plugin `insde`", "did you mean `inside`?"),
        ("pause", {"plugin": "inside", "controller": "z"}, 404, "no controller `inside/z`", "did you mean `inside/"),
        ("pause", {"plugin": "apart", "controller": "fre"}, 404, "no controller `apart/fre`", "did you mean `apart/free`?"),
        ("paus", {"plugin": "inside"}, 404, "no action `paus`", "did you mean `pause`?"),
        ("enqueue", {"controller": "inside/fre", "keys": ["k"]}, 404, "no controller `inside/fre`", "did you mean `inside/free`?"),
        ("enqueue", {"controller": "insid/free", "keys": ["k"]}, 404, "no controller `insid/free`", "did you mean `inside/free`?"),
        ("enqueue", {"controller": "inside", "keys": ["k"]}, 404, "no controller `inside/`", "did you mean `inside/"),
        ("enqueue", {"controller": "inside/a"}, 400, "invalid request: give either `keys` or `all`", None),
        ("enqueue", {"controller": "inside/a", "keys": ["k"], "all": True}, 400, "invalid request: give either", None),
        ("enqueue", {"controller": "inside/a", "keys": [""]}, 400, "invalid request: a key is empty", None),
        ("enqueue", {"controller": "inside/a", "keys": ["a/b/c/d"]}, 400, "invalid key `a/b/c/d`", "write it as NAMESPACE/NAME"),
        ("enqueue", {"controller": "inside/a", "all": True, "priority": 1 << 31}, 400, "invalid request: invalid priority 2147483648", None),
        ("log-level", {"target": "insde", "level": "debug"}, 404, "no plugin and no logger `insde`", "did you mean `inside`?"),
        ("log-level", {"level": "debgu"}, 400, "no level `debgu`", "did you mean `debug`?"),
        ("log-level", {"level": "debug", "seconds": -1}, 400, "invalid request: invalid time: -1 s", None),
    ],
)  # fmt: skip
def test_what_is_refused_changes_nothing_and_is_logged(
    shared: Acting, action: str, body: Any, status: int, error: str, hint: str | None
) -> None:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    before = len(shared.host.lines)
    found, answer = send(socket_of(shared.host), action, sent)
    assert found == status
    assert answer["error"].startswith(error)
    assert (answer["hint"] or "").startswith(hint or "")
    assert (answer["hint"] is None) == (hint is None)
    line = shared.host.line(
        f"admin: {action} ", f" by uid {os.geteuid()} pid {os.getpid()}: {status} {error}", after=before
    )
    assert line["level"] == "warning"
    assert "\n" not in line["msg"]
    if status == 404 and action != "paus":
        assert answer["error"].split("`")[1].rstrip("/") in line["msg"]
    assert not [one["name"] for one in status_of(shared.host)["controllers"] if one["paused"]]


def test_only_post_is_answered(shared: Acting) -> None:
    path = socket_of(shared.host)
    for method in ("GET", "PUT", "DELETE"):
        status, answer = send(path, "pause", b"", method)
        assert (status, answer["error"], answer["hint"]) == (405, "no such method", "use POST")
    for prefix in ("/admin/", "/admin/v2/"):
        status, answer = send(path, "pause", b'{"plugin": "inside"}', prefix=prefix)
        assert (status, answer["error"]) == (404, f"no action `{prefix}pause`")


def test_text_of_a_client_cannot_forge_a_line(shared: Acting) -> None:
    name = "a\nadmin: pause inside by uid 0 pid 1: ok\x1b[31m"
    status, _ = act(shared.host, "pause", plugin=name)
    assert status == 404
    line = shared.host.line("admin: pause a admin: pause inside by uid 0 pid 1: ok [31m by uid ")
    assert line["level"] == "warning"


@behaviour("operations/OP36")
def test_other_listeners_have_no_admin_api(shared: Acting) -> None:
    from tests.host.test_listeners import ask

    for body in ({}, {"content_length": "20"}):
        status, headers, text = ask(shared.host.address, "/admin/v1/pause", "POST", **body)
        assert (status, headers["content-type"]) == (404, "application/json")
        assert json.loads(text)["error"] == "the admin API is served at the local socket only"


def test_a_pause_outlives_a_restart_of_the_plugin(shared: Acting) -> None:
    """The process of an isolated plugin is killed; the next one knows what an operator has done."""
    host, name = shared.host, "after-restart"
    done(host, "pause", plugin="apart", controller="b")
    done(host, "log-level", target="apart", level="debug", seconds=3600)
    before = len(host.lines)
    (plugin,) = [one for one in status_of(host)["plugins"] if one["name"] == "apart"]
    line = next(one for one in host.lines if one["msg"].startswith("run apart/"))
    os.kill(int(line["msg"].rpartition(" ")[2]), signal.SIGKILL)
    host.line("plugin apart running", after=before)
    assert plugin["restarts"] == 0
    shared.create("b", name)
    shared.create("c", f"{name}-c")
    eventually(lambda: get(host, f"/keys/apart/b?key=default/{name}")[1].get("verdict") == "paused")
    host.line(f"a debug line of default/{name}-c", after=before)
    assert shared.runs("apart/b", f"default/{name}") == 0
    assert done(host, "resume", plugin="apart")["controllers"] == ["apart/a", "apart/b", "apart/c", "apart/free"]
    shared.host.line(f"run apart/b default/{name} ")
    done(host, "log-level", target="apart", level="info", seconds=0)
