"""Hooks of a plugin that hang, raise anything, or return late: the others never feel it."""

from __future__ import annotations

import threading
import types
from typing import Any

import pytest

import ctrlhost
from ctrlhost import For
from tests.support.misbehaviour import Good, Hang, metric, reason_of, state_of
from tests.support.objects import crd
from tests.support.plugin_modules import plugin_of
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour
MAPS = For("v1", "ConfigMap")


def nothing(_plugin: ctrlhost.PluginContext) -> None:
    """Register nothing."""


def read_slowly(hang: Hang) -> Any:
    class Bad:
        # pluggy reads no properties; the list of attributes is the plugin's code as well.
        def __dir__(self) -> Any:
            hang()
            return super().__dir__()

        @ctrlhost.hookimpl
        def ctrlhost_setup(self, plugin: ctrlhost.PluginContext) -> None:
            nothing(plugin)

    return Bad()


@behaviour("supervision/EN1")
@pytest.mark.parametrize("entry", ["import", "registration", "ctrlhost_settings", "ctrlhost_setup"])
def test_a_hanging_start_delays_nobody(start, good: Good, hang: Hang, distributions, entry: str, monkeypatch) -> None:
    if entry == "import":
        monkeypatch.setattr(threading, "hang_of_the_test", hang, raising=False)
        distributions.add("bad", "import threading\nthreading.hang_of_the_test()\n", module="bad_that_hangs")
        bad: Any = "bad"
    elif entry == "registration":
        bad = read_slowly(hang)
    elif entry == "ctrlhost_settings":
        bad = plugin_of(nothing, "bad", settings=lambda: hang())
    else:
        bad = plugin_of(hang, "bad")
    host = start(bad, begin=False, listen="127.0.0.1:0", supervision={"deadlines": {"hook": 4.0}})
    starting = threading.Thread(target=host.host.start)
    starting.start()
    assert hang.begun.wait(30)
    eventually(lambda: host.host.address)
    assert host.host.inspection.checks("livez")[0].passed
    good.goes_on(host)
    # `good` did not wait for the deadline of `bad`.
    assert state_of(host, "bad") == "starting"
    starting.join(30)
    eventually(lambda: state_of(host, "bad") == "failing")
    named = "import" if entry == "registration" else entry
    assert reason_of(host, "bad") == f"{named} did not return within 4 s"


@behaviour("supervision/EN2")
def test_what_a_late_setup_registers_never_runs(start, good: Good, hang: Hang, caplog) -> None:
    runs: list[str] = []
    attempts: list[int] = []

    def setup(plugin: ctrlhost.PluginContext) -> None:
        attempts.append(1)
        number = len(attempts)
        plugin.add_controller("all", lambda ctx, request: runs.append(f"{number}/{request.name}"), MAPS)
        if number == 1:
            hang()

    host = start(plugin_of(setup, "bad"), supervision={"restart_delay": 0.2})
    eventually(lambda: state_of(host, "bad") == "running")
    good.goes_on(host)
    hang.release()
    eventually(lambda: any("returned after" in line for line in caplog.messages))
    (line,) = [line for line in caplog.messages if "returned after" in line]
    assert line.startswith("plugin bad: ctrlhost_setup returned after ")
    assert line.endswith("result dropped")
    host.run_until_idle()
    assert [controller.name for controller in host.host.plugins[0].controllers] == ["bad/all"]
    assert {run.partition("/")[0] for run in runs} == {"2"}
    assert state_of(host, "bad") == "running"


@behaviour("supervision/EN3")
@pytest.mark.parametrize("count", [0, 1])
def test_hanging_crds_hold_up_nobody(start, hang: Hang, ctrlhost_host, count: int) -> None:
    def crds() -> Any:
        if count:
            yield crd("example.com", "Half")
        hang()

    other = plugin_of(
        lambda plugin: plugin.add_controller("c", lambda *_: None, MAPS),
        "other",
        crds=lambda: [crd("example.com", "Whole")],
    )
    bad = plugin_of(nothing, "bad", crds=crds)
    host = ctrlhost_host(
        bad, other, start=False, supervision={"bad": {"deadlines": {"hook": 0.5}, "restart_delay": 60.0}}
    ).start()
    eventually(lambda: state_of(host, "other") == "running")
    eventually(lambda: state_of(host, "bad") == "failing")
    assert reason_of(host, "bad") == "ctrlhost_crds did not return within 0.5 s"
    names = [obj["metadata"]["name"] for obj in host.client.list("apiextensions.k8s.io/v1", "CustomResourceDefinition")]
    assert names == ["wholes.example.com"]


class Strange(BaseException):
    """Neither an Exception nor an exit."""


@behaviour("supervision/EN4")
@pytest.mark.parametrize("error", [SystemExit(0), KeyboardInterrupt(), GeneratorExit(), Strange("odd")])
@pytest.mark.parametrize("where", ["import", "crds"])
def test_whatever_a_start_raises_fails_only_its_plugin(
    start, good: Good, distributions, monkeypatch, where: str, error: BaseException
) -> None:
    def fail() -> None:
        raise error

    if where == "import":
        monkeypatch.setattr(threading, "fail_of_the_test", fail, raising=False)
        module = f"bad_that_raises_{type(error).__name__}"
        distributions.add("bad", "import threading\nthreading.fail_of_the_test()\n", module=module)
    host = start("bad" if where == "import" else plugin_of(nothing, "bad", crds=fail))
    eventually(lambda: state_of(host, "bad") == "failing")
    assert type(error).__name__ in reason_of(host, "bad")
    good.goes_on(host)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


