"""Writes that were sent, and whose run, task or plugin ends before their answer."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

import ctrlhost
from ctrlhost.client.async_client import AsyncClient
from ctrlhost.testing import ManualClock
from ctrlhost.testing.fault_proxy import Fault
from tests.support.elections import LIMIT, gain, lease, lose, secret, written
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Write = Callable[[], Awaitable[Any]]

behaviour = pytest.mark.behaviour
MAPS = ctrlhost.For("v1", "ConfigMap", label_selector="mine")
#: The server gets the write this many seconds later; what would not wait for it is far earlier.
LATER = Fault.delay(1.5)


class Server:
    """A proxy that tells when the first write has left the host."""

    def __init__(self, proxy: Any, fault: Fault = LATER) -> None:
        """Inject the fault into the first write of a Secret."""
        self.proxy = proxy
        proxy.next(fault, resource="secrets", verb="apply")

    @property
    def sent(self) -> bool:
        return bool(self.proxy.left() == 0)

    async def is_sent(self) -> None:
        await asyncio.to_thread(eventually, lambda: self.sent, LIMIT)


def calls(host: Any) -> int:
    """Return the number of connections that carry requests."""
    transport = host.host.client.transport
    while hasattr(transport, "transport"):
        transport = transport.transport
    return int(transport.connections()["call"])


def numbers(host: Any) -> list[str]:
    """Return the numbers in the Secrets that the server received, in their order."""
    return [write.body.partition(b'"run":"')[2][:1].decode() for write in written(host)]


async def cancelled_at_its_timeout(write: Write, server: Server) -> None:
    await write()


async def under_a_timeout_of_asyncio(write: Write, server: Server) -> None:
    async with asyncio.timeout(None) as scope:

        async def end() -> None:
            await server.is_sent()
            scope.reschedule(0)

        ending = asyncio.ensure_future(end())
        await write()
        await ending


async def beside_a_sibling_of_a_task_group_that_fails(write: Write, server: Server) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(write())  # type: ignore[arg-type]
        await server.is_sent()
        raise RuntimeError("a sibling")


async def beside_a_gathered_sibling_that_fails(write: Write, server: Server) -> None:
    async def fail() -> None:
        await server.is_sent()
        raise RuntimeError("a sibling")

    await asyncio.gather(write(), fail())


async def left_to_a_task(write: Write, server: Server) -> None:
    task = asyncio.ensure_future(write())
    await server.is_sent()
    raise RuntimeError(f"the run ends before {task}")


RUNS = (
    pytest.param(cancelled_at_its_timeout, marks=behaviour("findings3/NC12")),
    *(
        pytest.param(run, marks=behaviour("findings3/NC23"))
        for run in (
            under_a_timeout_of_asyncio,
            beside_a_sibling_of_a_task_group_that_fails,
            beside_a_gathered_sibling_that_fails,
            left_to_a_task,
        )
    ),
)


def end_runs(host: Any, server: Server, clock: ManualClock, begun: list[Any], count: int = 2) -> None:
    """Move the clock over the timeout of the run whose write was sent, and over the delay of its retry."""
    eventually(lambda: server.sent, LIMIT)

    def retried() -> bool:
        clock.advance(5)
        return len(begun) >= count

    eventually(retried, LIMIT, pause=0.05)
    host.run_until_idle()


@pytest.mark.parametrize("needs_leader", [True, False], ids=["leader", "replica"])
@pytest.mark.parametrize("run", RUNS)
def test_the_next_run_of_a_key_begins_after_the_writes_of_the_last_one(
    ctrlhost_host: Any, faults: Any, sandbox: Any, run: Any, needs_leader: bool
) -> None:
    begun: list[list[str]] = []
    server, clock = Server(faults()), ManualClock()

    async def reconcile(ctx: Any, request: ctrlhost.Request) -> None:
        begun.append(numbers(host))
        number = str(len(begun))

        async def write() -> None:
            await ctx.async_client.apply(secret(request.name, run=number))

        if number == "1":
            await run(write, server)
        else:
            await write()

    options = {"timeout": 3, "needs_leader": needs_leader}
    plugin = plugin_of(lambda plugin: plugin.add_controller("c", reconcile, MAPS, **options))
    host = ctrlhost_host(plugin, sandbox=sandbox, through=server.proxy, clock=clock)
    host.client.create(config_map("x", labels={"mine": "1"}))
    end_runs(host, server, clock, begun)
    assert begun == [[], ["1"]]
    assert numbers(host) == ["1", "2"]


@behaviour("findings3/NC12")
@behaviour("findings3/NC23")
@pytest.mark.parametrize("executor", [True, False], ids=["executor", "thread"])
def test_a_run_ends_after_the_writes_of_its_threads(
    ctrlhost_host: Any, faults: Any, sandbox: Any, executor: bool
) -> None:
    begun: list[list[str]] = []
    server, clock = Server(faults()), ManualClock()

    def write(ctx: Any, request: ctrlhost.Request) -> None:
        ctx.client.apply(secret(request.name, run=str(len(begun))))

    async def awaits(ctx: Any, request: ctrlhost.Request) -> None:
        begun.append(numbers(host))
        await asyncio.get_running_loop().run_in_executor(None, write, ctx, request)

    def leaves(ctx: Any, request: ctrlhost.Request) -> None:
        begun.append(numbers(host))
        if len(begun) > 1:
            write(ctx, request)
            return
        threading.Thread(target=write, args=(ctx, request)).start()
        eventually(lambda: server.sent, LIMIT)
        raise RuntimeError("the run ends before its thread")

    reconcile = awaits if executor else leaves
    plugin = plugin_of(lambda plugin: plugin.add_controller("c", reconcile, MAPS, timeout=3))
    host = ctrlhost_host(plugin, sandbox=sandbox, through=server.proxy, clock=clock)
    host.client.create(config_map("x", labels={"mine": "1"}))
    end_runs(host, server, clock, begun)
    assert begun == [[], ["1"]]
    assert numbers(host) == ["1", "2"]


@behaviour("findings3/NC12")
def test_a_write_without_an_answer_holds_the_key_until_its_connection_is_closed(
    ctrlhost_host: Any, faults: Any, sandbox: Any
) -> None:
    begun: list[int] = []
    server, clock = Server(faults(), Fault.stall()), ManualClock()
    plugin: ctrlhost.Plugin[None] = ctrlhost.Plugin()
    plugin.__name__ = "demo"

    @plugin.controller("v1/ConfigMap", name="maps", timeout=3)
    async def reconcile(ctx: Any, obj: Any) -> None:
        if obj.name != "x":
            return
        begun.append(calls(host))
        await ctx.client.apply(secret("of-a-run", run=str(len(begun))), timeout=2)

    host = ctrlhost_host(plugin, sandbox=sandbox, through=server.proxy, clock=clock)
    host.client.create(config_map("x"))
    end_runs(host, server, clock, begun)
    assert begun == [0, 0]
    assert numbers(host) == ["2"]


def writing_task(begun: list[Any], contexts: list[Any]) -> Any:
    """Return a plugin whose task of the leader writes a Secret, and waits for its end."""

    def setup(plugin: ctrlhost.PluginContext) -> None:
        contexts.append(plugin)

        async def run(stop: threading.Event) -> None:
            begun.append(None)
            await AsyncClient(plugin.client).apply(secret("of-a-task", run=str(len(begun))))
            await asyncio.Event().wait()

        plugin.add_task("writes", run, needs_leader=True)

    return plugin_of(setup)


def holders(host: Any) -> list[str]:
    """Return what each write is of, in the order of the server: a Secret, or the end or a renewal of a lease."""
    order: list[str] = []
    for write in host.sandbox.audit:
        if write.resource == "secrets":
            order.append("secret")
        elif write.resource == "leases" and b'"holderIdentity":""' in write.body.replace(b" ", b""):
            order.append("released")
    return order


@behaviour("findings3/NC13")
def test_a_lease_is_released_after_the_last_write(ctrlhost_host: Any, faults: Any, sandbox: Any) -> None:
    server = Server(faults())
    host = ctrlhost_host(writing_task([], []), sandbox=sandbox, through=server.proxy, leader_elect=True)
    eventually(lambda: server.sent, LIMIT)
    host.stop(LIMIT)
    assert holders(host) == ["secret", "released"]


@behaviour("findings3/NC13")
def test_a_lease_expires_if_a_write_has_no_answer_in_time(
    ctrlhost_host: Any, faults: Any, sandbox: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(faults(), Fault.stall())
    host = ctrlhost_host(writing_task([], []), sandbox=sandbox, through=server.proxy, leader_elect=True)
    eventually(lambda: server.sent, LIMIT)
    holder = lease(host.client)["holderIdentity"]
    host.stop(0.3)
    assert holders(host) == []
    assert lease(host.client)["holderIdentity"] == holder
    assert "plugin demo: writes without an answer at the end: 1" in caplog.messages
    # Nothing of the plugin can arrive later.
    eventually(lambda: calls(host) == 0, LIMIT)


@behaviour("findings3/NC13")
def test_the_task_of_the_next_term_begins_after_the_writes_of_the_last_one(
    ctrlhost_host: Any, faults: Any, sandbox: Any
) -> None:
    begun: list[Any] = []
    contexts: list[Any] = []
    server, clock = Server(faults()), ManualClock()
    host = ctrlhost_host(
        writing_task(begun, contexts), sandbox=sandbox, through=server.proxy, clock=clock, leader_elect=True
    )
    eventually(lambda: server.sent, LIMIT)
    lose(host, contexts[0])
    gain(host, contexts[0])
    eventually(lambda: len(numbers(host)) == 2, LIMIT)
    assert numbers(host) == ["1", "2"]
