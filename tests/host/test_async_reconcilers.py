"""`async def` reconcilers on a real API server: which calls may block."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import ctrlhost
from ctrlhost import For, Request, Stale
from ctrlhost.own_writes import lister
from ctrlhost.testing import ManualClock
from tests.support.plugin_modules import config_map, plugin_of

SOURCE = For("v1", "ConfigMap", label_selector="mine")


def controller(reconcile: Any, **options: Any) -> Any:
    return plugin_of(lambda plugin: plugin.add_controller("c", reconcile, SOURCE, **options))


def names(ctx: ctrlhost.Context) -> list[str]:
    return sorted(obj.name for obj in ctx.lister("v1", "ConfigMap").list())


def test_a_list_on_the_event_loop_does_not_block_and_has_an_awaited_write(ctrlhost_host) -> None:
    hints: list[str] = []
    seen: list[list[str]] = []
    ticks = 0

    async def write(ctx: ctrlhost.Context, request: Request) -> None:
        nonlocal ticks
        if request.name != "ann" or seen:
            return

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0)
                ticks += 1

        with host.faults.hold_watches():
            await ctx.async_client.create(config_map("copy", labels={"mine": "1"}))
            with pytest.raises(Stale) as caught:
                names(ctx)
            hints.append(caught.value.hint or "")
        # Other tasks of the loop run during this wait.
        ticking = asyncio.ensure_future(tick())
        await ctx.lister("v1", "ConfigMap").caught_up("default")
        ticking.cancel()
        seen.append(names(ctx))

    host = ctrlhost_host(controller(write))
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    assert "caught_up()" in hints[0]
    assert seen == [["ann", "copy"]]
    assert host.controllers["demo/c"].status().last_error is None


def test_waiting_for_a_lagging_cache_raises_stale_and_is_retried(
    ctrlhost_host, manual_clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lister, "WAIT_SECONDS", 0.05)
    seen: list[list[str]] = []

    async def write(ctx: ctrlhost.Context, request: Request) -> None:
        if request.name != "ann":
            return
        if await ctx.async_client.find("v1", "ConfigMap", "copy", "default") is None:
            with host.faults.hold_watches():
                await ctx.async_client.create(config_map("copy", labels={"mine": "1"}))
                await ctx.lister("v1", "ConfigMap").caught_up()
        seen.append(names(ctx))

    host = ctrlhost_host(controller(write), clock=manual_clock)
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    assert host.controllers["demo/c"].status().last_error.startswith("Stale: the cache does not show the write of ")
    manual_clock.advance(1)
    host.run_until_idle()
    assert seen == [["ann", "copy"]]


@pytest.mark.behaviour("findings3/NC17")
def test_a_slot_is_replaced_for_the_run_that_is_stuck_and_not_for_the_next_one(ctrlhost_host) -> None:
    proceed: list[asyncio.Event] = []
    running = threading.Event()

    async def wait(ctx: ctrlhost.Context, request: Request) -> None:
        proceed.append(asyncio.Event())
        running.set()
        await proceed[-1].wait()

    host = ctrlhost_host(controller(wait))
    host.client.create(config_map("a", labels={"mine": "1"}))
    assert running.wait(30)
    workers: Any = host.controllers["demo/c"]._pool
    (run,) = workers._runs

    def replaced(number: int) -> int:
        """Report the run of a number as stuck, and return the number of slots."""
        done = threading.Event()
        workers._loop.call(workers._replace_here, run, number)
        workers._loop.call(done.set)
        assert done.wait(30)
        return len(workers._runs)

    assert replaced(run.context.number - 1) == 1
    assert replaced(run.context.number) == 2
    workers._loop.call(proceed[0].set)
    host.run_until_idle()
