"""Settings that change while a host runs: what it takes over at once, and what it names for a restart."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

import ctrlhost
from ctrlhost import For
from ctrlhost.config.load import Configuration
from ctrlhost.controller.backoff import Backoff
from ctrlhost.controller.pauses import BY_SETTING
from ctrlhost.errors import ConfigError
from ctrlhost.host.reload import reload
from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import ItemExponentialFailureRateLimiter
from tests.support.host_process import LIMIT, HostProcess
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.processes import children_of
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

behaviour = pytest.mark.behaviour
MAPS = For("v1", "ConfigMap", label_selector="mine")
MINE = {"mine": "1"}


def change(host: Any, **values: Any) -> None:
    """Reload with these settings of the controller."""
    change_paths(host, {("controllers", "demo/c", name): value for name, value in values.items()})


def change_paths(host: Any, values: dict[tuple[str, ...], Any]) -> None:
    """Reload with these settings; None removes one."""
    leaves = host.host.configuration.leaves() | values
    settings = {path: value for path, value in leaves.items() if value is not None}
    reload(host.host.state, lambda: Configuration.of_leaves(settings, "ctrlhost.toml"))


def controller(host: Any) -> Any:
    return host.controllers["demo/c"]


def plugin(reconcile: Any, **options: Any) -> Any:
    return plugin_of(lambda plugin: plugin.add_controller("c", reconcile, MAPS, **options))


class Held:
    """Reconcilers that hold their runs until `release`."""

    def __init__(self) -> None:
        self.proceed = threading.Event()

    def plain(self, ctx: ctrlhost.Context, request: ctrlhost.Request) -> None:
        assert self.proceed.wait(LIMIT)

    async def awaited(self, ctx: ctrlhost.Context, request: ctrlhost.Request) -> None:
        assert await asyncio.to_thread(self.proceed.wait, LIMIT)

    def release(self) -> None:
        self.proceed.set()


@behaviour("findings3/NO14")
@pytest.mark.parametrize("kind", ["plain", "awaited"])
def test_more_workers_begin_at_once_and_fewer_when_runs_end(ctrlhost_host: Any, kind: str) -> None:
    held = Held()
    host = ctrlhost_host(plugin(getattr(held, kind)))
    for number in range(6):
        host.client.create(config_map(f"a-{number}", labels=MINE))

    def active() -> int:
        return int(controller(host).status().active)

    eventually(lambda: active() == 1, LIMIT)
    change(host, workers=4)
    eventually(lambda: active() == 4, LIMIT)
    assert controller(host).status().workers == controller(host).counts.workers == 4
    change(host, workers=1)
    held.release()
    host.run_until_idle()
    held.proceed.clear()
    for number in range(3):
        host.client.create(config_map(f"b-{number}", labels=MINE))
    eventually(lambda: active() == 1 and len(controller(host).queue) == 2, LIMIT)
    change(host, workers=None)
    assert controller(host).status().workers == 1
    held.release()
    host.run_until_idle()
    assert controller(host).status().runs == 9


@behaviour("findings3/NO14")
def test_a_new_timeout_ends_the_run_in_progress(ctrlhost_host: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    runs: list[str] = []

    async def reconcile(ctx: ctrlhost.Context, request: ctrlhost.Request) -> None:
        runs.append(ctx.reconcile_id)
        if len(runs) == 1:
            await asyncio.Event().wait()

    clock = ManualClock()
    host = ctrlhost_host(plugin(reconcile), clock=clock)
    host.client.create(config_map("a", labels=MINE))
    eventually(lambda: runs, LIMIT)
    change(host, timeout="3s", slow_after="1m")
    clock.advance(4)
    eventually(lambda: controller(host).status().errors, LIMIT)
    assert "longer than its timeout of 3 s" in caplog.text
    assert "settings reloaded: controllers.demo/c.slow_after, controllers.demo/c.timeout" in caplog.messages
    eventually(lambda: controller(host).queue.snapshot().delayed, LIMIT)
    clock.advance(1)
    host.run_until_idle()
    assert len(runs) == 2


@behaviour("findings3/NO14")
@pytest.mark.parametrize("own", [None, ItemExponentialFailureRateLimiter(1, 100)], ids=["host", "own"])
def test_new_delays_are_those_of_the_next_failure(ctrlhost_host: Any, own: Any) -> None:
    def fail(ctx: ctrlhost.Context, request: ctrlhost.Request) -> None:
        raise ValueError("no daemon")

    clock = ManualClock()
    host = ctrlhost_host(plugin(fail, **({} if own is None else {"rate_limiter": own})), clock=clock)
    host.client.create(config_map("a", labels=MINE))
    queue, limiter = controller(host).queue, controller(host)._limiter
    eventually(lambda: queue.snapshot().delayed, LIMIT)
    change(host, base_delay="10s", max_delay="20s")
    # The failures of before count, unless a limiter of the plugin counted them.
    assert limiter.when(ctrlhost.Request("a", "default")) == (20 if own is None else 10)
    clock.advance(5)
    eventually(lambda: controller(host).status().errors == 2, LIMIT)
    eventually(lambda: [item.due_in for item in queue.snapshot().delayed] == [20], LIMIT)
    change(host, base_delay=None, max_delay=None)
    assert controller(host).options.backoff == Backoff()
    assert (limiter.own is own) is (own is not None)


@behaviour("findings3/NO14")
def test_the_setting_pauses_and_resumes_and_leaves_pauses_of_operators(ctrlhost_host: Any) -> None:
    runs: list[str] = []
    host = ctrlhost_host(plugin(lambda ctx, request: runs.append(request.name)))
    change(host, paused=True)
    assert controller(host).pause_state.by == BY_SETTING
    host.client.create(config_map("a", labels=MINE))
    eventually(lambda: len(controller(host).queue) == 1, LIMIT)
    assert runs == []
    change(host, paused=None)
    host.run_until_idle()
    assert runs == ["a"]
    controller(host).pause("ann")
    change(host, paused=True)
    change(host, paused=False)
    assert controller(host).pause_state.by == "ann"


@behaviour("findings3/NO14")
def test_deadlines_are_those_of_calls_that_run_and_of_the_next_attempt(ctrlhost_host: Any) -> None:
    running, proceed = threading.Event(), threading.Event()

    def wait(obj: Any) -> list[Any]:
        running.set()
        assert proceed.wait(LIMIT)
        return []

    source = ctrlhost.Watches("v1", "Secret", map=wait, label_selector="mine")
    setups: list[Any] = []

    def setup(plugin: ctrlhost.PluginContext) -> None:
        setups.append(plugin)
        plugin.add_controller("c", lambda ctx, request: None, MAPS, source)

    host = ctrlhost_host(plugin_of(setup), supervision={"restart_delay": "10ms"})
    metadata = {"name": "a", "namespace": "default", "labels": MINE}
    host.client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    assert running.wait(LIMIT)
    (runtime,) = host.host.plugins
    change_paths(
        host, {("supervision", "demo", "deadlines", "callback"): "100ms", ("supervision", "deadlines", "hook"): 60}
    )
    eventually(lambda: "slow" in runtime.entries.degraded, LIMIT)
    assert (runtime.entries.deadline("map"), runtime.entries.deadline("ctrlhost_elected")) == (0.1, 60)
    change(host, workers=5)
    proceed.set()
    runtime.entries.fail("broken")
    eventually(lambda: len(setups) == 2 and runtime.state == "running", LIMIT)
    assert runtime.entries.deadline("map") == 0.1
    assert controller(host).status().workers == 5


@behaviour("findings3/NO14")
def test_a_memory_budget_that_is_raised_lets_lists_in(ctrlhost_host: Any, sandbox: Any) -> None:
    client = ctrlhost.Client.load(sandbox.kubeconfig)
    for number in range(3):
        client.create(config_map(f"large-{number}", labels=MINE, data="x" * 500_000))
    runs: list[str] = []
    host = ctrlhost_host(
        plugin(lambda ctx, request: runs.append(request.name)),
        sandbox=sandbox,
        informers={"memory_budget": "1Mi"},
        start=False,
    )
    host.host.start()
    eventually(lambda: any(informer.over_budget for informer in host.host.factory.informers()), LIMIT)
    change_paths(host, {("informers", "memory_budget"): "64Mi"})
    eventually(lambda: len(runs) == 3, LIMIT)
    assert host.host.factory.budget.limit == 64 << 20
    change_paths(host, {("informers", "memory_budget"): "1Mi"})
    assert host.host.factory.budget.limit == 1 << 20


@behaviour("findings3/NO14")
def test_other_settings_stay_and_are_named_each_time(ctrlhost_host: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    host = ctrlhost_host(plugin(lambda ctx, request: None))
    values = {
        ("controllers", "demo/c", "namespaces"): ["other"],
        ("controllers", "demo/c", "workers"): 2,
        ("host", "drain_timeout"): "1m",
        ("informers", "memory_budget"): "1Mi",
        ("supervision", "demo", "retry_qps"): 1,
        ("plugins", "demo", "token"): "secret-text",
    }
    later = ", ".join(".".join(path) for path in sorted(values) if path[-1] != "workers")
    change_paths(host, values)
    assert caplog.messages[-2:] == [
        "settings reloaded: controllers.demo/c.workers",
        f"settings that need a restart of the host: {later}",
    ]
    assert controller(host).options.namespaces is None
    assert host.host.configuration.controllers["demo/c"].namespaces is None
    assert host.host.configuration.supervision("demo").retry_qps == 20
    change_paths(host, values)
    assert caplog.messages[-2:] == [
        "settings reloaded: nothing that can be reloaded has changed",
        f"settings that need a restart of the host: {later}",
    ]
    assert "secret-text" not in caplog.text


@behaviour("findings3/NO14")
@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({("controllers", "demo/c", "workers"): 0}, "controllers.demo/c: `workers` must be at least 1"),
        ({("controllers", "demo/d", "workers"): 2}, "controllers.demo/d: plugin `demo` has no controller"),
        ({("host", "log_levels", "demon"): "debug"}, "host.log_levels: no plugin and no logger `demon`"),
        ({("supervision", "demo", "deadlines", "map"): 1}, "supervision.demo.deadlines.map"),
        ({("informers", "memory_budget"): "1"}, "memory_budget"),
        ({("host", "listen"): 5}, "host.listen"),
    ],
)
def test_an_invalid_setting_changes_nothing(
    ctrlhost_host: Any, caplog: pytest.LogCaptureFixture, values: Any, problem: str
) -> None:
    host = ctrlhost_host(plugin(lambda ctx, request: None))
    before = host.host.configuration
    change_paths(host, {("controllers", "demo/c", "paused"): True} | values)
    assert caplog.messages[-1].startswith("settings not reloaded: ")
    assert problem in caplog.messages[-1]
    assert host.host.configuration is before
    assert not controller(host).paused


def test_settings_that_cannot_be_read_change_nothing(ctrlhost_host: Any, caplog: pytest.LogCaptureFixture) -> None:
    host = ctrlhost_host(plugin(lambda ctx, request: None))

    def read() -> Configuration:
        raise ConfigError("ctrlhost.toml: invalid TOML: no value", hint="write one")

    reload(host.host.state, read)
    assert caplog.messages[-1] == "settings not reloaded: ctrlhost.toml: invalid TOML: no value (hint: write one)"


DEMO = """
import ctrlhost