@behaviour("supervision/EN6")
@pytest.mark.parametrize("hook", ["settings", "crds", "setup", "synced", "elected"])
def test_an_exception_without_a_text_is_named_by_its_class(start, good: Good, caplog, hook: str) -> None:
    def fail(*_: Any) -> None:
        raise Mute

    hooks = (
        {} if hook == "setup" else {hook: (lambda: fail()) if hook in ("settings", "crds") else lambda plugin: fail()}
    )
    host = start(plugin_of(fail if hook == "setup" else nothing, "bad", **hooks))
    eventually(lambda: state_of(host, "bad") == "failing")
    assert reason_of(host, "bad").startswith(f"ctrlhost_{hook}: Mute")
    assert any("ctrlhost_" in line and "Mute" in line for line in caplog.messages)
    good.goes_on(host)
    assert state_of(host, "good") == "running"


@behaviour("supervision/EN7")
def test_no_worker_runs_while_synced_hangs(start, good: Good, hang: Hang) -> None:
    runs: list[Any] = []

    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("all", lambda ctx, request: runs.append(request), MAPS)

    host = start(plugin_of(setup, "bad", synced=lambda plugin: hang()))
    eventually(lambda: state_of(host, "bad") == "failing")
    good.goes_on(host)
    assert runs == []
    assert reason_of(host, "bad") == "ctrlhost_synced did not return within 0.5 s"


@behaviour("supervision/EN8")
def test_a_hanging_elected_hook_delays_no_other(ctrlhost_host, hang: Hang) -> None:
    led = threading.Event()
    fine = plugin_of(nothing, "fine", elected=lambda plugin: led.set())
    host = ctrlhost_host(
        plugin_of(nothing, "bad", elected=lambda plugin: hang()),
        fine,
        leader_elect=True,
        supervision={"bad": {"deadlines": {"hook": 0.5}, "restart_delay": 60.0}},
    )
    assert led.wait(30)
    eventually(lambda: state_of(host, "bad") == "failing")
    assert reason_of(host, "bad") == "ctrlhost_elected did not return within 0.5 s"
    assert state_of(host, "fine") == "running"


@behaviour("supervision/EN29")
def test_a_deadline_of_zero_is_none(ctrlhost_host, hang: Hang, caplog) -> None:
    host = ctrlhost_host(
        plugin_of(nothing, "bad", synced=lambda plugin: hang()),
        start=False,
        supervision={"bad": {"deadlines": {"hook": 0}}},
    )
    host.host.start()
    assert hang.begun.wait(30)
    (plugin,) = host.host.plugins
    # A look at the entries at any later time finds none that is overdue.
    (entry,) = [call for call in plugin.entries._open if call.started is not None]
    assert not entry.check(entry.started + 3600)
    assert plugin.entries.running() == []
    hang.release()
    eventually(lambda: plugin.state == "running")
    assert not [line for line in caplog.messages if "runs for" in line or "returned after" in line]
    assert metric(host, "ctrlhost_entry_overruns_total") is None


@behaviour("supervision/EN30")
def test_a_result_at_the_deadline_is_either_used_or_dropped(caplog) -> None:
    from ctrlhost.entries import Entries

    entries = Entries("bad", {"hook": 0.001, "stopping": 0, "callback": 0, "page": 0, "probe": 0})
    used = 0
    for _ in range(1000):
        entry = entries.open("ctrlhost_setup", late="dropped")
        entry.begin()
        began = entry.started
        assert began is not None
        # The check at the deadline, on another thread, at the moment of the return.
        barrier = threading.Barrier(2)

        def check(entry: Any = entry, began: float = began, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            entry.check(began + 0.001)

        checking = threading.Thread(target=check)
        checking.start()
        barrier.wait()
        in_time = entry.end()
        checking.join()
        used += in_time
        assert entry.late is not in_time
        entry.close()
    reports = [line for line in caplog.messages if " runs for " in line]
    dropped = [line for line in caplog.messages if line.endswith("result dropped")]
    assert used + len(dropped) == 1000
    assert len(reports) == entries.overruns["ctrlhost_setup"] == len(dropped)
    assert entries.overdue() == {}


@behaviour("supervision/EN25")
@pytest.mark.parametrize(
    "call",
    [
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        "loop = asyncio.new_event_loop()\ntry: loop.add_signal_handler(signal.SIGTERM, print)\nfinally: loop.close()",
        "signal.set_wakeup_fd(-1)",
    ],
)
def test_a_plugin_cannot_take_signals(start, good: Good, call: str) -> None:
    def setup(_plugin: ctrlhost.PluginContext) -> None:
        exec(f"import asyncio, signal\n{call}", {})

    host = start(plugin_of(setup, "bad"))
    eventually(lambda: state_of(host, "bad") == "failing")
    reason = reason_of(host, "bad")
    assert "main thread" in reason or "set_wakeup_fd" in reason
    good.goes_on(host)


def test_each_hook_has_context_variables_of_its_own(ctrlhost_host) -> None:
    from contextvars import ContextVar

    mark: ContextVar[str] = ContextVar("mark", default="")
    seen: list[str] = []

    def setup(_plugin: ctrlhost.PluginContext) -> None:
        mark.set("from setup")

    host = ctrlhost_host(plugin_of(setup, "bad", synced=lambda plugin: seen.append(mark.get())))
    eventually(lambda: state_of(host, "bad") == "running")
    assert seen == [""]


def test_plugins_of_one_module_are_refused(ctrlhost_host) -> None:
    module = types.ModuleType("same")
    module.ctrlhost_setup = ctrlhost.hookimpl(lambda plugin: None)  # type: ignore[attr-defined]
    assert len(ctrlhost_host(module, module).host.plugins) == 1
