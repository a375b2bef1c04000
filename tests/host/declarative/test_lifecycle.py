"""Functions of `@plugin.setup` with a `yield`, and tasks that end after the last run."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

import ctrlhost

if TYPE_CHECKING:
    from collections.abc import Callable

FORMS = ("generator", "async generator")


class Pool:
    """A connection that records what is done with it."""

    def __init__(self, order: list[str]) -> None:
        self.order = order
        self.closed = False

    def use(self, by: str) -> None:
        self.order.append(f"{by} {'after' if self.closed else 'before'} close")

    def close(self) -> None:
        self.closed = True
        self.order.append("closed")


def plugin_of(form: str, order: list[str]) -> ctrlhost.Plugin[None]:
    """Return a plugin whose pool is closed after the `yield`."""
    plugin: ctrlhost.Plugin[None] = ctrlhost.Plugin()
    plugin.__name__ = "demo"

    def connect(host: Any) -> Any:
        pool = Pool(order)
        yield pool
        pool.close()

    async def connect_async(host: Any) -> Any:
        await asyncio.sleep(0)
        pool = Pool(order)
        yield pool
        await asyncio.sleep(0)
        pool.close()

    plugin.setup(connect_async if form == "async generator" else connect)
    return plugin


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}


@pytest.mark.behaviour("findings3/NA3")
@pytest.mark.parametrize("form", FORMS)
def test_what_follows_the_yield_runs_after_the_last_run_and_the_last_task(ctrlhost_host: Any, form: str) -> None:
    order: list[str] = []
    running, release, drained = threading.Event(), threading.Event(), threading.Event()
    plugin = plugin_of(form, order)

    @plugin.controller("v1/ConfigMap", name="maps")
    def reconcile(ctx: Any, obj: Any) -> None:
        if obj.name == "slow":
            running.set()
            assert release.wait(30)
            ctx.state.use("run")

    @plugin.task(until="drained")
    def late(host: Any, stop: threading.Event) -> None:
        stop.wait()
        host.state.use("late task")
        drained.set()

    @plugin.task()
    def early(host: Any, stop: threading.Event) -> None:
        stop.wait()
        host.state.use("task")
        # The task that ends after the runs has not ended, and neither has the run.
        assert not drained.is_set()
        release.set()

    @plugin.stopping
    def stopping(host: Any) -> None:
        host.state.use("stopping")

    host = ctrlhost_host(plugin)
    host.client.create(config_map("slow"))
    assert running.wait(30)
    assert host.stop()
    assert order == [
        "stopping before close",
        "task before close",
        "run before close",
        "late task before close",
        "closed",
    ]


@pytest.mark.behaviour("findings3/NA3")
@pytest.mark.parametrize("form", FORMS)
def test_a_restarted_plugin_closes_what_it_has_opened(ctrlhost_host: Any, form: str) -> None:
    order: list[str] = []
    attempts: list[Pool] = []
    plugin = plugin_of(form, order)

    @plugin.synced
    def synced(host: Any) -> None:
        attempts.append(host.state)
        if len(attempts) == 1:
            raise RuntimeError("once")

    host = ctrlhost_host(plugin, supervision={"demo": {"restart_delay": 0.01}}, start=False)
    host.start()
    host.wait_for(lambda: len(attempts) == 2)
    assert attempts[0].closed
    assert not attempts[1].closed
    assert host.stop()
    assert order == ["closed", "closed"]


@pytest.mark.behaviour("findings3/NA3")
def test_a_setup_may_be_async_and_its_result_is_the_state(ctrlhost_host: Any) -> None:
    plugin: ctrlhost.Plugin[None] = ctrlhost.Plugin()
    plugin.__name__ = "demo"
    states: list[Any] = []

    @plugin.setup
    async def connect(host: Any) -> str:
        await asyncio.sleep(0)
        return "connected"

    @plugin.synced
    def synced(host: Any) -> None:
        states.append(host.state)

    ctrlhost_host(plugin)
    assert states == ["connected"]


@pytest.mark.behaviour("findings3/NA3")
def test_a_clean_up_that_raises_is_logged_and_the_others_run(ctrlhost_host: Any, caplog: Any) -> None:
    plugin: ctrlhost.Plugin[None] = ctrlhost.Plugin()
    plugin.__name__ = "demo"
    ended: list[str] = []

    @plugin.setup
    def first(host: Any) -> Any:
        yield
        ended.append("first")

    @plugin.setup
    def second(host: Any) -> Any:
        yield
        raise RuntimeError("broken pipe")

    @plugin.setup
    def third(host: Any) -> Any:
        yield
        yield

    host = ctrlhost_host(plugin)
    assert host.stop()
    assert ended == ["first"]
    assert "plugin demo: cleanup failed: RuntimeError: broken pipe" in caplog.text
    assert "yielded twice" in caplog.text


def connect_without_yield(host: Any) -> Any:
    return None
    yield


def declare_setup(plugin: ctrlhost.Plugin[None]) -> None:
    plugin.setup(connect_without_yield)


def declare_task(plugin: ctrlhost.Plugin[None]) -> None:
    end: Any = "later"

    @plugin.task(until=end)
    def late(host: Any, stop: threading.Event) -> None: ...


@pytest.mark.behaviour("findings3/NA3")
@pytest.mark.parametrize(
    ("declare", "text"),
    [
        (declare_setup, "ended without a `yield`"),
        (declare_task, 'until must be "stopping" or "drained", got \'later\''),
    ],
)
def test_a_generator_without_a_yield_and_an_unknown_end_of_a_task_are_mistakes(
    ctrlhost_host: Any, declare: Callable[[ctrlhost.Plugin[None]], None], text: str
) -> None:
    plugin: ctrlhost.Plugin[None] = ctrlhost.Plugin()
    plugin.__name__ = "demo"
    declare(plugin)
    host = ctrlhost_host(plugin)
    assert host.host.plugins[0].state in ("failing", "failed")
    assert text in host.host.plugins[0].reason


@pytest.mark.behaviour("findings3/NA23")
@pytest.mark.parametrize(("dry_run", "with_finalizer"), [(True, True), (True, False), (False, True)])
def test_a_dry_run_warns_once_of_effects_of_finalizers(
    ctrlhost_host: Any, caplog: Any, dry_run: bool, with_finalizer: bool
) -> None:
    plugin: ctrlhost.Plugin[None] = ctrlhost.Plugin()
    plugin.__name__ = "demo"

    @plugin.controller("v1/ConfigMap", name="maps")
    def reconcile(ctx: Any, obj: Any) -> None: ...

    if with_finalizer:

        @plugin.finalizer("example.com/cleanup", of=reconcile)
        def clean(ctx: Any, obj: Any) -> None: ...

    ctrlhost_host(plugin, dry_run=dry_run)
    warnings = [record.getMessage() for record in caplog.records if "outside Kubernetes" in record.getMessage()]
    assert len(warnings) == (dry_run and with_finalizer)
    assert all("finalizer functions of maps" in text and "`ctx.dry_run`" in text for text in warnings)
    assert "`ctx.dry_run`" in (ctrlhost.Plugin.finalizer.__doc__ or "")
