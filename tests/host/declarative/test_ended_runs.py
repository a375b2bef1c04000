"""Contexts that are used after their run, while the worker runs another object, and runs that the end cancels."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

import ctrlhost
from ctrlhost.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Callable

USES: dict[str, Callable[[Any], Any]] = {
    "ensure": lambda ctx: ctx.ensure(secret("stray")),
    "client": lambda ctx: ctx.client.create(secret("stray")),
    "status": lambda ctx: ctx.status.set(x=1),
    "event": lambda ctx: ctx.event("Stray", "written by a thread"),
    "events": lambda ctx: ctx.events.normal(config_map("b"), "Stray", "written by a thread"),
}


def secret(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"}}


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}


def new_plugin() -> ctrlhost.Plugin[None]:
    plugin: ctrlhost.Plugin[None] = ctrlhost.Plugin()
    plugin.__name__ = "demo"
    return plugin


@pytest.mark.behaviour("findings3/NC14")
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_thread_that_outlives_its_run_writes_nothing_for_the_next_object(ctrlhost_host: Any, use: Any) -> None:
    plugin = new_plugin()
    second, used = threading.Event(), threading.Event()
    errors: list[BaseException] = []
    threads: list[threading.Thread] = []

    def late(ctx: Any) -> None:
        assert second.wait(30)
        try:
            use(ctx)
        except PluginError as error:
            errors.append(error)
        finally:
            used.set()

    @plugin.controller("v1/ConfigMap", name="maps", owns=["v1/Secret"])
    def reconcile(ctx: Any, obj: Any) -> None:
        if obj.name == "a":
            within = threading.Thread(target=lambda: ctx.ensure(secret("within")))
            within.start()
            within.join()
            threads.append(threading.Thread(target=late, args=(ctx,)))
            threads[0].start()
        elif obj.name == "b":
            second.set()
            assert used.wait(30)

    host = ctrlhost_host(plugin)
    host.client.create(config_map("a"))
    host.run_until_idle()
    host.client.create(config_map("b"))
    host.run_until_idle()
    threads[0].join()
    (error,) = errors
    assert "after its run has ended: demo/maps default/a (0-" in str(error)
    assert {obj.name for obj in host.list("v1/Secret", "default")} == {"within"}
    assert not [event for event in host.events("default") if event["reason"] == "Stray"]


@pytest.mark.behaviour("findings3/NC14")
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_task_that_outlives_its_run_writes_nothing_for_the_next_object(ctrlhost_host: Any, use: Any) -> None:
    plugin = new_plugin()
    errors: list[BaseException] = []
    contexts: list[Any] = []

    @plugin.controller("v1/ConfigMap", name="maps", owns=["v1/Secret"])
    async def reconcile(ctx: Any, obj: Any) -> None:
        if obj.name == "a":
            contexts.append(ctx)
            await ctx.client.find("v1", "ConfigMap", "a", "default")
        elif obj.name == "b":
            try:
                if asyncio.iscoroutine(call := use(contexts[0])):
                    await call
            except PluginError as error:
                errors.append(error)

    host = ctrlhost_host(plugin)
    host.client.create(config_map("a"))
    host.run_until_idle()
    host.client.create(config_map("b"))
    host.run_until_idle()
    (error,) = errors
    assert "demo/maps default/a (0-" in str(error)
    assert not host.list("v1/Secret", "default")
    assert not [event for event in host.events("default") if event["reason"] == "Stray"]


@pytest.mark.behaviour("findings3/NA12")
def test_runs_that_the_end_of_the_drain_cancels_have_one_line_each(ctrlhost_host: Any, caplog: Any) -> None:
    plugin = new_plugin()
    running = threading.Semaphore(0)

    @plugin.controller("v1/ConfigMap", name="maps", workers=2)
    async def reconcile(ctx: Any, obj: Any) -> None:
        if obj.name in ("a", "b"):
            running.release()
            await asyncio.Event().wait()

    host = ctrlhost_host(plugin)
    for name in ("a", "b"):
        host.client.create(config_map(name))
        assert running.acquire(timeout=30)
    caplog.clear()
    caplog.set_level(logging.INFO)
    host.stop(0.2)
    lines = [record for record in caplog.records if "cancelled" in record.getMessage()]
    assert [(line.levelname, line.getMessage(), line.exc_info) for line in lines] == [
        ("INFO", "the reconcile was cancelled: the plugin ends", None)
    ] * 2
    assert not any(record.exc_info for record in caplog.records)
