"""Periods of declared controllers, and declared tasks."""

from __future__ import annotations

import asyncio
import functools
import threading

import pytest

import ctrlhost
from ctrlhost import For, Object
from ctrlhost.controller import ticker
from ctrlhost.testing import ManualClock
from tests.support.declared import declared
from tests.support.plugin_modules import config_map

behaviour = pytest.mark.behaviour


@behaviour("authoring/AU19")
def test_a_controller_with_a_period_runs_each_object_once_per_round(
    ctrlhost_host, manual_clock: ManualClock, monkeypatch
) -> None:
    plugin, ran = declared(), list[tuple[str, float]]()
    jitter = iter([0.0, 1.0, 0.5])
    monkeypatch.setattr(ticker, "choose_jitter", lambda clock: lambda: next(jitter))

    @plugin.controller(For("v1/ConfigMap", label_selector="mine"), every="10m")
    def reconcile(ctx: ctrlhost.Context, obj: Object) -> None:
        ran.append((obj.name, ctx.clock.now()))

    host = ctrlhost_host(plugin, clock=manual_clock)
    for name in ("ann", "bob", "cat"):
        host.client.create(config_map(name, labels={"mine": "1"}))
    host.run_until_idle()
    ran.clear()
    manual_clock.advance("9m")
    host.run_until_idle()
    assert ran == []
    for _ in range(4):
        manual_clock.advance("30s")
        host.run_until_idle()
    assert sorted(name for name, _ in ran) == ["ann", "bob", "cat"]
    assert [at for _, at in ran] == [600, 630, 660]


@behaviour("authoring/AU22")
def test_a_task_is_called_after_a_delay_and_then_periodically(ctrlhost_host, manual_clock: ManualClock) -> None:
    plugin, calls, proceed = declared(), list[tuple[float, object]](), threading.Event()

    @plugin.task(every="30s", first_after="10s")
    def sweep(host: ctrlhost.PluginContext, stop: threading.Event) -> None:
        calls.append((manual_clock.now(), host.name))
        assert not stop.is_set()
        assert proceed.wait(30)

    @plugin.task()
    def once(host: ctrlhost.PluginContext, stop: threading.Event) -> None:
        calls.append((manual_clock.now(), "once"))

    host = ctrlhost_host(plugin, clock=manual_clock)
    sweep_task, once_task = host.host.plugins[0].context.tasks
    assert (sweep_task.name, once_task.name) == ("p/sweep", "p/once")
    host.wait_for(lambda: calls == [(0, "once")] and not once_task.running)
    manual_clock.advance("9s")
    assert len(calls) == 1
    manual_clock.advance("1s")
    host.wait_for(lambda: calls[1:] == [(10, "p")])
    waiting = manual_clock.waiters()
    # The call ends at 15 s.
    manual_clock.advance("5s")
    proceed.set()
    host.wait_for(lambda: manual_clock.waiters() > waiting)
    manual_clock.advance("29s")
    assert len(calls) == 2
    manual_clock.advance("1s")
    host.wait_for(lambda: calls[2:] == [(45, "p")])


@behaviour("authoring/AU22")
def test_an_async_task_is_cancelled_and_the_host_ends_in_time(ctrlhost_host) -> None:
    plugin, started, ended = declared(), threading.Event(), list[str]()

    @plugin.task(every="30s")
    async def wait(host: ctrlhost.PluginContext) -> None:
        started.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.append(host.name)
            raise

    host = ctrlhost_host(plugin)
    host.wait_for(started.is_set)
    assert host.stop()
    assert ended == ["p"]


def test_a_task_with_bound_arguments_has_the_name_of_its_function() -> None:
    class Sweep:
        def __call__(self, host: ctrlhost.PluginContext, stop: threading.Event) -> None: ...

    def clean_up(folder: str, host: ctrlhost.PluginContext, stop: threading.Event) -> None: ...

    plugin = declared()
    plugin.task()(functools.partial(clean_up, "old"))
    plugin.task()(Sweep())
    assert [task.name for task in plugin.declaration.tasks] == ["clean_up", "Sweep"]
    lines = [function.__code__.co_firstlineno for function in (clean_up, Sweep.__call__)]
    assert [task.place for task in plugin.declaration.tasks] == [f"{__file__}:{line}" for line in lines]
