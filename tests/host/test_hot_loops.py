"""Reconciles that only the host's own writes cause: found, named and slowed; busy keys are left alone."""

from __future__ import annotations

import itertools
import logging
import threading
from typing import Any

import pytest

import ctrlhost
from ctrlhost import For, Owns, Request, Watches
from ctrlhost.controller.hot_loops import HotLoops
from ctrlhost.testing import ManualClock
from tests.support.plugin_modules import config_map, plugin_of

LOGGER = "ctrlhost.controller"


class Rig:
    """A host whose clock the test advances, with what its reconcilers did."""

    def __init__(self, start: Any, clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
        self._start = start
        self.clock = clock
        self._caplog = caplog
        self.numbers = itertools.count()
        self.runs: dict[str, list[float]] = {}
        caplog.set_level(logging.INFO, "ctrlhost")

    def run(self, *plugins: Any, **settings: Any) -> Any:
        self.host = self._start(*plugins, clock=self.clock, **settings)
        return self.host

    def plugin(self, name: str, reconcile: Any, *sources: Any, **options: Any) -> Any:
        """Return a plugin whose reconciler is recorded."""
        runs = self.runs[name] = []

        def recorded(ctx: ctrlhost.Context, request: Request) -> Any:
            runs.append(self.clock.now())
            return reconcile(ctx, request)

        return plugin_of(lambda plugin: plugin.add_controller("c", recorded, *sources, **options), name)

    def warnings(self) -> list[Any]:
        return [record for record in self._caplog.records if "its next runs wait" in record.message]

    def hot(self, name: str) -> float:
        value = self.metric("ctrlhost_hot_keys", controller=f"{name}/c")
        assert value is not None
        return value

    def metric(self, name: str, **labels: str) -> float | None:
        return self.host.host.state.metrics.registry.get_sample_value(name, labels)

    def is_hot(self, name: str) -> None:
        self.host.wait_for(lambda: self.hot(name) == 1)

    def advance(self, seconds: float) -> None:
        """Move the clock in steps, each after the work of the one before."""
        for _ in range(round(seconds * 2)):
            self.host.run_until_idle()
            self.clock.advance(0.5)
        self.host.run_until_idle()


@pytest.fixture
def rig(ctrlhost_host: Any, manual_clock: ManualClock, caplog: pytest.LogCaptureFixture) -> Rig:
    return Rig(ctrlhost_host, manual_clock, caplog)


def mine(**options: Any) -> For:
    return For("v1", "ConfigMap", label_selector="mine", **options)


@pytest.mark.behaviour("supervision/BU9")
@pytest.mark.parametrize("is_async", [False, True], ids=["def", "async def"])
def test_a_reconcile_that_writes_its_own_object_each_time_is_slowed_until_it_writes_nothing(rig, is_async) -> None:
    writes = True

    def body(request: Request) -> Any:
        return "v1", "ConfigMap", request.name, request.namespace, {"data": {"n": str(next(rig.numbers))}}

    runs: list[float] = []

    def reconcile(ctx: ctrlhost.Context, request: Request) -> None:
        runs.append(rig.clock.now())
        if writes:
            ctx.client.patch(*body(request))

    async def reconcile_async(ctx: ctrlhost.Context, request: Request) -> None:
        runs.append(rig.clock.now())
        if writes:
            await ctx.async_client.patch(*body(request))

    wanted = reconcile_async if is_async else reconcile
    host = rig.run(plugin_of(lambda plugin: plugin.add_controller("c", wanted, mine(), workers=2), "bad"))
    host.client.create(config_map("ann", labels={"mine": "1"}))
    rig.is_hot("bad")
    host.run_until_idle()
    assert len(runs) < 90
    # 40 seconds: runs after 1, 2, 4, 8 and 16 seconds, then one each 30 seconds.
    rig.advance(40)
    assert [run for run in runs if run] == [1.0, 3.0, 7.0, 15.0, 31.0]
    (warning,) = rig.warnings()
    assert warning.levelname == "WARNING"
    assert warning.message.startswith("controller bad/c: reconcile of default/ann ran ")
    assert "patch by ctrlhost-bad" in warning.message
    assert (warning.key, warning.verbs, warning.managers) == ("default/ann", ["patch"], ["ctrlhost-bad"])
    assert warning.rate > 2
    (plugin,) = host.host.plugins
    assert "default/ann" in plugin.entries.degraded["hot-loop"]
    assert rig.metric("ctrlhost_plugin_degraded", plugin="bad", reason="hot-loop") == 1
    # A run that writes nothing ends it.
    writes = False
    rig.advance(21)
    assert runs[-1] == 61.0
    assert rig.hot("bad") == 0
    before = len(runs)
    for number in range(5):
        host.client.patch("v1", "ConfigMap", "ann", "default", {"data": {"other": str(number)}})
        host.run_until_idle()
    assert len(runs) == before + 5
    assert "hot-loop" in plugin.entries.degraded
    rig.clock.advance(60)
    host.wait_for(lambda: "hot-loop" not in plugin.entries.degraded)
    assert len(rig.warnings()) == 1


@pytest.mark.behaviour("supervision/BU9")
def test_an_event_of_somebody_else_runs_a_hot_key_within_a_second(rig) -> None:
    def reconcile(ctx: ctrlhost.Context, request: Request) -> None:
        ctx.client.patch("v1", "ConfigMap", "ann", "default", {"data": {"n": str(next(rig.numbers))}})

    host = rig.run(rig.plugin("bad", reconcile, mine()))
    host.client.create(config_map("ann", labels={"mine": "1"}))
    rig.is_hot("bad")
    rig.advance(8)
    runs = rig.runs["bad"]
    assert runs[-1] == 7.0
    # Ten changes cause one run, not ten.
    for number in range(10):
        host.client.patch("v1", "ConfigMap", "ann", "default", {"data": {"other": str(number)}})
    host.run_until_idle()
    rig.advance(1)
    assert runs[-1] in (8.0, 8.5, 9.0)
    assert sum(run > 7.0 for run in runs) == 1
    assert rig.hot("bad") == 1


@pytest.mark.behaviour("supervision/BU9")
def test_changes_that_come_while_one_is_looked_at_cause_one_run(rig, monkeypatch) -> None:
    def reconcile(ctx: ctrlhost.Context, request: Request) -> None:
        ctx.client.patch("v1", "ConfigMap", "ann", "default", {"data": {"n": str(next(rig.numbers))}})

    looking, go_on, cause = threading.Event(), threading.Event(), HotLoops._cause
    go_on.set()

    def slow(self: HotLoops, *arguments: Any) -> Any:
        looking.set()
        assert go_on.wait(30)
        return cause(self, *arguments)

    monkeypatch.setattr(HotLoops, "_cause", slow)
    host = rig.run(rig.plugin("bad", reconcile, mine()))
    host.client.create(config_map("ann", labels={"mine": "1"}))
    rig.is_hot("bad")
    rig.advance(8)
    runs = rig.runs["bad"]
    assert runs[-1] == 7.0
    go_on.clear()
    looking.clear()
    for number in range(3):
        changed = host.client.patch("v1", "ConfigMap", "ann", "default", {"data": {"other": str(number)}})
        assert looking.wait(30)
    (controller,) = host.controllers.values()
    (informer,) = controller.informers
    host.wait_for(lambda: informer.last_resource_version == changed["metadata"]["resourceVersion"])
    host.wait_for(lambda: not informer.pending)
    go_on.set()
    host.run_until_idle()
    assert runs[-1] == 7.0
    rig.advance(1)
    assert runs[-1] in (8.0, 8.5, 9.0)
    assert sum(run > 7.0 for run in runs) == 1


@pytest.mark.behaviour("supervision/BU10")
@pytest.mark.parametrize("always", [False, True], ids=["if it differs", "always"])
def test_two_plugins_that_overwrite_each_others_field_are_both_named_and_slowed(rig, always) -> None:
    def wants(value: str) -> Any:
        def reconcile(ctx: ctrlhost.Context, request: Request) -> None:
            obj = ctx.get(request)
            if obj is not None and (always or obj.get_path("data", "owner") != value):
                ctx.client.apply(config_map("ann", labels={"mine": "1"}, owner=value))

        return reconcile

    host = rig.run(rig.plugin("one", wants("1"), mine()), rig.plugin("two", wants("2"), mine()))
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.wait_for(lambda: {entry.args[0] for entry in rig.warnings()} == {"one/c", "two/c"} or rig.clock.advance(0.05))
    for warning in rig.warnings():
        assert warning.managers == ["ctrlhost-one", "ctrlhost-two"]
        assert "apply by ctrlhost-one" in warning.message
        assert "apply by ctrlhost-two" in warning.message
    host.run_until_idle()
    before = {name: len(runs) for name, runs in rig.runs.items()}
    rig.advance(40)
    for name, runs in rig.runs.items():
        assert len(runs) - before[name] < 40, (name, runs[before[name] :])


@pytest.mark.behaviour("supervision/BU11")
def test_a_busy_key_without_own_writes_is_not_hot(rig) -> None:
    host = rig.run(rig.plugin("bad", lambda ctx, request: None, mine()))
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    for number in range(200):
        host.client.patch("v1", "ConfigMap", "ann", "default", {"data": {"n": str(number)}})
        host.run_until_idle()
        rig.clock.advance(0.01)
    assert len(rig.runs["bad"]) == 201
    assert not rig.warnings()
    assert rig.hot("bad") == 0


@pytest.mark.behaviour("supervision/BU11")
@pytest.mark.parametrize("source", ["the object", "another kind", "an owned object"])
def test_a_status_that_is_written_once_for_each_change_of_others_is_not_hot(rig, source) -> None:
    def reconcile(ctx: ctrlhost.Context, request: Request) -> None:
        kind = {"the object": "ConfigMap", "another kind": "Secret", "an owned object": "Secret"}[source]
        wanted = ctx.client.get("v1", kind, "ann", "default")["metadata"].get("annotations", {}).get("spec", "")
        if ctx.get(request).get_path("data", "status") != wanted:
            ctx.client.patch("v1", "ConfigMap", "ann", "default", {"data": {"status": wanted}})

    sources = {
        "the object": (),
        "another kind": (Watches("v1", "Secret", map=lambda obj: [Request("ann", "default")]),),
        "an owned object": (Owns("v1", "Secret"),),
    }[source]
    plugin = rig.plugin("bad", reconcile, mine(), *sources)
    host = rig.run(plugin, start=False)
    owner = host.client.create(config_map("ann", labels={"mine": "1"}))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ann", "namespace": "default"}}
    host.client.create(secret, owner=owner)
    host.start()
    kind = "ConfigMap" if source == "the object" else "Secret"
    for number in range(60):
        change = {"metadata": {"annotations": {"spec": str(number)}}}
        host.client.patch("v1", kind, "ann", "default", change)
        host.run_until_idle()
        rig.clock.advance(0.05)
    assert host.client.get("v1", "ConfigMap", "ann", "default")["data"]["status"] == "59"
    assert not rig.warnings()
    assert rig.hot("bad") == 0


@pytest.mark.behaviour("supervision/BU11")
@pytest.mark.parametrize("cause", ["enqueue", "requeue_after"])
def test_runs_that_a_call_or_a_timer_causes_are_not_hot(rig, cause) -> None:
    handles: list[Any] = []
    wanted = [0]

    def reconcile(ctx: ctrlhost.Context, request: Request) -> Any:
        if ctx.get(request).get_path("data", "n") != str(wanted[0]):
            ctx.client.patch("v1", "ConfigMap", "ann", "default", {"data": {"n": str(wanted[0])}})
        return ctrlhost.Result(requeue_after=0.1) if cause == "requeue_after" else None

    runs: list[Request] = []

    def setup(plugin: ctrlhost.PluginContext) -> None:
        def recorded(ctx: ctrlhost.Context, request: Request) -> Any:
            runs.append(request)
            return reconcile(ctx, request)

        handles.append(plugin.add_controller("c", recorded, mine()))

    host = rig.run(plugin_of(setup, "bad"))
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    for _ in range(60):
        wanted[0] += 1
        if cause == "enqueue":
            handles[0].enqueue(Request("ann", "default"))
        rig.clock.advance(0.1)
        host.run_until_idle()
    assert host.client.get("v1", "ConfigMap", "ann", "default")["data"]["n"] == "60"
    assert len(runs) >= 60
    assert not rig.warnings()


def test_the_setting_switches_it_off(rig, sandbox) -> None:
    def reconcile(ctx: ctrlhost.Context, request: Request) -> None:
        ctx.client.patch("v1", "ConfigMap", "ann", "default", {"data": {"n": str(next(rig.numbers))}})

    plugin = rig.plugin("bad", reconcile, mine())
    host = rig.run(plugin, start=False)
    host.host.configuration.tree["supervision"] = {"bad": {"hot_loop": False}}
    host.start()
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.wait_for(lambda: len(rig.runs["bad"]) > 150)
    assert not rig.warnings()
    assert rig.hot("bad") == 0
