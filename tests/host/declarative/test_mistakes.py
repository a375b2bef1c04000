"""Mistakes that a run of a declared function finds."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import ctrlhost
from ctrlhost import For, Object
from tests.support.declared import declared
from tests.support.plugin_modules import config_map
from tests.support.waiting import eventually

MINE = For("v1/ConfigMap", label_selector="mine")


async def a_coroutine() -> None:
    pass


def returns(value: Any) -> Callable[..., Any]:
    def reconcile(ctx: ctrlhost.Context, obj: Object) -> Any:
        return value() if callable(value) else value

    return reconcile


def run_once(ctrlhost_host: Any, plugin: Any) -> Any:
    """Reconcile one object once; the retry is due later than the clock."""
    host = ctrlhost_host(plugin, clock=ctrlhost_testing_clock())
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    return host


def ctrlhost_testing_clock() -> Any:
    from ctrlhost.testing import ManualClock

    return ManualClock()


@pytest.mark.behaviour("authoring/AM5")
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (30, "returned 30; return None or ctrlhost.Result(requeue_after=30)"),
        (True, "returned True; return None or ctrlhost.Result()"),
        ("30s", "returned '30s'; return None or ctrlhost.Result(requeue_after='30s')"),
        (timedelta(1), "returned datetime.timedelta(days=1); return None or ctrlhost.Result(requeue_after="),
        # A value may be a secret.
        ({"password": "hunter2"}, "returned dict; return None or ctrlhost.Result()"),
        ("hunter2", "returned str; return None or ctrlhost.Result()"),
        (a_coroutine, "returned a coroutine that nothing awaits; make the function an `async def`"),
    ],
    ids=["number", "true", "text", "timedelta", "mapping", "secret", "coroutine"],
)
def test_a_result_of_another_type_fails_the_run(ctrlhost_host, value: Any, message: str) -> None:
    plugin = declared()
    plugin.controller(MINE)(returns(value))
    status = run_once(ctrlhost_host, plugin).controllers["p/configmap"].status()
    assert (status.runs, status.errors) == (1, 1)
    assert message in status.last_error
    assert "hunter2" not in status.last_error
    line = returns(value).__code__.co_firstlineno
    assert f"plugin p: {Path(__file__)}:{line}: reconcile: " in status.last_error


@pytest.mark.behaviour("authoring/AM6")
@pytest.mark.parametrize(
    "forgets",
    [
        lambda ctx: ctx.client.apply(config_map("other")),
        lambda ctx: ctx.cache("v1/ConfigMap").list(),
        lambda ctx: ctx.ensure(config_map("other")),
    ],
    ids=["client", "cache", "ensure"],
)
def test_a_forgotten_await_fails_the_run(ctrlhost_host, forgets: Callable[[Any], Any]) -> None:
    plugin = declared()

    @plugin.controller(MINE)
    async def reconcile(ctx: ctrlhost.AsyncContext, obj: Object) -> None:
        forgets(ctx)

    host = run_once(ctrlhost_host, plugin)
    status = host.controllers["p/configmap"].status()
    assert (status.runs, status.errors) == (1, 1)
    assert "was not awaited" in status.last_error
    assert f"(…) at test_mistakes.py:{forgets.__code__.co_firstlineno} " in status.last_error
    assert host.client.find("v1", "ConfigMap", "other", "default") is None


def wrapped(child: Any) -> None:
    try:
        child["status"]
    except TypeError as error:
        raise RuntimeError("no status") from error


@pytest.mark.behaviour("authoring/AM6")
@pytest.mark.parametrize(
    "uses",
    [
        lambda ctx, child: child.get_path("status"),
        lambda ctx, child: child["status"],
        lambda ctx, child: wrapped(child),
        lambda ctx, child: json.dumps({"made": child}),
        lambda ctx, child: ctx.event("Made", child),
    ],
    ids=["attribute", "item", "cause", "json", "event"],
)
def test_the_use_of_a_forgotten_await_fails_the_run_with_its_place(
    ctrlhost_host, uses: Callable[[Any, Any], Any]
) -> None:
    plugin = declared()

    @plugin.controller(MINE, owns=["v1/Secret"])
    async def reconcile(ctx: ctrlhost.AsyncContext, obj: Object) -> None:
        child = ctx.ensure({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})
        uses(ctx, child)

    host = run_once(ctrlhost_host, plugin)
    status = host.controllers["p/configmap"].status()
    assert (status.runs, status.errors) == (1, 1)
    line = reconcile.declared.function.__code__.co_firstlineno + 2
    assert f"ctx.ensure(…) at test_mistakes.py:{line} was not awaited" in status.last_error
    assert host.client.find("v1", "Secret", "s", "default") is None


def test_an_error_beside_a_task_that_has_not_begun_is_itself(ctrlhost_host) -> None:
    plugin = declared()

    @plugin.controller(MINE, owns=["v1/Secret"])
    async def reconcile(ctx: ctrlhost.AsyncContext, obj: Object) -> None:
        tasks.append(asyncio.create_task(ctx.ensure({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})))
        raise TypeError("a mistake of the author")

    tasks: list[Any] = []
    host = run_once(ctrlhost_host, plugin)
    assert host.controllers["p/configmap"].status().last_error.startswith("TypeError: a mistake of the author")
    eventually(lambda: tasks[0].done())
    assert tasks[0].cancelled()


@pytest.mark.behaviour("authoring/AM6")
def test_a_call_of_a_task_that_never_began_fails_the_run(ctrlhost_host) -> None:
    plugin, tasks = declared(), []

    @plugin.controller(MINE, owns=["v1/Secret"])
    async def reconcile(ctx: ctrlhost.AsyncContext, obj: Object) -> None:
        child = ctx.ensure({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})
        tasks.append(asyncio.create_task(awaited(child)))

    async def awaited(child: Any) -> None:
        await child

    host = run_once(ctrlhost_host, plugin)
    status = host.controllers["p/configmap"].status()
    assert (status.runs, status.errors) == (1, 1)
    line = reconcile.declared.function.__code__.co_firstlineno + 2
    assert f"ctx.ensure(…) at test_mistakes.py:{line} was not awaited" in status.last_error
    eventually(lambda: tasks[0].done())
    assert host.client.find("v1", "Secret", "s", "default") is None


@pytest.mark.behaviour("authoring/AM6")
def test_a_forgotten_await_in_a_finalizer_fails_the_run_and_keeps_the_finalizer(ctrlhost_host) -> None:
    plugin = declared()

    @plugin.controller(MINE)
    async def reconcile(ctx: ctrlhost.AsyncContext, obj: Object) -> None:
        pass

    @plugin.finalizer("example.com/cleanup", of=reconcile)
    async def clean_up(ctx: ctrlhost.AsyncContext, obj: Object) -> None:
        ctx.client.apply(config_map("other"))

    host = run_once(ctrlhost_host, plugin)
    host.client.delete("v1", "ConfigMap", "ann", "default")
    host.run_until_idle()
    status = host.controllers["p/configmap"].status()
    assert status.errors == 1
    line = clean_up.__code__.co_firstlineno + 2
    assert f"ctx.client.apply(…) at test_mistakes.py:{line} was not awaited" in status.last_error
    assert host.client.find("v1", "ConfigMap", "other", "default") is None
    assert host.client.get("v1", "ConfigMap", "ann", "default")["metadata"]["finalizers"] == ["example.com/cleanup"]


def test_a_task_that_outlives_its_run_writes_nothing(ctrlhost_host) -> None:
    plugin, ended, caught = declared(), threading.Event(), []

    @plugin.controller(MINE, owns=["v1/Secret"])
    async def reconcile(ctx: ctrlhost.AsyncContext, obj: Object) -> None:
        client, cache = ctx.client, ctx.cache("v1/Secret")

        async def late() -> None:
            await asyncio.to_thread(ended.wait)
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}
            for call in (lambda: ctx.ensure(secret), lambda: client.create(secret), cache.list):
                with pytest.raises(ctrlhost.PluginError, match="the run is over") as error:
                    await call()
                caught.append(error.value.hint)

        tasks.append(asyncio.create_task(late()))

    tasks: list[Any] = []
    host = run_once(ctrlhost_host, plugin)
    ended.set()
    eventually(lambda: tasks[0].done())
    assert len(caught) == 3
    assert host.client.find("v1", "Secret", "s", "default") is None
    assert host.controllers["p/configmap"].status().errors == 0


def test_calls_may_be_awaited_together(ctrlhost_host) -> None:
    plugin = declared()

    @plugin.controller(MINE)
    async def reconcile(ctx: ctrlhost.AsyncContext, obj: Object) -> None:
        calls = [ctx.client.apply(config_map(f"of-{number}")) for number in range(3)]
        await asyncio.gather(*calls)
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.client.apply(config_map("of-3")))

    host = run_once(ctrlhost_host, plugin)
    assert host.controllers["p/configmap"].status().last_error is None
    names = {obj["metadata"]["name"] for obj in host.client.list("v1", "ConfigMap", "default")}
    assert {f"of-{number}" for number in range(4)} <= names


@pytest.mark.behaviour("authoring/AM7")
def test_a_blocking_client_in_an_async_def_sends_nothing(ctrlhost_host) -> None:
    plugin = declared()

    @plugin.setup
    def setup(host: ctrlhost.PluginContext) -> ctrlhost.Client:
        return host.client

    @plugin.controller(MINE)
    async def reconcile(ctx: ctrlhost.AsyncContext, obj: Object) -> None:
        for call in (
            lambda: ctx.state.create(config_map("other")),
            lambda: ctx.client.client.create(config_map("other")),
            lambda: list(ctx.state.list("v1", "ConfigMap")),
        ):
            with pytest.raises(ctrlhost.BlockingCall, match=r"use ctx\.client, which is awaited here"):
                call()
        ctx.state.create(config_map("other"))

    host = run_once(ctrlhost_host, plugin)
    status = host.controllers["p/configmap"].status()
    assert (status.runs, status.errors) == (1, 1)
    assert "BlockingCall" in status.last_error
    assert host.client.find("v1", "ConfigMap", "other", "default") is None