@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    def reconcile(ctx, request):
        ctx.log.debug("details of %s", request.name)
        ctx.log.info("saw %s", request.name)

    plugin.add_controller("c", reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="mine"))
"""
BEFORE = """
[host]
drain_timeout = "20s"

[controllers."demo/c"]
paused = true
"""
AFTER = """
[host]
drain_timeout = "10s"
log_levels = {demo = "debug"}

[controllers."demo/c"]
workers = 3
"""


@behaviour("findings3/NO14")
@pytest.mark.parametrize("isolated", [False, True], ids=["shared", "own process"])
def test_sighup_reloads_the_file(
    start_host: Callable[..., HostProcess], distributions: Any, tmp_path: Path, isolated: bool
) -> None:
    distributions.add("demo", DEMO)
    file = tmp_path / "ctrlhost.toml"
    file.write_text(BEFORE)
    options = ["--isolate=demo"] if isolated else []
    host = start_host("--sandbox", f"--config={file}", *options, plugins="demo")
    host.line("plugin demo running")
    client = ctrlhost.Client.load(host.kubeconfig)
    client.create(config_map("ann", labels=MINE))
    host.line("plugin demo degraded: paused: demo/c")
    host.wait_for_metric(1, "workqueue_depth", name="demo/c")
    file.write_text(AFTER)
    host.signal(signal.SIGHUP)
    host.line("settings reloaded: controllers.demo/c.paused, controllers.demo/c.workers, host.log_levels.demo")
    host.line("settings that need a restart of the host: host.drain_timeout")
    host.line("saw ann")
    host.line("plugin demo no longer degraded: paused")
    host.wait_for_metric(3, "controller_runtime_max_concurrent_reconciles", controller="demo/c")
    client.create(config_map("bob", labels=MINE))
    host.line("details of bob")
    file.write_text("[host]\nlog_level = 'loud'\n")
    host.signal(signal.SIGHUP)
    host.line("settings not reloaded: host.log_level: ")
    assert host.stop() == 0
    client.close()


@behaviour("findings3/NO14")
def test_a_new_process_of_a_plugin_has_the_reloaded_settings(
    start_host: Callable[..., HostProcess], distributions: Any, tmp_path: Path
) -> None:
    distributions.add("demo", DEMO)
    file = tmp_path / "ctrlhost.toml"
    file.write_text("[supervision]\nrestart_delay = '10ms'\n")
    host = start_host("--sandbox", f"--config={file}", "--isolate=demo", plugins="demo")
    host.line("plugin demo running")
    file.write_text("[supervision]\nrestart_delay = '10ms'\n[controllers.'demo/c']\nworkers = 7\n")
    host.signal(signal.SIGHUP)
    host.wait_for_metric(7, "controller_runtime_max_concurrent_reconciles", controller="demo/c")
    seen = len(host.lines)
    for child in children_of(host.pid):
        os.kill(child.pid, signal.SIGKILL)
    host.line("plugin demo running", after=seen)
    host.wait_for_metric(7, "controller_runtime_max_concurrent_reconciles", controller="demo/c")
    assert host.stop() == 0


#: Takes a terminal as its own, and becomes a command.
IN_A_TERMINAL = """
import os, sys
os.setsid()
os.open(sys.argv[1], os.O_RDWR)
os.execvp(sys.argv[2], sys.argv[2:])
"""


@behaviour("findings3/NO14")
def test_sighup_reloads_in_a_terminal_and_stops_when_that_is_closed(distributions: Any, tmp_path: Path) -> None:
    distributions.add("demo", DEMO)
    ours, theirs = os.openpty()
    prefix = [sys.executable, "-c", IN_A_TERMINAL, os.ttyname(theirs)]
    environment = distributions.environment()
    with HostProcess("--sandbox", "--plugins=demo", prefix=prefix, environment=environment) as host:
        os.close(theirs)
        host.line("plugin demo running")
        host.signal(signal.SIGHUP)
        host.line("settings reloaded: nothing that can be reloaded has changed")
        os.close(ours)
        host.line("SIGHUP: shutting down")
        assert host.wait() == 0


@behaviour("findings3/NO14")
@pytest.mark.parametrize("paused", [False, True])
def test_controllers_of_a_set_up_that_runs_have_the_reloaded_settings(ctrlhost_host: Any, paused: bool) -> None:
    begun, proceed, setups = threading.Event(), threading.Event(), []

    def setup(plugin: ctrlhost.PluginContext) -> None:
        setups.append(plugin)
        if len(setups) == 2:
            begun.set()
            assert proceed.wait(LIMIT)
        plugin.add_controller("c", lambda ctx, request: None, MAPS)

    settings = {"workers": 2, "paused": not paused}
    host = ctrlhost_host(plugin_of(setup), supervision={"restart_delay": "10ms"}, controllers={"demo/c": settings})
    (runtime,) = host.host.plugins
    runtime.entries.fail("broken")
    assert begun.wait(LIMIT)
    change(host, workers=5, paused=paused or None)
    proceed.set()
    eventually(lambda: runtime.state == "running", LIMIT)
    assert controller(host).status().workers == 5
    assert controller(host).paused is paused


@behaviour("findings3/NO14")
def test_values_out_of_range_do_not_end_the_host(
    start_host: Callable[..., HostProcess], distributions: Any, tmp_path: Path
) -> None:
    distributions.add("demo", DEMO)
    file = tmp_path / "ctrlhost.toml"
    file.write_text("[informers]\nmemory_budget = '10Mi'\n")
    host = start_host("--sandbox", f"--config={file}", plugins="demo")
    host.line("plugin demo running")
    file.write_text("[informers]\nmemory_budget = 99999999999999999999\n")
    host.signal(signal.SIGHUP)
    host.line("settings not reloaded: informers: `memory_budget` must be at most 9223372036854775807")
    file.write_text(f"a = {'[' * 5000}")
    host.signal(signal.SIGHUP)
    host.line(f"settings not reloaded: {file}: invalid TOML: ")
    file.write_text("[informers]\nmemory_budget = '20Mi'\n")
    host.signal(signal.SIGHUP)
    host.line("settings reloaded: informers.memory_budget", after=len(host.lines))
    assert host.stop() == 0


@behaviour("findings3/NO14")
def test_a_change_that_fails_is_logged_and_the_host_goes_on(
    ctrlhost_host: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = ctrlhost_host(plugin(lambda ctx, request: None))

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        change(host, workers=1_000)
    assert "settings reloaded only in part" in caplog.text
    assert "can't start new thread" in caplog.text
    change(host, workers=3)
    assert controller(host).status().workers == 3


@behaviour("findings3/NO14")
def test_workers_that_wait_for_a_key_are_kept_for_the_next_change(ctrlhost_host: Any) -> None:
    held = Held()
    host = ctrlhost_host(plugin(held.plain))
    for _ in range(5):
        change(host, workers=1)
        change(host, workers=4)
    assert sum(thread.name.startswith("demo/c worker") for thread in threading.enumerate()) == 4
    for number in range(6):
        host.client.create(config_map(f"a-{number}", labels=MINE))
    eventually(lambda: controller(host).status().active == 4 and len(controller(host).queue) == 2, LIMIT)
    held.release()
    host.run_until_idle()
    assert controller(host).status().runs == 6
